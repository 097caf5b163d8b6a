package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/backoff"
	"github.com/raysys/raysys/store"
)

// A host names its electors: the up to three members that may end its session without waiting for its lease. The key
// guards/<incarnation>, which goes with the node's session, has their incarnations; its ModifyIndex is the guard's
// number. The node alone writes it, and whoever evicts the node by its electors does so on condition that the number
// has not changed.
//
//	v ──── ping ────► elector       the pong promises: no ballot against v before v was silent for Config.promise
//	accuser ── ballot under guard 7 ──► elector: no pongs for v from here on, until it reads a guard above 7
//	accuser ── evict, if the guard is still 7 ──► store
//
// So v may answer from memory while so many promises hold that those who made none are too few to evict it
// (promise.go).

const guardPrefix = "guards/"

func guardKey(incarnation uint64) string { return fmt.Sprintf("%s%d", guardPrefix, incarnation) }

// guardValue is the value of guards/<incarnation>.
type guardValue struct {
	V        int      `json:"v"`
	Write    uint64   `json:"write"` // another one in each write: a store takes no write that changes nothing
	Electors []uint64 `json:"electors"`
}

// decodeGuard reads a guard; an absent one names nobody.
func decodeGuard(p store.Pair) (guardValue, error) {
	var v guardValue
	if p.Create == 0 {
		return v, nil
	}
	err := json.Unmarshal(p.Value, &v)
	slices.Sort(v.Electors)
	switch {
	case err != nil:
	case v.V < 1:
		err = errors.New("it has no version")
	case len(v.Electors) > monitorsPerNode || slices.Contains(v.Electors, 0),
		len(slices.Compact(slices.Clone(v.Electors))) < len(v.Electors):
		err = fmt.Errorf("it names electors %v: they are up to %d, each once", v.Electors, monitorsPerNode)
	default:
		return v, nil
	}
	return guardValue{}, fmt.Errorf("read %s: %w: %w", p.Key, store.ErrCorrupt, err)
}

// guard is this node's own.
type guard struct {
	m       *Member
	current atomic.Pointer[promise] // what Promised compares the time with

	mu       sync.Mutex // guards what follows
	known    []Node     // the electors in force, unless a write in open has succeeded
	index    uint64     // the guard's number; 0 while it is not there
	open     [][]Node   // the electors of writes whose outcome is not known
	writes   uint64
	answered map[uint64]reading // by incarnation: when the ping was sent that the elector answered last

	// The rest is used by run only.
	brisk   []Node // who is pinged briskly
	unsure  bool   // an outcome is not known: read the guard before it is written
	out     bool   // PromiseOut was told
	refresh *backoff.Doubling
	again   time.Duration // when the guard may be written anew because an elector gives no pongs
}

func (g *guard) init(m *Member) {
	g.m = m
	g.answered = map[uint64]reading{}
	g.refresh = &backoff.Doubling{First: mutedAfter, Longest: 8 * time.Second, Draw: func() float64 { return 0.5 }}
	g.current.Store(&promise{left: forever})
}

const (
	// mutedAfter is how long an elector that is heard may give no pong before the guard is written anew: its ballot,
	// if it gave one, is void then.
	mutedAfter = time.Second
	// replacedAfter is the same before another member takes its place.
	replacedAfter = 2 * time.Second
)

// run is the goroutine that keeps the guard.
func (g *guard) run() {
	a := newAlarm(g.m.cfg.Clock)
	defer func() { a.stop() }()
	for {
		v := g.m.View()
		g.stepGuard(v)
		a.set(g.m.cfg.Silence / 16)
		select {
		case <-a.C:
		case <-v.Changed():
		case <-g.m.ctx.Done():
			return
		}
	}
}

