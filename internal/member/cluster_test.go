package member_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/embedded"
)

const (
	ttl       = 10 * time.Second
	clusterID = "c0ffee"
	shards    = 32
)

// cluster is a number of members on one store in memory, with a network that can be cut, in virtual time. Its sessions live
// for twice their TTL, as Consul's may.
type cluster struct {
	t     testing.TB
	kv    store.KV
	open  func() store.KV // of one more node: a Consul client has watches for one
	real  bool            // time is real, and the store may be
	ttl   time.Duration
	begun time.Time
	// lenience is how many TTLs a session lives.
	lenience int
	patience time.Duration // Config.Silence; 0: its default

	mu     sync.Mutex // guards what follows
	nodes  map[string]*node
	lost   map[way]time.Time // frames this way are lost, since when
	relays bool              // pairs that are cut are relayed
	events []string
}

type way struct{ from, to string }

type node struct {
	c     *cluster
	name  string
	kv    *flaky.KV
	gate  *gate
	clock *testClock
	m     *member.Member

	// guarded by cluster.mu
	dead   time.Time // since when, zero while it lives
	stop   time.Time // since when it was stopped, kept for a moment after it goes on
	goesOn time.Time
	// withheld are the incarnations whose pings it does not answer, since which ping.
	withheld map[uint64]time.Time
}

// lenient makes sessions live longer than their TTL, as Consul does, and sees to it that nobody ends the session of another node
// that lives and may still answer from memory.
type lenient struct {
	store.KV
	n *node
}

func (k lenient) NewSession(ctx context.Context, name string, ttl time.Duration) (string, error) {
	return k.KV.NewSession(ctx, name, time.Duration(k.n.c.lenience)*ttl)
}

func (k lenient) Destroy(ctx context.Context, session string) error {
	c := k.n.c
	c.mu.Lock()
	var victims []*node
	for _, n := range c.nodes {
		if n != k.n && n.dead.IsZero() && n.m.Session() == session {
			victims = append(victims, n)
		}
	}
	c.mu.Unlock()
	for _, n := range victims {
		if n.m.Promised() {
			c.t.Errorf("%s destroys the session of %s, which may answer from memory for another %v", k.n.name, n.name, member.StatsOf(n.m).PromiseLeft)
		}
	}
	return k.KV.Destroy(ctx, session)
}

// virtual runs f on a cluster in a bubble of virtual time.
func virtual(t *testing.T, f func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.close()
		f(c)
	})
}

func newCluster(t testing.TB) *cluster {
	kv, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return newClusterOn(t, kv)
}

func newClusterOn(t testing.TB, kv store.KV) *cluster {
	c := &cluster{t: t, kv: kv, open: func() store.KV { return kv }, ttl: ttl, begun: time.Now(), lenience: 2, nodes: map[string]*node{}, lost: map[way]time.Time{}}
	c.set("config", fmt.Sprintf(`{"id":%q}`, clusterID))
	return c
}

func (c *cluster) close() {
	for _, n := range c.nodes {
		n.gate.open()
		n.m.Abandon()
	}
	if err := c.kv.Close(); err != nil {
		c.t.Error(err)
	}
}

func (c *cluster) set(key, value string) {
	c.t.Helper()
	if _, err := c.kv.Txn(context.Background(), []store.Op{store.Set(key, []byte(value))}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) keys(prefix string) []string {
	c.t.Helper()
	keys, err := c.kv.Keys(context.Background(), prefix)
	if err != nil {
		c.t.Fatal(err)
	}
	return keys
}

// prepare makes a node that has not joined, with the Config to join with.
func (c *cluster) prepare(name string) (*node, member.Config) {
	n := &node{c: c, name: name, clock: &testClock{}, withheld: map[uint64]time.Time{}}
	n.kv = flaky.Wrap(lenient{c.open(), n})
	n.gate = &gate{KV: n.kv}
	n.clock.gate = n.gate
	return n, member.Config{
		KV: n.gate, TTL: c.ttl, Silence: c.patience, Cluster: "test", ClusterID: clusterID, Shards: shards,
		Self:   member.Info{ID: raysys.NodeID(name), Address: name + ":1"},
		Clock:  n.clock,
		Jitter: func() float64 { return 0.5 },
		Prober: prober{n}, Ballots: ballots{n},
		OnState: func(s member.State, cause error) {
			text := fmt.Sprintf("%s is %v", name, s)
			for _, known := range []error{raysys.ErrFenced, raysys.ErrStoreReplaced, raysys.ErrUnreachable} {
				if errors.Is(cause, known) {
					text += ", " + strings.SplitN(known.Error(), ":", 2)[0]
				}
			}
			c.log(text)
		},
		OnAttempt: func(a member.Attempt) { c.log(fmt.Sprintf("%s tries again", name)) },
		OnEvent: func(e member.Event) {
			switch e.Kind {
			case member.RenewalFailed, member.WatchFailed, member.VoteFailed, member.BecameHost:
			case member.Evicted, member.Destroyed, member.DeathProven: // whoever does it first
				c.log(fmt.Sprintf("%s: %s", e.Node, e.Kind))
			case member.Yielded:
				c.log(name + " yields")
			default:
				c.log(fmt.Sprintf("%s: %s %s", name, e.Kind, e.Node))
			}
		},
	}
}

func (c *cluster) log(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, fmt.Sprintf("%5.1fs %s", time.Since(c.begun).Seconds(), text))
}

