package member

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/backoff"
	"github.com/raysys/raysys/store"
)

// Prober answers for the links of this node. All but Redial return at once.
type Prober interface {
	// Silence returns the time since the last frame of the node, over any link; false when there was none, or when
	// the last link was closed because it was not needed.
	Silence(node raysys.NodeID) (silent time.Duration, heard bool)
	// Relayed reports whether frames reach the node through a third one.
	Relayed(node raysys.NodeID) bool
	// Linked reports whether there is a session with this incarnation of the node, relayed or not.
	Linked(node raysys.NodeID, incarnation uint64) bool
	// Answered returns how long ago the ping was sent that this incarnation of the node answered last, by the larger
	// of monotonic and wall time (C16); false when there is no session with it, or it has answered none.
	Answered(node raysys.NodeID, incarnation uint64) (ago time.Duration, ok bool)
	// Withhold says whether the pings of this incarnation of the node stay without an answer, over links to come too.
	// It is not taken back for an incarnation that is gone. A ping that comes after Withhold has returned, and that
	// Silence does not count yet, gets none.
	Withhold(node raysys.NodeID, incarnation uint64, on bool)
	// PingBriskly pings these nodes several times a second, and no others.
	PingBriskly(nodes []Node)
	// Redial tries a new connection to the node: nil when it answered, ErrNotListening when the connection was refused.
	Redial(ctx context.Context, node Node) error
}

// Ballots carries the question to another monitor, whose Member.Ballot answers it.
type Ballots interface {
	// Ask asks the incarnation monitor for its ballot against the incarnation victim, under the guard of that number;
	// 0 for the slow way, without a guard.
	Ask(ctx context.Context, monitor, victim Node, guard uint64) (agrees bool, err error)
}

// Config names the node and the cluster that it joins. KV, ClusterID and Self's ID and Address are required.
type Config struct {
	// KV is the cluster's store; the member does not close it.
	KV store.KV
	// Cluster is the cluster's name, for errors and for the session's name.
	Cluster string
	// ClusterID is shardlog.Layout's, as the store had it when this process began to use it. A store that answers with
	// another one, or none, is not that store any more: ErrStoreReplaced.
	ClusterID string
	// Shards is how many shards there are, for View.Preferred.
	Shards int
	// Self is what this node tells of itself. Its Address must be bound: a former life of the node at that same address
	// is taken for dead.
	Self Info

	// TTL is that of the session, and so the lease. 0 means 10 s, which is the least that Consul takes. A dead node's
	// session may live for twice as long; a shorter TTL suspends nodes sooner when the store is away.
	TTL time.Duration
	// Silence is how long a host may be silent before the others end its session, without waiting for its lease:
	// MinSilence to the TTL. 0 means 4 s, or the TTL where that is shorter.
	Silence time.Duration
	// SuspectAfter is the silence after which a node is avoided. 0 means a third of the TTL, or half of Silence if
	// that is less.
	SuspectAfter time.Duration

	// Prober is nil where there are no links; then no node is ever suspected, and an eligible one is a host at once.
	Prober Prober
	// Ballots is nil where other monitors cannot be asked; then only a node with a single monitor can be evicted.
	Ballots Ballots

	// Sweep, where it is not nil, removes what the sessions of dead nodes left in the store. One member of the cluster
	// calls it every ten minutes.
	Sweep func(ctx context.Context) error

	// Clock is nil for the system's.
	Clock Clock
	// Jitter returns numbers in [0, 1) that spread retries; nil means random ones.
	Jitter func() float64

	// OnState is called for each change of state, the first Active excepted, before any step that depends on it: once
	// it has returned from Fenced or Left, the session is destroyed and others take over. cause matches ErrSuspended,
	// ErrFenced, ErrStoreReplaced or ErrClosed, and is nil for Active. It must not call Leave or Abandon.
	OnState func(s State, cause error)
	// OnAttempt is called for each attempt to join that failed for a reason that may pass.
	OnAttempt func(Attempt)
	// OnEvent is called for events that are worth a log line. It may be called from several goroutines at once.
	OnEvent func(Event)
}

// Attempt is one try to join that did not succeed.
type Attempt struct {
	N    int // 1 for the first
	Err  error
	Wait time.Duration // until the next one
}

// EventKind says what an Event is about.
type EventKind string