// stepGuard writes the guard if it has to change, and tells when the promises ran out.
func (g *guard) stepGuard(v *View) {
	m := g.m
	left := g.renew()
	self, ok := v.Incarnation(m.incarnation)
	if !ok || !self.guarded() || State(m.state.Load()) != Active || m.lease.left() == 0 {
		return
	}
	if out := left <= 0; out != g.out {
		g.out = out
		if out {
			tell(m, Event{Kind: PromiseOut, Node: self.ID, Incarnation: m.incarnation, Why: g.unanswered()})
		} else {
			tell(m, Event{Kind: PromiseBack, Node: self.ID, Incarnation: m.incarnation})
		}
	}
	known := g.electors()
	want := g.choose(v, self, known, false)
	brisk := want
	if wish := g.choose(v, self, known, true); len(want) < len(wish) {
		brisk = slices.Concat(want, wish) // who answers first is an elector first
	}
	if !sameNodes(brisk, g.brisk) {
		g.brisk = brisk
		m.cfg.Prober.PingBriskly(brisk)
	}
	now := m.cfg.Clock.Mono()
	muted := g.muted(want)
	if sameNodes(want, known) && !g.unsure && !muted {
		g.refresh.Reset()
		g.again = 0
		return
	}
	if now < g.again {
		return
	}
	if muted || g.unsure {
		g.again = now + g.refresh.Next()
	}
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.TTL/4)
	defer cancel()
	if g.unsure && g.readBack(ctx) != nil {
		return
	}
	if err := g.put(ctx, want); err != nil && m.ctx.Err() == nil {
		g.unsure = true
		m.event(WatchFailed, Node{}, err)
	}
}

// electors returns those in force, as far as this node knows.
func (g *guard) electors() []Node {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known
}

func among(list []Node, n Node) bool { return slices.ContainsFunc(list, n.is) }

func sameNodes(a, b []Node) bool {
	return slices.EqualFunc(a, b, Node.is)
}