// took returns the events since the last call, in the order of time, and then of the alphabet: what happens in one moment of
// virtual time has no order.
func (c *cluster) took() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	events := c.events
	c.events = nil
	slices.Sort(events)
	return slices.Compact(events)
}

func (c *cluster) join(names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.joinAs(name, func(*member.Config) {})
	}
}

func (c *cluster) joinAs(name string, change func(*member.Config)) *node {
	c.t.Helper()
	n, cfg := c.prepare(name)
	change(&cfg)
	m, err := member.Join(context.Background(), cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.add(n, m)
	return n
}

// add takes a node that joined into the network.
func (c *cluster) add(n *node, m *member.Member) {
	c.mu.Lock()
	n.m = m
	old := c.nodes[n.name]
	c.nodes[n.name] = n
	c.mu.Unlock()
	if old != nil {
		old.gate.open()
		old.m.Abandon()
	}
	c.settle()
}

// settle lets everything happen that happens in no time.
func (c *cluster) settle() {
	if !c.real {
		synctest.Wait()
	}
}

func (c *cluster) pass(d time.Duration) {
	<-time.After(d)
	c.settle()
}

func (c *cluster) node(name string) *node {
	c.t.Helper()
	n := c.nodes[name]
	if n == nil {
		c.t.Fatalf("there is no node %q", name)
	}
	return n
}

func (c *cluster) member(name string) *member.Member {
	c.t.Helper()
	return c.node(name).m
}

// cut loses frames from a to b. They do not notice but by silence.
func (c *cluster) cut(from, to string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.lost[way{from, to}]; !ok {
		c.lost[way{from, to}] = time.Now()
	}
}

func (c *cluster) part(a, b []string) {
	for _, x := range a {
		for _, y := range b {
			c.cut(x, y)
			c.cut(y, x)
		}
	}
}

func (c *cluster) heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.lost)
}

// kill ends a node's process: its links are reset.
func (c *cluster) kill(name string) {
	n := c.node(name)
	c.mu.Lock()
	n.dead = time.Now()
	c.mu.Unlock()
	n.gate.open()
	n.m.Abandon()
	for _, other := range c.nodes {
		if other != n && other.alive() {
			other.m.LinkReset(raysys.NodeID(name), n.m.Incarnation())
		}
	}
	c.settle()
}

func (n *node) alive() bool {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	return n.dead.IsZero()
}

// freeze stops a process, as SIGSTOP does, thaw lets it go on.
func (c *cluster) freeze(name string) {
	n := c.node(name)
	c.mu.Lock()
	if n.stop.IsZero() || !n.goesOn.IsZero() { // it is not stopped already
		n.stop, n.goesOn = time.Now(), time.Time{}
	}
	c.mu.Unlock()
	n.gate.shut()
}

func (c *cluster) thaw(name string) {
	n := c.node(name)
	c.mu.Lock()
	if n.goesOn.IsZero() { // else it runs already
		n.goesOn = time.Now()
	}
	c.mu.Unlock()
	n.gate.open()
	c.settle()
}

