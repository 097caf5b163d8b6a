package promise

import (
	"context"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// Promise is a future that its maker settles, on any goroutine.
type Promise[T any] struct {
	core.Result[T]
	name string
}

// New makes a promise of the node that root belongs to. name is for messages.
func New[T any](root Root, name string) *Promise[T] {
	p := &Promise[T]{name: name}
	p.Future.Init(p, root.turn, root.turn.Next(), core.HasPointers[T]())
	return p
}

// Settle counts the first time only.
func (p *Promise[T]) Settle(v T) {
	if p.Future.Start() {
		core.Resolve(&p.Result, v)
	}
}

// Handle is what others wait for.
func (p *Promise[T]) Handle() raysys.Handle[T] {
	return raysys.Handle[T]{Link: core.RefTo(&p.Result).Link}
}

// ValueType says what the Future's value is.
func (p *Promise[T]) ValueType() *core.ValueType { return core.TypeOf[T]() }

// Name implements core.Work, as the methods below do.
func (p *Promise[T]) Name() string { return p.name }

// Help does not: a goroutine that waits for a promise parks.
func (p *Promise[T]) Help(*core.Turn) bool { return false }

// Expires is never.
func (p *Promise[T]) Expires() int64 { return 0 }

// Waits is for nothing that a search for cycles could follow.
func (p *Promise[T]) Waits() ([]*core.Turn, []*core.Future) { return nil, nil }

// Break does not: a promise is in no cycle.
func (p *Promise[T]) Break([]string) bool { return false }

// Root is a place to submit from that outlives the turn which made it: it ends with the node. A grain that keeps
// state between turns keeps one, since later events have no caller.
type Root struct {
	ctx  context.Context
	turn *core.Turn
}

// Of makes the Root of the node that ctx belongs to.
func Of(ctx context.Context) (Root, error) {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return Root{}, err
	}
	j := t.Job()
	up := core.NewRoot(j, context.Background(), j.Top, t.ID().Child(t.Next()))
	return Root{core.NewContext(up), up}, nil
}

// Context is to submit under.
func (r Root) Context() context.Context { return r.ctx }

// IsZero reports whether r was not made by Of.
func (r Root) IsZero() bool { return r.turn == nil }

// Strict reports whether values that change hands are watched.
func (r Root) Strict() bool { return r.turn.Job().Inspect != nil }

// Node is the node that r belongs to.
func (r Root) Node() raysys.NodeID { return r.turn.Job().Node }

// Runtime has the clock and the alarms.
func (r Root) Runtime() core.Runtime { return r.turn.Runtime() }

// Watch is one wait for a future.
type Watch struct {
	waiter core.Waiter
	future *core.Future
	tell   func(failure error)
}

// On calls tell once ref has settled, on the goroutine that settled it or this one: it must not block. It asks for the
// outcome where that is another node's. The zero ref never settles.
func On[T any](ref raysys.Ref[T], tell func(failure error)) *Watch {
	w := &Watch{future: core.FutureOf(ref.Link), tell: tell}
	if w.future != nil && !w.future.Subscribe(&w.waiter, w) {
		w.Resolved(nil)
	}
	return w
}

// Resolved implements core.Resolved.
func (w *Watch) Resolved(*core.Waiter) { w.tell(w.future.Failure()) }

// Stop takes the watch back; tell may be under way. A nil Watch watches nothing.
func (w *Watch) Stop() {
	if w != nil && w.future != nil {
		w.future.Unsubscribe(&w.waiter)
	}
}

// Hurry sends the call behind ref at once, as Get does: for calls whose outcome is awaited, but not in a Get.
func Hurry[T any](root Root, ref raysys.Ref[T]) {
	if c := core.FutureOf(ref.Link); c != nil && !c.Settled() {
		c.Work().Help(root.turn)
	}
}

// Drop ends the object behind ref, of this node, whoever still has references to it: nothing reads it any more. The zero ref has
// none.
func Drop[T any](root Root, ref raysys.Ref[T]) {
	if o := root.turn.Job().Objects; o != nil && !ref.IsZero() {
		o.Drop(core.FutureOf(ref.Link))
	}
}
