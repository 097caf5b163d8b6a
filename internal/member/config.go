package member

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/store"
)

// Prober answers for the links of this node. All but Redial answer from memory, at once.
type Prober interface {
	// Silence returns the time since the last frame of the node, over any link; false when there was none, or when
	// the last link was closed because it was not needed.
	Silence(node raysys.NodeID) (silent time.Duration, heard bool)
	// Relayed reports whether frames reach the node through a third one.
	Relayed(node raysys.NodeID) bool
	// Linked reports whether there is a session with this incarnation of the node, relayed or not.
	Linked(node raysys.NodeID, incarnation uint64) bool
	// Redial tries a new connection to the node: nil when it answered, ErrNotListening when the connection was refused.
	Redial(ctx context.Context, node Node) error
}

// Ballots carries the question to another monitor, whose Member.Ballot answers it.
type Ballots interface {
	// Ask asks monitor whether it does not hear this incarnation of victim either.
	Ask(ctx context.Context, monitor, victim raysys.NodeID, incarnation uint64) (agrees bool, err error)
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
	// SuspectAfter is the silence after which a node is avoided. 0 means a third of the TTL: three pings of the link.
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
	Evicted       EventKind = "evicted"        // a vote passed, by this member's doing
	Destroyed     EventKind = "destroyed"      // a lease after the vote its session was destroyed
	DeathProven   EventKind = "death proven"   // its session was destroyed at once
	PairBroken    EventKind = "pair broken"    // the node lives and this one does not hear it
	Yielded       EventKind = "yielded"        // this node leaves because of a broken pair
	RenewalFailed EventKind = "renewal failed" // Err says why; the lease goes on
	WatchFailed   EventKind = "watch failed"   // Err says why; it is tried again
	BecameHost    EventKind = "became a host"  // enough hosts have a session with this node
	Garbage       EventKind = "garbage"        // the store holds what no member wrote; Err says what becomes of it
)

// Event is something that an operator may want to know.
type Event struct {
	Kind        EventKind
	Node        raysys.NodeID // the node that it is about, "" for this one
	Incarnation uint64
	Err         error
}

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
	}
	if err := c.Self.Validate(); err != nil {
		return c, err
	}
	c.TTL = c.ttl()
	if c.SuspectAfter == 0 {
		c.SuspectAfter = c.TTL / 3
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

// backoff is the pause between attempts: it doubles from lo to hi, and a random half of it is left out, so that nodes
// that lost the store together do not come back together.
type backoff struct {
	lo, hi time.Duration
	jitter func() float64
	last   time.Duration
}

func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, b.lo), b.hi)
	return b.last/2 + time.Duration(b.jitter()*float64(b.last/2))
}

func (b *backoff) reset() { b.last = 0 }

func (c Config) backoff() *backoff {
	return &backoff{lo: c.TTL / 100, hi: c.TTL / 10, jitter: c.Jitter}
}