// silence is since when the node to has heard nothing of the node from.
func (c *cluster) silence(from, to *node) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	const ping = 100 * time.Millisecond
	now := time.Now()
	since := func(at time.Time) time.Duration { return max(now.Sub(at), ping) }
	if from == nil {
		return 0, false
	}
	if !from.dead.IsZero() {
		return since(from.dead), true
	}
	longest := ping
	if at, ok := c.lost[way{from.name, to.name}]; ok {
		longest = since(at)
	}
	// A stopped process sends nothing and reads nothing, and has read nothing yet in the moment that it goes on.
	for _, n := range []*node{from, to} {
		if !n.stop.IsZero() && (n.goesOn.IsZero() || now.Sub(n.goesOn) < ping) {
			longest = max(longest, since(n.stop))
		}
	}
	return longest, true
}

func (c *cluster) reaches(from, to *node) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, there := c.lost[way{from.name, to.name}]
	_, back := c.lost[way{to.name, from.name}]
	stopped := !to.stop.IsZero() && to.goesOn.IsZero()
	return !there && !back && !stopped && to.dead.IsZero()
}

// memberOf is the membership of a node, nil where it has none yet: others may see its record before its Join has returned.
func (c *cluster) memberOf(n *node) *member.Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n == nil {
		return nil
	}
	return n.m
}

type prober struct{ n *node }

func (p prober) find(id raysys.NodeID) *node {
	p.n.c.mu.Lock()
	defer p.n.c.mu.Unlock()
	return p.n.c.nodes[string(id)]
}

func (p prober) Silence(id raysys.NodeID) (time.Duration, bool) {
	return p.n.c.silence(p.find(id), p.n)
}

// Answered is as long ago as the last frame that came from there, and the last that went there: a pong needs both ways.
func (p prober) Answered(id raysys.NodeID, incarnation uint64) (time.Duration, bool) {
	to := p.find(id)
	if m := p.n.c.memberOf(to); m == nil || m.Incarnation() != incarnation {
		return 0, false
	}
	there, _ := p.n.c.silence(p.n, to)
	back, ok := p.n.c.silence(to, p.n)
	p.n.c.mu.Lock()
	defer p.n.c.mu.Unlock()
	if p.n.m == nil { // it has joined this moment
		return 0, false
	}
	if at, is := to.withheld[p.n.m.Incarnation()]; is {
		there = max(there, time.Since(at))
	}
	return max(there, back), ok
}

func (p prober) Withhold(id raysys.NodeID, incarnation uint64, on bool) {
	there, _ := p.n.c.silence(p.n, p.find(id))
	back, _ := p.n.c.silence(p.find(id), p.n)
	p.n.c.mu.Lock()
	defer p.n.c.mu.Unlock()
	if _, is := p.n.withheld[incarnation]; !is && on {
		p.n.withheld[incarnation] = time.Now().Add(-max(there, back))
	} else if !on {
		delete(p.n.withheld, incarnation)
	}
}

func (p prober) PingBriskly([]member.Node) {}

func (p prober) Relayed(id raysys.NodeID) bool {
	p.n.c.mu.Lock()
	defer p.n.c.mu.Unlock()
	to := p.n.c.nodes[string(id)]
	return p.n.c.relays && to != nil && to.dead.IsZero() && to.stop.IsZero()
}

func (p prober) Linked(id raysys.NodeID, _ uint64) bool {
	to := p.find(id)
	return to != nil && p.n.c.reaches(p.n, to)
}

func (p prober) Redial(ctx context.Context, to member.Node) error {
	n := p.find(to.ID)
	switch {
	case n == nil || n.alive() && !p.n.c.reaches(p.n, n):
		<-ctx.Done()
		return ctx.Err()
	case !n.alive():
		return member.ErrNotListening
	}
	return nil
}

type ballots struct{ n *node }

func (b ballots) Ask(ctx context.Context, monitor, victim member.Node, guard uint64) (bool, error) {
	to := prober(b).find(monitor.ID)
	if to == nil || !b.n.c.reaches(b.n, to) {
		<-ctx.Done()
		return false, ctx.Err()
	}
	m := b.n.c.memberOf(to)
	if m == nil || m.Incarnation() != monitor.Incarnation {
		return false, errors.New("that incarnation is gone")
	}
	return m.Ballot(victim.ID, victim.Incarnation, guard), nil
}

// names are the members that a node sees.
func (c *cluster) names(of string) []string {
	c.t.Helper()
	var names []string
	for _, n := range c.member(of).View().Nodes() {
		names = append(names, string(n.ID))
	}
	return names
}

func (c *cluster) suspects(of string) []string {
	c.t.Helper()
	var names []string
	for _, n := range c.member(of).View().Nodes() {
		if n.Suspect {
			names = append(names, string(n.ID))
		}
	}
	return names
}
