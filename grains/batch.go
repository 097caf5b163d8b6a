package grains

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/internal/gather"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
)

// Batched is a handle of a method that does many arguments at once, whose callers have one each. Make it once beside the method, with Batch.
type Batched[G, A, R any] struct {
	_ [0]*func(*G, A) R
	g *gather.Gatherer
}

// Batch gathers the calls of this process to a grain and makes one of them: of size calls at once, and of fewer when the first has waited for wait and
// no other batch of the grain is under way, since calls that come meanwhile can travel along. f does all at once, and returns an Answer for each
// argument, in their order. It is for what costs about as much for many as for one: a policy on an accelerator, a request to a database. The
// kind may be a StatelessWorker, whose nodes and workers get a batch in turn.
//
// Each caller has a future of its own, with the deadline that f has, from Call on. Cancelling it, or the end of its caller, takes the
// argument out of a batch that has not left; of one that has, the answer is dropped, and the method's ctx ends when no caller is left.
// An error or panic of the method, and a wrong count of answers, fail all its calls. The method's call is no part of any caller's: it has none
// of the values of raysys.ContextKey, and a chain of calls that comes back to a grain through batches is refused on one node; over several it ends
// with its deadline.
//
// A size below 1 or above 65,536, a wait that is not above zero or not below the deadline, and a method of a Durable kind that is not ReadOnly
// fail each call with raysys.ErrBadOption. The runtime's clock counts wait by milliseconds.
func Batch[G, A, R any](f Func[G, []A, []Answer[R]], size int, wait time.Duration) Batched[G, A, R] {
	return Batched[G, A, R]{g: gather.New(f.f, size, wait, gather.Typed{
		Value: core.TypeOf[R](), Arg: core.TypeOf[A](), Send: sendGathered[A, R], Answer: answerGathered[A, R],
	})}
}

// Call calls the method on grain g and returns the future of its answer at once. Calls from one goroutine to one grain stand in a batch, and
// batches leave, in the order in which they were made. It is Func.Call otherwise: everything that can be wrong is reported through the future.
func (b Batched[G, A, R]) Call(ctx context.Context, g Grain[G], arg A) raysys.Ref[R] {
	if b.g == nil {
		return raysys.Ref[R]{Link: core.LinkTo(core.FailedOf(core.TypeOf[R](), fmt.Errorf("%w: the zero Batched: make it with grains.Batch", raysys.ErrBadDefinition)))}
	}
	r := &gathered[A, R]{arg: arg}
	r.call.Record, r.call.Future = r, &r.result.Future
	return raysys.Ref[R]{Link: b.g.Add(ctx, graindir.ID(g.id), &r.call, unsafe.Pointer(&r.arg), 2)}
}

// Answer is what a method of Batch has for one argument: a value, or an error.
type Answer[R any] struct {
	Value R
	Err   Failure `raysys:"omitzero"`
}

// Failure is the error of one Answer, which reaches its caller as the error of a call does: in a *raysys.TaskError, which names no node; the
// zero Failure is none. An error field of a value travels only where its type is registered: this one always does.
type Failure struct{ Err error }

// AppendBinary implements encoding.BinaryAppender.
func (f Failure) AppendBinary(b []byte) ([]byte, error) { return gather.AppendError(b, f.Err), nil }

// MarshalBinary implements encoding.BinaryMarshaler.
func (f Failure) MarshalBinary() ([]byte, error) { return gather.AppendError(nil, f.Err), nil }

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (f *Failure) UnmarshalBinary(b []byte) (err error) {
	f.Err, err = gather.ReadError(b)
	return err
}

// gathered is the record of one caller's call.
type gathered[A, R any] struct {
	call   gather.Call
	result core.Result[R]
	arg    A
}

// sendGathered makes the call for all.
func sendGathered[A, R any](ctx context.Context, f grainengine.Func, id graindir.ID, calls []*gather.Call) core.Link {
	args := make([]A, len(calls))
	var none A
	for i, c := range calls {
		r := c.Record.(*gathered[A, R])
		args[i] = r.arg
		r.arg = none // a record lives as long as its result, which must not keep the argument
	}
	return grainengine.Call(ctx, f, id, args)
}

// answerGathered gives the answers to their callers.
func answerGathered[A, R any](ctx context.Context, l core.Link, calls []*gather.Call) (int, error) {
	answers, err := raysys.Ref[[]Answer[R]]{Link: l}.Get(ctx)
	if len(answers) == len(calls) && err == nil {
		for i, c := range calls {
			if err := answers[i].Err.Err; err != nil {
				c.Refused(err)
			} else if c.Answers() {
				*(*R)(c.Future.ValueAt()) = answers[i].Value
				c.Answered()
			}
		}
	}
	return len(answers), err
}
