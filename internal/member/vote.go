package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/store"
)

// accuse begins a vote on a node that was silent for a lease, unless one is under way, and returns when to look again.
// With g.mu held.
func (g *failureDetector) accuse(v *View, n Node, now time.Duration) time.Duration {
	m := g.m
	later := m.cfg.TTL
	if _, done := g.awaitingLeaseEnd[n.Incarnation]; done || g.asking[n.Incarnation] || m.State() != Active {
		return later
	}
	again, asked := g.retry[n.Incarnation]
	if !asked {
		again = retry{at: now, pause: &backoff{lo: m.cfg.TTL / 20, hi: m.cfg.TTL / 2, jitter: m.cfg.Jitter}}
		if self, ok := v.Incarnation(m.incarnation); ok && len(v.nodes) == 2 && n.before(self) {
			// Each of two can evict the other, and both may live: the senior one goes first.
			again.at += m.cfg.TTL / 10
		}
		g.retry[n.Incarnation] = again
	}
	if wait := again.at - now; wait > 0 {
		return wait
	}
	if !g.fit(v, now) {
		again.at = now + m.cfg.TTL/10
		g.retry[n.Incarnation] = again
		return m.cfg.TTL / 10
	}
	if !m.start(func() { g.vote(v, n) }) {
		return later
	}
	g.asking[n.Incarnation] = true
	return later
}

// vote asks the other monitors and, if enough agree, evicts.
func (g *failureDetector) vote(v *View, n Node) {
	m := g.m
	agreed, err := m.poll(v, n)
	written := false
	if err == nil {
		written, err = m.evict(m.ctx, n, agreed, fmt.Sprintf("not heard for %v", m.cfg.TTL))
	}
	now := m.cfg.Clock.Mono() // after the verdict was written
	g.mu.Lock()
	delete(g.asking, n.Incarnation)
	if err == nil {
		g.awaitingLeaseEnd[n.Incarnation] = pendingEviction{node: n, due: now + m.cfg.TTL + m.grace()}
		g.voted[n.Incarnation] = true
	} else if again, ok := g.retry[n.Incarnation]; ok {
		again.at = now + again.pause.next()
		g.retry[n.Incarnation] = again
	}
	g.mu.Unlock()
	if written {
		m.event(Evicted, n, nil)
	} else if err != nil && m.ctx.Err() == nil {
		m.event(VoteFailed, n, err)
	}
	signal(g.wake)
}

// poll asks the other monitors of n at once and returns those that agree, this member first, as soon as they are
// enough.
func (m *Member) poll(v *View, n Node) ([]raysys.NodeID, error) {
	monitors := v.Monitors(n.ID)
	need := quorum(len(monitors))
	agreed := []raysys.NodeID{m.cfg.Self.ID}
	var others []raysys.NodeID
	for _, id := range monitors {
		if id != m.cfg.Self.ID {
			others = append(others, id)
		}
	}
	if m.cfg.Ballots == nil {
		others = nil
	}
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.TTL/10)
	defer cancel()
	type answer struct {
		by     raysys.NodeID
		agrees bool
		err    error
	}
	answers := make(chan answer, len(others)) // one from each; never closed
	for _, id := range others {
		m.start(func() {
			agrees, err := m.cfg.Ballots.Ask(ctx, id, n.ID, n.Incarnation)
			answers <- answer{id, agrees, err}
		})
	}
	var errs []error
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
		}
	}
	if len(agreed) < need {
		return nil, fmt.Errorf("node %s, incarnation %d: %w: %d of %v do, %d must: %w", n.ID, n.Incarnation, errHeard, len(agreed), monitors, need, errors.Join(errs...))
	}
	return agreed, nil
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
		err := g.m.report(v, self.unheard, unheard)
		g.mu.Lock()
		g.reporting = false
		g.mu.Unlock()
		if err != nil {
			g.m.event(WatchFailed, Node{}, err)
		}
	})
}

// report leaves out nodes that were voted out meanwhile: all members wait for their end already, and every member
// reads the record.
func (m *Member) report(v *View, before, unheard []uint64) error {
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
			m.detector.mu.Lock()
			m.detector.voted[id] = true
			m.detector.mu.Unlock()
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
	err := m.yield()
	if err != nil && m.ctx.Err() == nil {
		m.event(VoteFailed, Node{Info: Info{ID: m.cfg.Self.ID}, Incarnation: m.incarnation}, err)
	}
	m.wait(m.cfg.TTL / 20) // the renewal, or the watch, has to come to know of it first
	g.mu.Lock()
	g.yielding = false
	g.mu.Unlock()
	signal(g.wake)
}

func (m *Member) yield() error {
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
	if _, err := m.evict(ctx, nodes[at], nil, why); err != nil {
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
