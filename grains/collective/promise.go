package collective

import (
	"context"

	"github.com/raysys/raysys"
)

// promise is a future that a grain or a Member settles when it pleases, on any goroutine. It can be waited for from any
// node, and there it fails when this node dies: that is how the parts of a group notice each other's end.
type promise[T any] struct {
	raysys.Future[T]
	name string
}

// newPromise makes one of the node that root belongs to.
func newPromise[T any](root root, name string) *promise[T] {
	p := &promise[T]{name: name}
	p.Init(p, root.turn, root.turn.Next(), raysys.HasPointers[T]())
	return p
}

// settle counts the first time only.
func (p *promise[T]) settle(v T) {
	if p.Start() {
		p.Resolve(v)
	}
}

func (p *promise[T]) handle() raysys.Handle[T] { return p.Ref().Handle() }

// Name implements raysys.Work, as the methods below do.
func (p *promise[T]) Name() string { return p.name }

// Help does not: whoever waits for a promise parks.
func (p *promise[T]) Help(*raysys.Turn) bool { return false }

// Expires is never.
func (p *promise[T]) Expires() int64 { return 0 }

// Waits is for nothing that a search for cycles could follow.
func (p *promise[T]) Waits() ([]*raysys.Turn, []*raysys.Core) { return nil, nil }

// Break does not: a promise is in no cycle.
func (p *promise[T]) Break([]string) bool { return false }

// root is a context for what must outlive the turn that makes it: it ends with the node alone.
// A seat, a roster and a Member keep it, since what happens to them has no caller.
type root struct {
	context.Context
	turn *raysys.Turn
}

func rootOf(ctx context.Context) (root, error) {
	t, _, err := raysys.TurnOf(ctx)
	if err != nil {
		return root{}, err
	}
	j := t.Job()
	up := raysys.NewRoot(j, context.Background(), j.Top, t.ID().Child(t.Next()))
	return root{raysys.NewContext(up), up}, nil
}

func (r root) node() raysys.NodeID { return r.turn.Job().Node }

func (r root) runtime() raysys.Runtime { return r.turn.Runtime() }

// watch calls tell once ref has settled, which also asks for it where it is another node's. tell must not block.
type watch struct {
	raysys.Waiter
	core *raysys.Core
	tell func(failure error)
}

func watchRef[T any](ref raysys.Ref[T], tell func(failure error)) *watch {
	w := &watch{core: ref.RefCore(), tell: tell}
	if w.core != nil && !w.core.Subscribe(&w.Waiter, w) {
		w.Resolved(nil)
	}
	return w
}

// Resolved implements raysys.Resolved.
func (w *watch) Resolved(*raysys.Waiter) { w.tell(w.core.Failure()) }

// stop takes the watch back; tell may be under way.
func (w *watch) stop() {
	if w != nil && w.core != nil {
		w.core.Unsubscribe(&w.Waiter)
	}
}
