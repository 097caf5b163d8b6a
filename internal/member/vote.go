package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/backoff"
	"github.com/raysys/raysys/store"
)

// accuse begins a vote on a node that was silent for too long, unless one is under way, and returns when to look
// again. slow allows the way without its electors. With g.mu held.
func (g *failureDetector) accuse(v *View, n Node, slow bool, now time.Duration) time.Duration {
	m := g.m
	later := m.cfg.TTL
	if _, done := g.awaitingLeaseEnd[n.Incarnation]; done || g.asking[n.Incarnation] || m.State() != Active {
		return later
	}
	again, asked := g.retry[n.Incarnation]
	if !asked {
		pause := &backoff.Doubling{First: m.cfg.Silence / 20, Longest: m.cfg.Silence / 2, Draw: m.cfg.Jitter}
		again = retry{at: now, pause: pause}
		if self, ok := v.Incarnation(m.incarnation); ok && len(v.nodes) == 2 && n.before(self) {
			// Each of two can evict the other, and both may live: the senior one goes first.
			again.at += m.cfg.margin()
		}
		g.retry[n.Incarnation] = again
	}
	if wait := again.at - now; wait > 0 {
		return wait
	}
	if !g.fit(v, now) {
		again.at = now + m.cfg.Silence/10
		g.retry[n.Incarnation] = again
		return m.cfg.Silence / 10
	}
	if !m.start(func() { g.vote(v, n, slow) }) {
		return later
	}
	g.asking[n.Incarnation] = true
	return later
}

// vote asks the electors of a node, and then, where slow allows it, its monitors on the ring. If enough agree, it
// evicts.
func (g *failureDetector) vote(v *View, n Node, slow bool) {
	m, path := g.m, pathFast
	verdict, written, err := g.byElectors(v, n)
	if fast := err; fast != nil && slow {
		path = pathSlow
		verdict, written, err = g.byRing(v, n, fast)
	}
	now := m.cfg.Clock.Mono() // after the verdict was written
	g.mu.Lock()
	delete(g.asking, n.Incarnation)
	if err == nil {
		due := now
		if !verdict.Promised {
			due += leaseOf(n, m.cfg.TTL)
		}
		g.awaitingLeaseEnd[n.Incarnation] = pendingEviction{node: n, due: due}
		g.voted[n.Incarnation] = true
	} else if again, ok := g.retry[n.Incarnation]; ok {
		again.at = now + again.pause.Next()
		g.retry[n.Incarnation] = again
	}
	g.mu.Unlock()
	if written {
		g.evicted[path].Add(1)
		tell(m, Event{Kind: Evicted, Node: n.ID, Incarnation: n.Incarnation, Why: verdict.Why})
	} else if err != nil && m.ctx.Err() == nil {
		m.event(VoteFailed, n, err)
	}
	signal(g.wake)
}

// leaseOf is how long a node may go on after a verdict that its electors did not give: its own lease, which own
// stands for where its record does not say it, and a little for clocks that do not run at quite the same rate.
func leaseOf(n Node, own time.Duration) time.Duration {
	ttl := n.TTL
	if ttl == 0 {
		ttl = own
	}
	return ttl + ttl/50
}

// byElectors evicts a node by the ballots of the electors that its guard names. Its session may be destroyed at once
// then: too few electors are left that hold a promise to it, and none of those who gave a ballot makes another while
// the guard has that number.
func (g *failureDetector) byElectors(v *View, n Node) (verdict vote, written bool, err error) {
	m := g.m
	none := func(why string) (vote, bool, error) {
		return vote{}, false, fmt.Errorf("node %s, incarnation %d: %w: %s", n.ID, n.Incarnation, errHeard, why)
	}
	if !n.guarded() {
		return none("it has no electors: it is a driver, is joining, or its program is from before")
	}
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.TTL/4)
	defer cancel()
	key := guardKey(n.Incarnation)
	pairs, err := m.cfg.KV.Txn(ctx, []store.Op{store.Read(key), store.Read(evictKey(n.Incarnation))})
	if err != nil {
		return vote{}, false, fmt.Errorf("read the guard of node %s: %w", n.ID, err)
	}
	p := pairs[0]
	if pairs[1].Create != 0 {
		return decodeVote(pairs[1].Value), false, nil
	}
	value, err := decodeGuard(p)
	switch {
	case err != nil:
		m.reportGarbage(p, err)
		return none("its guard cannot be read")
	case p.Session != n.session || len(value.Electors) == 0:
		return none("its guard names no electors")
	}
	electors := make([]Node, len(value.Electors))
	for i, id := range value.Electors {
		electors[i], _ = v.Incarnation(id)
	}
	agreed, err := g.poll(n, electors, p.Modify)
	if err != nil {
		return vote{}, false, err
	}
	why := fmt.Sprintf("not heard for %v, by its electors", m.cfg.accuseAfter())
	return m.evict(m.ctx, n, vote{Why: why, Agreed: agreed, Promised: true}, store.CheckIndex(key, p.Modify))
}