// The kinds of events.
const (
	Suspected     EventKind = "suspected"      // the node was not heard for SuspectAfter
	Heard         EventKind = "heard"          // a suspect was heard again
	VoteFailed    EventKind = "vote failed"    // a silent node stays; Err says why
	Evicted       EventKind = "evicted"        // a vote passed, by this member's doing; Why has its path
	Destroyed     EventKind = "destroyed"      // at once after the vote, or a lease later, its session was destroyed
	DeathProven   EventKind = "death proven"   // its session was destroyed at once
	PairBroken    EventKind = "pair broken"    // the node lives and this one does not hear it
	Yielded       EventKind = "yielded"        // this node leaves because of a broken pair
	RenewalFailed EventKind = "renewal failed" // Err says why; the lease goes on
	WatchFailed   EventKind = "watch failed"   // Err says why; it is tried again
	BecameHost    EventKind = "became a host"  // enough hosts have a session with this node
	Garbage       EventKind = "garbage"        // the store holds what no member wrote; Err says what becomes of it
	PromiseOut    EventKind = "promise out"    // too few electors answer this node; Why says which
	PromiseBack   EventKind = "promise back"   // enough answer again
)

// Event is something that an operator may want to know.
type Event struct {
	Kind        EventKind
	Node        raysys.NodeID // the node that it is about, "" for this one
	Incarnation uint64
	Err         error
	Why         string
}

// MinSilence is the least Config.Silence, but where the TTL is shorter.
const MinSilence = 600 * time.Millisecond

// normal validates c and fills in the defaults.
func (c Config) normal() (Config, error) {
	switch {
	case c.KV == nil:
		return c, fmt.Errorf("%w: member.Config without a KV", raysys.ErrBadOption)
	case c.ClusterID == "":
		return c, fmt.Errorf("%w: member.Config without a ClusterID: a replaced store would go unnoticed", raysys.ErrBadOption)
	case c.Shards < 0:
		return c, fmt.Errorf("%w: member.Config has %d shards", raysys.ErrBadOption, c.Shards)
	case c.TTL < 0 || c.SuspectAfter < 0 || c.SuspectAfter > c.ttl():
		return c, fmt.Errorf("%w: member.Config has TTL %v and SuspectAfter %v", raysys.ErrBadOption, c.TTL, c.SuspectAfter)
	case c.Silence != 0 && (c.Silence < min(MinSilence, c.ttl()) || c.Silence > c.ttl()):
		return c, fmt.Errorf("%w: member.Config has Silence %v: give %v to the TTL of %v",
			raysys.ErrBadOption, c.Silence, min(MinSilence, c.ttl()), c.ttl())
	}
	if err := c.Self.Validate(); err != nil {
		return c, err
	}
	c.TTL = c.ttl()
	if c.Silence == 0 {
		c.Silence = min(4*time.Second, c.TTL)
	}
	if c.SuspectAfter == 0 {
		c.SuspectAfter = min(c.TTL/3, c.Silence/2)
	}
	if c.Self.Role == "" {
		c.Self.Role = Worker
	}
	if c.Clock == nil {
		c.Clock = newSystemClock()
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	return c, nil
}

func (c Config) ttl() time.Duration {
	if c.TTL == 0 {
		return 10 * time.Second
	}
	return c.TTL
}

// A host may be silent for Silence. Its electors promise a little less, and others accuse it a little later, so that
// the pings of the three, which come at different moments, need not agree.
func (c Config) margin() time.Duration      { return min(200*time.Millisecond, c.Silence/3) }
func (c Config) promise() time.Duration     { return c.Silence - c.margin() }
func (c Config) accuseAfter() time.Duration { return c.Silence + c.margin() }

// accusedAfter is the silence of a node after which its electors are asked, and after which the ring is. Where a
// lease is not much longer than Silence the electors are asked more than once before.
func (c Config) accusedAfter(n Node) (fast, slow time.Duration) {
	if !n.guarded() {
		return c.TTL, c.TTL
	}
	return c.accuseAfter(), max(c.TTL, c.accuseAfter()+c.Silence/8)
}

// pauses are those between attempts.
func (c Config) pauses() *backoff.Doubling {
	return &backoff.Doubling{First: c.TTL / 100, Longest: c.TTL / 10, Draw: c.Jitter}
}