// silentFor is how long a member has given no pong; of an elector one over an earlier connection counts.
func (g *guard) silentFor(n Node) time.Duration {
	ago, ok := g.m.cfg.Prober.Answered(n.ID, n.Incarnation)
	if !ok {
		ago = forever
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if sent, ok := g.answered[n.Incarnation]; ok {
		ago = min(ago, sent.elapsed(g.m.cfg.Clock))
	}
	return ago
}

// muted reports whether an elector is heard and gives no pongs: it may have given its ballot.
func (g *guard) muted(electors []Node) bool {
	return slices.ContainsFunc(electors, func(n Node) bool {
		silent, heard := g.m.cfg.Prober.Silence(n.ID)
		return heard && silent < mutedAfter && g.silentFor(n) > mutedAfter
	})
}

// choose returns who should be the electors: hosts on other machines first, each on one of its own, then other hosts,
// then drivers. Those that are stay, in each of these classes, so that a join changes few guards; the ring spreads
// the others. An elector that answers no more gives way to a member that does, and stays where there is none: a node
// that is cut off keeps its judges. With all, those count too that have answered nothing yet.
func (g *guard) choose(v *View, self Node, known []Node, all bool) []Node {
	members := make(map[raysys.NodeID]Node, len(v.nodes))
	otherHost := false
	for _, n := range v.nodes {
		members[n.ID] = n
		otherHost = otherHost || n.Hosts() && n.Incarnation != self.Incarnation
	}
	if !otherHost {
		return nil
	}
	var order, last []Node // those who are electors first, but for those that do not answer
	for _, n := range known {
		now, ok := v.Incarnation(n.Incarnation)
		switch {
		case !ok:
		case g.silentFor(n) > replacedAfter:
			last = append(last, now)
		default:
			order = append(order, now)
		}
	}
	at := slices.Index(v.ring, self.ID)
	for i := range v.ring {
		n := members[v.ring[(at+1+i)%len(v.ring)]]
		if n.Incarnation != self.Incarnation && !among(known, n) && n.promise > 0 && !n.Observer && !n.Joining {
			order = append(order, n)
		}
	}
	own := hostOf(self.Address)
	taken := map[string]bool{own: true}
	var chosen []Node
	pick := func(list []Node, fits func(Node) bool) {
		for _, n := range list {
			if len(chosen) == monitorsPerNode {
				return
			}
			if !among(chosen, n) && fits(n) && (all || among(known, n) || g.silentFor(n) < mutedAfter) {
				chosen = append(chosen, n)
				taken[hostOf(n.Address)] = true
			}
		}
	}
	for _, hosts := range []bool{true, false} {
		pick(order, func(n Node) bool { return n.Hosts() == hosts && !taken[hostOf(n.Address)] })
		pick(order, func(n Node) bool { return n.Hosts() == hosts && hostOf(n.Address) != own })
		pick(order, func(n Node) bool { return n.Hosts() == hosts })
	}
	pick(last, func(Node) bool { return true })
	slices.SortFunc(chosen, func(a, b Node) int { return compare(a.Incarnation, b.Incarnation) })
	return chosen
}

// put writes the guard. Until the outcome is known, the electors that were and those that are to be must both have
// promised.
func (g *guard) put(ctx context.Context, want []Node) error {
	m := g.m
	value := guardValue{V: recordVersion, Electors: []uint64{}}
	for _, n := range want {
		value.Electors = append(value.Electors, n.Incarnation)
	}
	g.mu.Lock()
	if g.index == 0 && len(want) == 0 && len(g.open) == 0 {
		g.mu.Unlock()
		return nil // an absent guard says the same
	}
	g.writes++
	value.Write = g.writes
	if !slices.ContainsFunc(g.open, func(o []Node) bool { return sameNodes(o, want) }) {
		g.open = append(g.open, want)
	}
	g.renewLocked() // before the write begins
	check := store.CheckIndex(guardKey(m.incarnation), g.index)
	if g.index == 0 {
		check = store.CheckNotExists(guardKey(m.incarnation))
	}
	g.mu.Unlock()
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode the guard of %s: %w", m.cfg.Self.ID, err)
	}
	pairs, err := m.cfg.KV.Txn(ctx, []store.Op{
		store.CheckSession(nodeKey(m.cfg.Self.ID), m.session), store.CheckNotExists(evictKey(m.incarnation)),
		check, store.Lock(guardKey(m.incarnation), data, m.session),
	})
	if err != nil {
		if errors.Is(err, store.ErrRefused) {
			m.Recheck() // this incarnation may be over
		}
		return fmt.Errorf("write the electors of node %s: %w", m.cfg.Self.ID, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settleLocked(want, pairs[3].Modify)
	return nil
}

// settleLocked notes which electors are in force. No write from before can succeed any more: it names an older number.
// With mu held.
func (g *guard) settleLocked(electors []Node, index uint64) {
	g.known, g.index, g.open, g.unsure = electors, index, nil, false
	maps.DeleteFunc(g.answered, func(id uint64, _ reading) bool { return !among(electors, Node{Incarnation: id}) })
	g.renewLocked()
}

// readBack finds out what the store has after a write whose outcome is not known.
func (g *guard) readBack(ctx context.Context) error {
	m := g.m
	pairs, err := m.cfg.KV.Txn(ctx, []store.Op{store.Read(guardKey(m.incarnation))})
	if err != nil {
		return err
	}
	p := pairs[0]
	value, err := decodeGuard(p)
	if err != nil {
		m.reportGarbage(p, fmt.Errorf("%w: it is written anew", err))
	}
	ours := err == nil && p.Session == m.session && value.Write <= g.writes
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.Modify == g.index { // none of them was made yet
		return nil
	}
	for _, set := range g.open {
		if ours && slices.EqualFunc(value.Electors, set, func(id uint64, n Node) bool { return id == n.Incarnation }) {
			g.settleLocked(set, p.Modify)
			return nil
		}
	}
	// An operator, or another program, wrote it, or removed it. Until it is replaced no promise is enough.
	g.index = p.Modify
	g.open = append(g.open, []Node{{Info: Info{ID: "?"}}})
	g.renewLocked()
	return nil
}

// unanswered says which electors do not answer.
func (g *guard) unanswered() string {
	var names []string
	electors := g.electors()
	for _, n := range electors {
		if g.silentFor(n) >= n.promise {
			names = append(names, string(n.ID))
		}
	}
	return fmt.Sprintf("of %d electors these do not answer: %s; reads of States, and turns of grains, wait for the store",
		len(electors), strings.Join(names, ", "))
}
