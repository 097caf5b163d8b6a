package member

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/store"
)

// A pong is a promise of the node that sends it: no ballot against the node that pinged, before that was silent for
// Config.promise. It counts from when the ping was sent. Of n electors quorum(n) can evict, so while n - quorum(n) +
// 1 promises hold nobody can: each verdict needs one of those who promised. Two hundredths are taken off, for clocks
// that do not run at quite the same rate.
//
// Without enough promises a node asks the store before it answers from memory: it may be evicted, and others may have
// what it had (C20).

// promise is until when enough electors are bound: left, from at on.
type promise struct {
	at   reading
	left time.Duration // forever where there is no elector
}

const forever = time.Duration(math.MaxInt64)

// holds reports whether it does at a moment, which may be earlier than at: who is bound at at was so before.
func (p *promise) holds(now reading) bool {
	return p.left > 0 && now.since(p.at) < p.left
}

// renew looks which pongs came, and returns how long the promises hold from now on.
func (g *guard) renew() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.renewLocked()
}

// renewLocked is renew with mu held.
func (g *guard) renewLocked() time.Duration {
	now := read(g.m.cfg.Clock) // before the pongs are looked at: their age is too large then, rather than too small
	left := g.heldBy(g.known, now)
	for _, electors := range g.open {
		left = min(left, g.heldBy(electors, now))
	}
	g.current.Store(&promise{now, left})
	return left
}

// heldBy returns how long enough of these electors are bound, from now on; 0 or less when too few are. With mu held.
func (g *guard) heldBy(electors []Node, now reading) time.Duration {
	if len(electors) == 0 {
		return forever
	}
	left := make([]time.Duration, len(electors))
	for i, n := range electors {
		if ago, ok := g.m.cfg.Prober.Answered(n.ID, n.Incarnation); ok {
			sent := reading{now.mono - ago, now.wall.Add(-ago)}
			if old, ok := g.answered[n.Incarnation]; !ok || now.since(sent) < now.since(old) {
				g.answered[n.Incarnation] = sent
			}
		}
		if sent, ok := g.answered[n.Incarnation]; ok {
			left[i] = n.promise - n.promise/50 - now.since(sent)
		}
	}
	slices.Sort(left)
	return max(0, left[quorum(len(left))-1]) // the n - quorum + 1 largest are at least this
}

// Promised reports whether the member may answer from memory: its lease is good, and too few members are free to
// evict it. While it is true the session lives. It reads the clock once.
func (m *Member) Promised() bool {
	now := read(m.cfg.Clock) // before the promise is loaded: another set of electors may take its place
	if State(m.state.Load()) != Active || !m.lease.holds(now) {
		return false
	}
	return m.guard.current.Load().holds(now) || m.guard.renew() > 0
}

// Admit returns nil at a moment at which the session lives, after it was called: at once while Promised is true, and
// otherwise after a read of the store, which all share that wait, or when the electors answer again. ErrSuspended
// when neither comes within a second or the lease is out, ErrFenced when this incarnation is over. It is for what is
// answered from memory, and for turns of grains.
func (m *Member) Admit(ctx context.Context) error {
	if m.Promised() {
		return nil
	}
	if err := m.Err(); err != nil {
		return err
	}
	return m.admission.await(ctx)
}

// admission asks the store whether the session lives, for all that wait for it.
type admission struct {
	m     *Member
	reads atomic.Uint64 // what waited

	mu    sync.Mutex    // guards what follows
	next  *fenceRead    // has not begun; nil: there is none
	begun time.Duration // when the last one began
}

// fenceRead is one read; done is closed when it has ended.
type fenceRead struct {
	done chan struct{}
	err  error
}

const (
	// fenceEvery is the least time between the beginnings of two reads.
	fenceEvery = 250 * time.Millisecond
	// fencePatience is how long an answer waits.
	fencePatience = time.Second
	// pongLook is how often who waits looks whether the electors answer again.
	pongLook = 50 * time.Millisecond
)

func (f *admission) await(ctx context.Context) error {
	f.reads.Add(1)
	m := f.m
	late, cancel := context.WithTimeout(ctx, fencePatience)
	defer cancel()
	a := newAlarm(m.cfg.Clock)
	defer func() { a.stop() }()
	r := f.join()
	for {
		a.set(pongLook)
		select {
		case <-r.done:
			if r.err == nil || final(r.err) {
				return r.err
			}
			r = f.join()
		case <-a.C:
			if m.Promised() {
				return nil
			}
		case <-m.ctx.Done():
			return over(m)
		case <-late.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("%w: node %s: too few electors answer it, and for %v the store has not said whether it is a member",
				raysys.ErrSuspended, m.cfg.Self.ID, fencePatience)
		}
	}
}

// over is why a member that has ended answers nothing.
func over(m *Member) error {
	if err := m.Err(); err != nil {
		return err
	}
	return raysys.ErrClosed
}

// join returns a read that begins later than now.
func (f *admission) join() *fenceRead {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next != nil {
		return f.next
	}
	m, r := f.m, &fenceRead{done: make(chan struct{})}
	pause := f.begun + fenceEvery - m.cfg.Clock.Mono()
	started := m.start(func() {
		defer close(r.done)
		if pause > 0 && !m.waitFor(pause) {
			r.err = over(m)
			return
		}
		f.mu.Lock()
		f.next, f.begun = nil, m.cfg.Clock.Mono()
		f.mu.Unlock()
		r.err = f.read()
	})
	if !started {
		r.err = over(m)
		close(r.done)
		return r
	}
	f.next = r
	return r
}

// read asks once.
func (f *admission) read() error {
	m := f.m
	ctx, cancel := context.WithTimeout(m.ctx, fencePatience)
	defer cancel()
	pairs, err := m.cfg.KV.Txn(ctx, []store.Op{store.Read(evictKey(m.incarnation)), store.Read(nodeKey(m.cfg.Self.ID))})
	if err != nil {
		return fmt.Errorf("ask the store whether node %s is a member: %w", m.cfg.Self.ID, err)
	}
	if vote, self := pairs[0], pairs[1]; vote.Create != 0 || self.Session != m.session || self.Create != m.incarnation {
		m.Recheck()
		return fmt.Errorf("%w: node %s, incarnation %d, is no member any more", raysys.ErrFenced, m.cfg.Self.ID, m.incarnation)
	}
	return nil
}

// Stats is how this member stands to its electors, and what it did to others.
type Stats struct {
	Electors    []raysys.NodeID
	PromiseLeft time.Duration // how long it may answer from memory; that of the lease where it has no elector
	FencedReads uint64        // answers that waited for the store
	EvictedFast uint64        // members that this one evicted by their electors' ballots
	EvictedSlow uint64        // by the ring's, after a lease
}

// StatsOf returns those of a member.
func StatsOf(m *Member) Stats {
	s := Stats{FencedReads: m.admission.reads.Load()}
	s.EvictedFast, s.EvictedSlow = m.detector.evicted[pathFast].Load(), m.detector.evicted[pathSlow].Load()
	for _, n := range m.guard.electors() {
		s.Electors = append(s.Electors, n.ID)
	}
	if m.State() == Active {
		s.PromiseLeft = min(m.guard.renew(), m.Lease())
	}
	return s
}