// byRing evicts a node because its monitors do not hear it for a lease; fast is why its electors did not.
func (g *failureDetector) byRing(v *View, n Node, fast error) (verdict vote, written bool, err error) {
	m := g.m
	var monitors []Node
	for _, id := range v.Monitors(n.ID) {
		other, _ := v.Node(id)
		monitors = append(monitors, other)
	}
	agreed, err := g.poll(n, monitors, 0)
	if err != nil {
		return vote{}, false, fmt.Errorf("%w; %w", fast, err)
	}
	verdict, written, err = m.evict(m.ctx, n, vote{Why: fmt.Sprintf("not heard for %v", m.cfg.TTL), Agreed: agreed})
	if written && n.guarded() {
		verdict.Why += fmt.Sprintf(", by its monitors, since: %v", fast)
	}
	return verdict, written, err
}

// poll asks for the ballots of these members against n at once and returns those that agree, as soon as they are
// enough. An elector that is no member any more is a zero Node. Without a guard, of number 0, this member has agreed.
func (g *failureDetector) poll(n Node, electors []Node, guard uint64) ([]raysys.NodeID, error) {
	m, need := g.m, quorum(len(electors))
	var agreed []raysys.NodeID
	var others []Node
	var errs []error
	for _, e := range electors {
		switch {
		case e.Incarnation == 0:
			errs = append(errs, errors.New("an elector is gone"))
		case e.Incarnation != m.incarnation:
			others = append(others, e)
		case guard == 0 || m.Ballot(n.ID, n.Incarnation, guard):
			agreed = append(agreed, e.ID)
		default:
			errs = append(errs, errors.New("this one does not agree"))
		}
	}
	if m.cfg.Ballots == nil {
		others = nil
	}
	ctx, cancel := context.WithTimeout(m.ctx, min(m.cfg.TTL/10, m.cfg.Silence/4))
	defer cancel()
	type answer struct {
		by     raysys.NodeID
		agrees bool
		err    error
	}
	answers := make(chan answer, len(others)) // one from each; never closed
	for _, e := range others {
		m.start(func() {
			agrees, err := m.cfg.Ballots.Ask(ctx, e, n, guard)
			answers <- answer{e.ID, agrees, err}
		})
	}
	for range others {
		if len(agreed) >= need {
			break
		}
		select {
		case a := <-answers:
			switch {
			case a.err != nil:
				errs = append(errs, fmt.Errorf("ask %s: %w", a.by, a.err))
			case a.agrees:
				agreed = append(agreed, a.by)
			default:
				errs = append(errs, fmt.Errorf("%s does not agree", a.by))
			}
		case <-ctx.Done():
			errs = append(errs, errors.New("no answer"))
		}
	}
	if len(agreed) < need {
		return nil, fmt.Errorf("node %s, incarnation %d: %w: %d of %d do, %d must: %w",
			n.ID, n.Incarnation, errHeard, len(agreed), len(electors), need, errors.Join(errs...))
	}
	return agreed, nil
}

