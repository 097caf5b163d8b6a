package placing

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/placement"
)

// affinity finds the nodes that conditions mean: those that have a value, and the one on which a grain is active. The latter is in the
// record of the grain's shard, and its leader is asked. Work waits for that, and for a value that is being computed.
//
//	Resolve ──┬── all is known ─────────────────────► the names of nodes
//	          └── not yet: subscribe, ask, tick ──► news ──► the work is placed again: Resolve
type affinity struct {
	pl *Placer

	mu               sync.Mutex // guards the rest
	grains           map[core.GrainName]*soughtGrain
	values           map[*core.Future]*pendingValue
	again            []func() // to be called with the next news
	ticking, pausing bool     // an alarm will ring
}

const (
	// softPatience is how long a preference waits to become known. An answer of a leader takes a round trip, about a millisecond.
	softPatience = 20 * time.Millisecond
	// soughtFresh is how long the answer about a grain counts for work that was submitted before the question.
	soughtFresh = 200 * time.Millisecond
	// grainPause is how often the leader is asked for work that waits for a grain to be elsewhere, or active.
	grainPause = 250 * time.Millisecond
	// soughtLast is how long the last answer is told to who asks where work waits, while the leader is asked again.
	soughtLast = 4 * grainPause
	// maxSought bounds the answers that are kept.
	maxSought = 4096
)

// soughtGrain is what a node knows of where a grain is.
type soughtGrain struct {
	since, asked, answered int64        // when it was wanted first since it was known; when the leader was asked last; when it answered
	asking, known          bool         // where known is false, at and answered are of the answer before
	at                     core.NodeKey // zero: nowhere
}

// pendingValue tells the news when a value has settled.
type pendingValue struct {
	core.Waiter
	a *affinity
}

// Resolved implements core.Resolved.
func (p *pendingValue) Resolved(w *core.Waiter) {
	p.a.mu.Lock()
	delete(p.a.values, w.Future())
	p.a.mu.Unlock()
	p.a.news()
}

// Resolve returns the conditions of the grain of, or of a task where of is zero, with the nodes that they mean now. Where known is
// false, some of them are not known: then tasks are placed again with the next news, and again, if not nil, is called. Answers of
// leaders that were asked before since do not count. The error is that of a value which is to be near the work.
func (a *affinity) Resolve(list []core.Condition, of core.GrainName, since int64, again func()) (out []core.NodeCondition, known bool, err error) {
	return a.resolved(list, of, since, again, 0)
}

// resolved is Resolve, where the last answer about a grain counts for so long while the leader is asked again.
func (a *affinity) resolved(list []core.Condition, of core.GrainName, since int64, again func(), last time.Duration) (out []core.NodeCondition, known bool, err error) {
	known = true
	for _, c := range list {
		n := c.NodeCondition
		ok := true
		switch {
		case c.Value != nil:
			if ok, err = a.value(c.Value, &n); err != nil {
				return nil, true, err
			}
			if ok && n.About == "" {
				continue
			}
		case c.Grain == of && of != (core.GrainName{}):
			continue // it is where it is
		case c.Grain != core.GrainName{}:
			var late bool
			if ok, late = a.grain(c.Grain, since, last, &n); late && n.Soft {
				continue
			}
		}
		if !ok {
			known = false
			n.About += " (not known yet)"
		}
		out = append(out, n)
	}
	if !known {
		a.mu.Lock()
		if again != nil {
			a.again = append(a.again, again)
		}
		a.mu.Unlock()
		a.tick()
	}
	return out, known, nil
}

// value names the nodes that have a value, none for one that travels along. False: it has not settled.
func (a *affinity) value(f *core.Future, n *core.NodeCondition) (ok bool, err error) {
	if !f.Settled() {
		if n.Soft {
			return true, nil
		}
		if !a.settled(f) {
			n.About = fmt.Sprintf("the value of %s will be", f.ID())
			return false, nil
		}
	}
	err = f.Failure()
	if err != nil && !n.Not && !n.Soft {
		return true, fmt.Errorf("the value that it is to be near: %w", err)
	}
	if err == nil && !f.Object() {
		return true, nil
	}
	n.About = fmt.Sprintf("the value of %s is", f.ID())
	w, located := core.WhereaboutsOf(f)
	self := a.pl.self()
	if err == nil && (!located || w.Here) {
		n.Nodes = append(n.Nodes, self.Node)
	}
	if located && w.Node != "" && w.NodeKey != self && a.pl.Mesh.Alive(w.NodeKey) {
		n.Nodes = append(n.Nodes, w.Node)
	}
	return true, nil
}

