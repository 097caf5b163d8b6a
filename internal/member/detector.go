package member

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/internal/backoff"
)

// failureDetector listens for silence. One goroutine runs it; it wakes when some node's silence reaches the next
// threshold:
//
//	0 ──── SuspectAfter ──── Silence + ──────── TTL ──────── 1.5 TTL ──────── 2 TTL
//	         avoided       a host: ask its    ask its     publish in      fewer links:
//	                       electors           monitors    nodes/<self>    leave
//
// A member that was stalled itself could hear no node: silence counts only from when it was awake again.
type failureDetector struct {
	m    *Member
	wake chan struct{} // a vote ended; never closed

	mu         sync.Mutex // guards what follows: Ballot reads it
	started    bool
	last       reading       // when the loop last looked
	due        time.Duration // when it has to look again
	awakeSince time.Duration // since when it looked in time
	since      map[uint64]time.Duration
	unlinked   map[uint64]time.Duration // since when a node that it watches was not heard at all

	asking           map[uint64]bool            // a vote is under way
	retry            map[uint64]retry           // votes that failed
	voted            map[uint64]bool            // voted out, by any member
	awaitingLeaseEnd map[uint64]pendingEviction // evicted, and waiting for the end of their lease
	pairs            map[pair]time.Duration     // broken pairs, since when they are known
	ballots          map[uint64]ballot          // of this member against others, not known to be void
	reading          bool                       // guards are being read, to see which ballots are void
	reporting        bool                       // the record is being written
	yielding         bool                       // this node is about to leave
	janitor          janitor
	events           []Event // for OnEvent, which is called without mu

	evicted [paths]atomic.Uint64 // verdicts of this member, by their path
}

// The paths of a verdict.
const (
	pathFast = iota // its electors gave their ballots
	pathSlow        // its monitors on the ring agreed, after a lease
	paths
)

// ballot is one that binds.
type ballot struct {
	node  Node
	guard uint64 // the highest number
}

// retry is when to ask again.
type retry struct {
	at    time.Duration
	pause *backoff.Doubling
}

// pendingEviction is an evicted node whose session is still to be destroyed.
type pendingEviction struct {
	node   Node
	due    time.Duration
	ending bool
}

func (g *failureDetector) init(m *Member) {
	g.m = m
	g.wake = make(chan struct{}, 1)
	g.since = map[uint64]time.Duration{}
	g.unlinked = map[uint64]time.Duration{}
	g.asking = map[uint64]bool{}
	g.retry = map[uint64]retry{}
	g.voted = map[uint64]bool{}
	g.awaitingLeaseEnd = map[uint64]pendingEviction{}
	g.pairs = map[pair]time.Duration{}
	g.ballots = map[uint64]ballot{}
}

func (g *failureDetector) run() {
	a := newAlarm(g.m.cfg.Clock)
	defer func() { a.stop() }()
	for {
		v := g.m.View()
		next, notes := g.stepDetector(v)
		a.set(next)
		for _, e := range notes {
			tell(g.m, e)
		}
		select {
		case <-a.C:
		case <-g.wake:
		case <-v.Changed():
		case <-g.m.ctx.Done():
			return
		}
	}
}

// stalled is how late the loop may look before it is held to have slept.
func (g *failureDetector) stalled() time.Duration { return g.m.cfg.Silence / 10 }

// note keeps an event until mu is free. With mu held.
func (g *failureDetector) note(kind EventKind, n Node, err error) {
	g.events = append(g.events, Event{Kind: kind, Node: n.ID, Incarnation: n.Incarnation, Err: err})
}

// stepDetector does the steps that are due, and returns when to look again and the events for OnEvent.
func (g *failureDetector) stepDetector(v *View) (time.Duration, []Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m, ttl := g.m, g.m.cfg.TTL
	now := read(m.cfg.Clock)
	g.attend(now)
	g.forget(v, now.mono)

	next := m.cfg.Silence / 5 // so that a stall is noticed
	watched := v.Watched()
	suspects := map[uint64]bool{}
	var unheard []uint64
	for _, n := range v.nodes {
		if n.Incarnation == m.incarnation {
			continue
		}
		s := g.silence(n, slices.Contains(watched, n.ID), now.mono)
		fast, slow := m.cfg.accusedAfter(n)
		for _, threshold := range []time.Duration{m.cfg.SuspectAfter, fast, slow, ttl + ttl/2} {
			if s < threshold {
				next = min(next, threshold-s)
				break
			}
		}
		if s >= m.cfg.SuspectAfter {
			suspects[n.Incarnation] = true
			next = min(next, m.cfg.Silence/20) // that it is heard again, no threshold tells
		} else {
			delete(g.retry, n.Incarnation)
		}
		if s >= fast && slices.Contains(watched, n.ID) {
			next = min(next, g.accuse(v, n, s >= slow, now.mono))
		}
		if s >= ttl+ttl/2 && !g.voted[n.Incarnation] && !m.cfg.Prober.Relayed(n.ID) {
			unheard = append(unheard, n.Incarnation)
		}
	}
	g.suspect(v, suspects)
	g.report(v, unheard)
	next = min(next, g.mend(v, now.mono), g.endSessions(v, now.mono), g.seekVoid())
	g.janitor.beginRound(m, v, now.mono)

	next = max(next, ttl/500) // two thresholds at almost the same time need not be two looks
	g.due = now.mono + next
	notes := g.events
	g.events = nil
	return next, notes
}