// giveBallot gives this member's ballot against n. It withholds its pongs first: what it hears of n from then on gets
// none, so that n has no promise which is younger than the silence that is looked at then. With g.mu held.
func (g *failureDetector) giveBallot(v *View, n Node, guard uint64, now time.Duration) bool {
	was, bound := g.ballots[n.Incarnation]
	g.ballots[n.Incarnation] = ballot{n, max(was.guard, guard)}
	g.m.cfg.Prober.Withhold(n.ID, n.Incarnation, true)
	if g.silence(n, true, now) >= g.m.cfg.promise() && g.fit(v, now) {
		signal(g.wake)
		return true
	}
	if bound {
		g.ballots[n.Incarnation] = was
	} else {
		g.takeBack(n.Incarnation)
	}
	return false
}

// takeBack ends a ballot that is void, or was not given. With g.mu held.
func (g *failureDetector) takeBack(incarnation uint64) {
	b := g.ballots[incarnation]
	delete(g.ballots, incarnation)
	g.m.cfg.Prober.Withhold(b.node.ID, incarnation, false)
}

// seekVoid reads the guards of those nodes that this member has given a ballot against, and hears: one with a higher
// number makes it void. It returns when to look again. With g.mu held.
func (g *failureDetector) seekVoid() time.Duration {
	m := g.m
	var nodes []Node
	for _, b := range g.ballots {
		silent, heard := m.cfg.Prober.Silence(b.node.ID)
		if heard && silent < m.cfg.promise() && len(nodes) < store.MaxTxnOps {
			nodes = append(nodes, b.node)
		}
	}
	switch {
	case len(g.ballots) == 0:
		return m.cfg.TTL
	case len(nodes) > 0 && !g.reading && m.State() == Active:
		g.reading = m.start(func() { g.readGuards(nodes) })
	}
	return m.cfg.Silence / 16
}

// readGuards takes back the ballots that are void, and lets a moment pass.
func (g *failureDetector) readGuards(nodes []Node) {
	m := g.m
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.TTL/4)
	defer cancel()
	ops := make([]store.Op, len(nodes))
	for i, n := range nodes {
		ops[i] = store.Read(guardKey(n.Incarnation))
	}
	pairs, err := m.cfg.KV.Txn(ctx, ops)
	g.mu.Lock()
	for i, n := range nodes {
		if b, is := g.ballots[n.Incarnation]; is && err == nil && pairs[i].Modify > b.guard {
			g.takeBack(n.Incarnation)
		}
	}
	g.mu.Unlock()
	m.waitFor(m.cfg.Silence / 16)
	g.mu.Lock()
	g.reading = false
	g.mu.Unlock()
}

// endSessions destroys the sessions of evicted nodes whose last lease is over, and returns when the next one's is. With
// g.mu held.
func (g *failureDetector) endSessions(v *View, now time.Duration) time.Duration {
	next := g.m.cfg.TTL
	for id, s := range g.awaitingLeaseEnd {
		if s.ending {
			continue
		}
		if wait := s.due - now; wait > 0 {
			next = min(next, wait)
			continue
		}
		s.ending = g.m.start(func() { g.m.destroy(s.node, Destroyed) })
		g.awaitingLeaseEnd[id] = s
	}
	return next
}

// report writes into this node's record which others it does not hear, if that changed. With g.mu held.
func (g *failureDetector) report(v *View, unheard []uint64) {
	self, ok := v.Node(g.m.cfg.Self.ID)
	slices.Sort(unheard)
	if !ok || slices.Equal(self.unheard, unheard) || g.reporting || g.m.State() != Active {
		return
	}
	// The watch brings the written record, and with it the next look; one that failed is tried at the next look.
	g.reporting = g.m.start(func() {
		err := g.writeReport(v, self.unheard, unheard)
		g.mu.Lock()
		g.reporting = false
		g.mu.Unlock()
		if err != nil {
			g.m.event(WatchFailed, Node{}, err)
		}
	})
}