// settled reports whether a value has settled, and has it bring news when it does.
func (a *affinity) settled(f *core.Future) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.values[f] != nil {
		return f.Settled()
	}
	p := &pendingValue{a: a}
	if !f.Subscribe(&p.Waiter, p) {
		return true
	}
	if a.values == nil {
		a.values = map[*core.Future]*pendingValue{}
	}
	a.values[f] = p
	return false
}

// grain names the node of a grain, none for one that is not active. Where that is not known yet it asks; late says that a preference
// has waited for it for long enough.
func (a *affinity) grain(g core.GrainName, since int64, last time.Duration, n *core.NodeCondition) (ok, late bool) {
	n.About = "grain " + g.String() + " is"
	now := a.pl.Runner.Now()
	a.mu.Lock()
	s := a.grains[g]
	if s != nil && s.known && s.asked >= since && now-s.answered < int64(soughtFresh) {
		s.name(n)
		a.mu.Unlock()
		return true, false
	}
	if s == nil || s.known {
		if len(a.grains) >= maxSought || a.grains == nil {
			a.grains = map[core.GrainName]*soughtGrain{}
		}
		again := &soughtGrain{since: now}
		if s != nil {
			again.at, again.answered = s.at, s.answered
		}
		s = again
		a.grains[g] = s
	}
	if s.answered != 0 && now-s.answered < int64(last) {
		s.name(n)
		ok = true
	}
	ask := !s.asking
	if ask {
		s.asking, s.asked = true, now
	}
	late = now-s.since >= int64(softPatience)
	a.mu.Unlock()
	if ask {
		a.pl.Registry.Confirm(graindir.ID(g), graindir.Token{}, func(p graindir.Placed, err error) {
			a.mu.Lock()
			s.asking = false
			if err == nil {
				s.known, s.at, s.answered = true, p.NodeKey, a.pl.Runner.Now()
			}
			a.mu.Unlock()
			if err == nil { // else the tick asks again
				a.news()
			}
		})
	}
	return ok, late && !ok
}

// name adds the node of the grain.
func (s *soughtGrain) name(n *core.NodeCondition) {
	if s.at.Node != "" {
		n.Nodes = []raysys.NodeID{s.at.Node}
	}
}

// explain is Resolve for work that waits: it says which conditions it has. That a leader is being asked again is nothing to tell.
func (a *affinity) explain(list []core.Condition, of core.GrainName, w *raysys.Waiting) []core.NodeCondition {
	nodes, _, err := a.resolved(list, of, 0, nil, soughtLast)
	for _, n := range nodes {
		c := placement.Condition(n)
		words := "only " + c.String()
		if c.Soft {
			words = "preferably " + c.String()
		}
		w.Conditions = append(w.Conditions, words)
	}
	if err != nil {
		w.Conditions = append(w.Conditions, err.Error())
	}
	return nodes
}

// tick brings news soon: preferences that are not known then do not count, leaders that did not answer are asked again, and work that
// has ended is not kept.
func (a *affinity) tick() { a.later(softPatience, &a.ticking) }

// tellWaiters brings news for work that waits for a grain to be elsewhere, or active.
func (a *affinity) tellWaiters() { a.later(grainPause, &a.pausing) }

func (a *affinity) later(d time.Duration, waits *bool) {
	a.mu.Lock()
	already := *waits
	*waits = true
	a.mu.Unlock()
	if already {
		return
	}
	a.pl.Runner.After(d, func() {
		a.mu.Lock()
		*waits = false
		a.mu.Unlock()
		a.news()
	})
}

// news has the work placed again that waited for more to be known.
func (a *affinity) news() {
	a.mu.Lock()
	list := a.again
	a.again = nil
	a.mu.Unlock()
	a.pl.tasks.RetryUnplaced()
	for _, again := range list {
		a.pl.Pool.Go(goroutines.Func(again))
	}
}

// notKnown: where work is to be is not known yet.
type notKnown struct{}

func (notKnown) Error() string   { return "the nodes that its conditions mean are not known yet" }
func (notKnown) Temporary() bool { return true }

// asksOfGrain reports whether some condition is about a grain, of which no change is told.
func asksOfGrain(list []core.Condition) bool {
	return slices.ContainsFunc(list, func(c core.Condition) bool { return c.Grain != core.GrainName{} })
}