// attend notices a stall of this process: the look comes late, or the wall clock went ahead of the monotonic one, as it
// does while the machine sleeps.
func (g *failureDetector) attend(now reading) {
	if !g.started {
		g.started, g.awakeSince = true, now.mono
	} else if now.mono > g.due+g.stalled() || now.wall.Sub(g.last.wall)-(now.mono-g.last.mono) > g.stalled() {
		g.awakeSince = now.mono
	}
	g.last = now
}

// forget drops what belongs to incarnations that are gone, and begins to count for new ones.
func (g *failureDetector) forget(v *View, now time.Duration) {
	live := make(map[uint64]bool, len(v.nodes))
	for _, n := range v.nodes {
		live[n.Incarnation] = true
		if _, ok := g.since[n.Incarnation]; !ok {
			g.since[n.Incarnation] = now
		}
	}
	gone := func(id uint64) bool { return !live[id] }
	maps.DeleteFunc(g.since, func(id uint64, _ time.Duration) bool { return gone(id) })
	maps.DeleteFunc(g.unlinked, func(id uint64, _ time.Duration) bool { return gone(id) })
	maps.DeleteFunc(g.retry, func(id uint64, _ retry) bool { return gone(id) })
	maps.DeleteFunc(g.voted, func(id uint64, _ bool) bool { return gone(id) })
	maps.DeleteFunc(g.awaitingLeaseEnd, func(id uint64, _ pendingEviction) bool { return gone(id) })
	// The pongs stay withheld: the node may not know yet that it is gone.
	maps.DeleteFunc(g.ballots, func(id uint64, _ ballot) bool { return gone(id) })
}

// silence is how long the node was not heard, as far as this member can tell. A node that it never heard and need not
// watch is not silent. With mu held.
func (g *failureDetector) silence(n Node, watched bool, now time.Duration) time.Duration {
	silent, heard := g.m.cfg.Prober.Silence(n.ID)
	id := n.Incarnation
	switch {
	case heard || !watched:
		delete(g.unlinked, id)
	case g.unlinked[id] == 0:
		g.unlinked[id] = now
	}
	switch {
	case heard:
	case watched:
		silent = now - g.unlinked[id]
	default:
		return 0
	}
	return max(min(silent, now-g.since[id], now-g.awakeSince), 0)
}

// suspect publishes a view with the new suspects, if they are others.
func (g *failureDetector) suspect(v *View, suspects map[uint64]bool) {
	changed := false
	for _, n := range v.nodes {
		if n.Suspect == suspects[n.Incarnation] {
			continue
		}
		changed = true
		kind := Heard
		if !n.Suspect {
			kind = Suspected
		}
		g.note(kind, n, nil)
	}
	if changed {
		g.m.publish(func() { g.m.suspects = suspects })
	}
}

// fit reports whether this member may judge others: it hears most of them. One that does not is itself the likely
// culprit. Of two halves, the one with the most senior node is fit, or a cluster that falls into two halves would lose
// members of both. With mu held.
func (g *failureDetector) fit(v *View, now time.Duration) bool {
	watched, after := v.Watched(), min(g.m.cfg.promise(), g.agreeAfter())
	silent, members := 0, len(v.nodes)
	eldest := Node{}
	eldestSilent := false
	for _, n := range v.nodes {
		s := false
		if n.Incarnation != g.m.incarnation {
			s = g.silence(n, slices.Contains(watched, n.ID), now) >= after
		}
		if s {
			silent++
		}
		if eldest.Incarnation == 0 || n.before(eldest) {
			eldest, eldestSilent = n, s
		}
	}
	return 2*silent < members || 2*silent == members && (members == 2 || !eldestSilent)
}

// agreeAfter is the silence after which a monitor agrees with an accuser that has no ballots of electors: a little
// less than the accuser's own lease, because the last frame that each of them got may be a ping apart.
func (g *failureDetector) agreeAfter() time.Duration { return g.m.cfg.TTL * 4 / 5 }
