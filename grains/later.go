package grains

import (
	"context"

	"github.com/raysys/raysys/internal/grainengine"
)

// Later is a call that its method keeps: it settles after the turn. LaterMethod gives it to the method, which may leave
// it in the struct for a later turn, or to a goroutine.
type Later[R any] struct {
	_ [0]*R
	l grainengine.Later
}

// LaterMethod is Method for a method whose answer may come after its turn: for calls that wait for other calls. Callers
// see no difference.
//
// An error fails the call at once. After nil the call waits for Settle or Fail, of a later turn or any goroutine, and
// the grain goes on with other calls meanwhile. The call has its deadline, and may be cancelled. Calls that are kept
// count against Mailbox, so a grain that keeps as many as that takes no other call; they keep the activation from being
// idle, and are no part of a cycle.
//
// Kept calls end with ErrUnsettled when the activation ends, after OnDeactivate, and at once when its node drains. Calls
// of a method that is Idempotent are made again then. A kind that is Durable or a StatelessWorker has no such method. In
// one with a State an answer leaves only while the grain is the one, and is else the error that says so.
func LaterMethod[G, A, R any](k Kind[G], name string, fn func(*G, context.Context, A, *Later[R]) error) Func[G, A, R] {
	return Func[G, A, R]{f: grainengine.LaterMethod(k.k, name, fn == nil, func(g *G, ctx context.Context, a A) (none R, err error) {
		l := &Later[R]{}
		l.l.Begin(ctx)
		return none, grainengine.Kept(fn(g, ctx, a, l))
	})}
}

// Settle ends the call with v, which is handed over: do not change what it points to afterwards. Any goroutine may call
// it. It fails with ErrSettled when the call was settled before, and else with why the call has ended without v:
// raysys.ErrDeadline, raysys.ErrCancelled, ErrUnsettled, the method's own error.
func (l *Later[R]) Settle(v R) error { return grainengine.Settle(&l.l, v) }

// Fail ends the call with err, as if the method had returned it: the caller gets a *raysys.TaskError. It fails like
// Settle.
func (l *Later[R]) Fail(err error) error { return l.l.Fail(err) }

// Because says what the call waits for, in `raysys get`. why is asked while the call is kept, by any goroutine: it may
// lock what a turn locks as it calls Settle.
func (l *Later[R]) Because(why func() string) { l.l.Because(why) }

// Context ends with the call: when it is settled, by its deadline, when it is cancelled or its caller's node is gone,
// and when the activation ends. The method's own ctx ends when the method returns. It is for the goroutine that works
// out the answer, and is that of no turn of the grain: its States cannot be written under it.
func (l *Later[R]) Context() context.Context { return l.l.Context() }