// writeReport leaves out nodes that were voted out meanwhile: all members wait for their end already, and every member
// reads the record.
func (g *failureDetector) writeReport(v *View, before, unheard []uint64) error {
	m := g.m
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.TTL/4)
	defer cancel()
	var kept []uint64
	for some := range slices.Chunk(unheard, store.MaxTxnOps) {
		ops := make([]store.Op, len(some))
		for i, id := range some {
			ops[i] = store.Read(evictKey(id))
		}
		votes, err := m.cfg.KV.Txn(ctx, ops)
		if err != nil {
			return fmt.Errorf("read votes: %w", err)
		}
		for i, id := range some {
			if votes[i].Create == 0 {
				kept = append(kept, id)
				continue
			}
			g.mu.Lock()
			g.voted[id] = true
			g.mu.Unlock()
		}
	}
	if slices.Equal(before, kept) {
		return nil
	}
	for _, id := range kept {
		if n, ok := v.Incarnation(id); ok && !slices.Contains(before, id) {
			m.event(PairBroken, n, fmt.Errorf("%w: not heard for %v, and no node relays", raysys.ErrUnreachable, m.cfg.TTL*3/2))
		}
	}
	return m.write(ctx, func(r *record) { r.Unheard = kept })
}

// mend leaves the cluster if this node is the one that should, half a lease after its broken pair was made known: two
// leases after the silence began. It returns when to look again. With g.mu held.
func (g *failureDetector) mend(v *View, now time.Duration) time.Duration {
	pairs := brokenPairs(v.nodes)
	next := g.m.cfg.TTL
	known := make(map[pair]time.Duration, len(pairs))
	ripe := false
	for _, p := range pairs {
		at, ok := g.pairs[p]
		if !ok {
			at = now
		}
		known[p] = at
		if p.a != g.m.incarnation && p.b != g.m.incarnation {
			continue
		}
		if wait := at + g.m.cfg.TTL/2 - now; wait > 0 {
			next = min(next, wait)
		} else {
			ripe = true
		}
	}
	g.pairs = known
	if ripe && !g.yielding && g.m.State() == Active && slices.Contains(leavers(v.nodes, pairs), g.m.incarnation) {
		g.yielding = g.m.start(g.yield)
	}
	return next
}

// yield evicts this member itself, by the same transaction and within the same bound, if the store still says that it
// is the one to go. The renewal that follows fences it.
func (g *failureDetector) yield() {
	m := g.m
	err := g.evictSelf()
	if err != nil && m.ctx.Err() == nil {
		m.event(VoteFailed, Node{Info: Info{ID: m.cfg.Self.ID}, Incarnation: m.incarnation}, err)
	}
	m.waitFor(m.cfg.TTL / 20) // the renewal, or the watch, has to come to know of it first
	g.mu.Lock()
	g.yielding = false
	g.mu.Unlock()
	signal(g.wake)
}

func (g *failureDetector) evictSelf() error {
	m := g.m
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.TTL/4)
	defer cancel()
	nodes, err := m.listNodes(ctx)
	if err != nil {
		return err
	}
	pairs := brokenPairs(nodes)
	at := slices.IndexFunc(nodes, func(n Node) bool { return n.Incarnation == m.incarnation })
	if at < 0 || !slices.Contains(leavers(nodes, pairs), m.incarnation) {
		return nil
	}
	broken := 0
	for _, p := range pairs {
		if p.a == m.incarnation || p.b == m.incarnation {
			broken++
		}
	}
	why := fmt.Sprintf("it and %d of %d other members do not hear each other for two leases, no node relays, and it has the fewest links", broken, len(nodes)-1)
	if _, _, err := m.evict(ctx, nodes[at], vote{Why: why}); err != nil {
		return err
	}
	m.event(Yielded, nodes[at], nil)
	m.Recheck()
	return nil
}

// vote is the value of evict/<incarnation>, which explains the eviction to operators.
type vote struct {
	V       int             `json:"v"`
	Node    raysys.NodeID   `json:"node"`
	By      raysys.NodeID   `json:"by"`
	ByInc   uint64          `json:"byIncarnation"`
	Why     string          `json:"why"`
	Agreed  []raysys.NodeID `json:"agreed,omitempty"`
	Written time.Time       `json:"written"` // by the writer's clock, for people only
	// Promised: its electors gave their ballots, so that whoever reads this may destroy the session at once.
	Promised bool `json:"promised,omitempty"`
}

func (v vote) String() string {
	return fmt.Sprintf("by %s (incarnation %d), with %v: %s", v.By, v.ByInc, v.Agreed, v.Why)
}

func decodeVote(value []byte) vote {
	var v vote
	if json.Unmarshal(value, &v) != nil {
		v.Why = "the vote cannot be read"
	}
	return v
}
