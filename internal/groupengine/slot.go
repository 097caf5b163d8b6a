package groupengine

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/ledger"
)

// GatherLease is how long a node gathers for a leader that does not ask again.
const GatherLease = 4 * gatherEvery

// gatherer is the group for which a node gathers room. A node has one at most: of two that want room there the older one has it, on all
// nodes the same, so that no two groups have what the other one waits for.
type gatherer struct {
	Ask
	room  *ledger.Gathering
	until int64 // guarded by Node.mu

	mu   sync.Mutex // guards done
	done func(error)
}

// Errors of a node that gathers.
var (
	errAskedAgain = fmt.Errorf("%w: the leader has asked again", raysys.ErrOverloaded)
	errEnded      = fmt.Errorf("%w: it gathers for the group no more", raysys.ErrOverloaded)
)

// gather does what a leader asks for by Gather.
func (n *Node) gather(a Ask, done func(error)) {
	n.mu.Lock()
	was := n.gatherer
	same := was != nil && was.ID == a.ID && was.Group == a.Group
	switch err := n.gathers(a); {
	case len(a.Bundles) == 0 && !same:
		n.mu.Unlock()
		done(nil)
	case len(a.Bundles) == 0:
		n.gatherer = nil
		n.mu.Unlock()
		was.end(errEnded)
		done(nil)
	case err != nil:
		n.mu.Unlock()
		done(err)
	case same && reflect.DeepEqual(was.Bundles, a.Bundles):
		was.until = n.now() + int64(GatherLease)
		n.mu.Unlock()
		was.enterQuestion(done)
	default:
		next := &gatherer{Ask: a, until: n.now() + int64(GatherLease), done: done}
		next.room = n.line.NewGathering(Shown(a.Group)+", which gathers room", a.needs(), func() { next.answer(nil) })
		n.gatherer = next
		n.mu.Unlock()
		if was != nil {
			was.end(errEnded)
		}
		next.room.Start()
	}
}

// gathers returns why the node refuses to gather. n.mu is held.
func (n *Node) gathers(a Ask) error {
	was, g := n.gatherer, n.groups[a.Group]
	later := func(b Asked) bool { return g.bundles[b.Index] != nil && g.bundles[b.Index].attempt > a.Attempt }
	switch {
	case n.leaving != nil:
		return n.leaving
	case g != nil && (g.id != a.ID || slices.ContainsFunc(a.Bundles, later)):
		return fmt.Errorf("%w: node %s has bundles of a later attempt of %s", raysys.ErrMoved, n.self(), Shown(a.Group))
	case was != nil && was.ID == a.ID && was.Group == a.Group:
		return nil
	case was != nil && was.before(&a):
		return fmt.Errorf("%w: node %s gathers for %s, which is older", raysys.ErrOverloaded, n.self(), Shown(was.Group))
	case !n.line.Gathers(a.needs()):
		return fmt.Errorf("%w: node %s has less than %s asks for beside what bundles have", raysys.ErrOverloaded, n.self(), Shown(a.Group))
	}
	return nil
}

// before reports whether the group of a was made before that of b.
func (a *Ask) before(b *Ask) bool {
	return cmp.Or(cmp.Compare(a.Made, b.Made), cmp.Compare(a.ID.Hi, b.ID.Hi), cmp.Compare(a.ID.Lo, b.ID.Lo)) < 0
}

// enterQuestion enters another question, to which the answer is due as soon as all is there. The one before is answered now.
func (g *gatherer) enterQuestion(done func(error)) {
	g.mu.Lock()
	before := g.done
	g.done = done
	g.mu.Unlock()
	if before != nil {
		before(errAskedAgain)
	}
	if g.room.Whole() {
		g.answer(nil)
	}
}

// answer answers the question that is open, if there is one.
func (g *gatherer) answer(err error) {
	g.mu.Lock()
	done := g.done
	g.done = nil
	g.mu.Unlock()
	if done != nil {
		done(err)
	}
}

// end gives back what was gathered.
func (g *gatherer) end(why error) {
	g.room.End()
	g.answer(why)
}

// gathered takes the gatherer of the group that a is of, for which an attempt begins, and returns it where it has all that a asks for: else
// it is to be ended. n.mu is held.
func (n *Node) gathered(a Ask) (has, ended *gatherer) {
	g := n.gatherer
	if g == nil || g.Group != a.Group || g.ID != a.ID {
		return nil, nil
	}
	n.gatherer = nil
	if g.room.Whole() && reflect.DeepEqual(g.Bundles, a.Bundles) {
		return g, nil
	}
	return nil, g
}

// EndOverdue ends what is gathered for a leader that asks no more, and reports whether the node gathers still.
func (n *Node) EndOverdue() bool {
	n.mu.Lock()
	g := n.gatherer
	over := g != nil && n.now() >= g.until
	if over {
		n.gatherer = nil
	}
	n.mu.Unlock()
	if over {
		g.end(errEnded)
	}
	return g != nil && !over
}
