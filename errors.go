package raysys

import (
	"context"
	"errors"
	"fmt"
)

// Sentinels name states. Match them with errors.Is; the error a verb returns adds what, where and what to do.
var (
	// ErrNoRuntime: the context does not come from a runtime.
	ErrNoRuntime = newState("no runtime in the context: pass the ctx that system.Main, Node.Context, a task or a grain method gave you (context.Background has none)", nil)
	// ErrUnknownFunc: the handle's function or kind is not in the table this system was given.
	ErrUnknownFunc = newState("unknown function", nil)
	// ErrBadDefinition: a Define call was wrong; system.New reports all of them together.
	ErrBadDefinition = newState("bad definition", nil)
	// ErrBadOption: an option has a value that cannot be meant.
	ErrBadOption = newState("bad option", nil)
	// ErrNoCapacity: the request exceeds what any node has, so that waiting would be for ever.
	ErrNoCapacity = newState("no capacity", nil)
	// ErrOverloaded: a bounded queue is full. Retriable after a pause.
	ErrOverloaded = newState("overloaded", nil)
	// ErrCancelled: the work was cancelled. It also matches context.Canceled.
	ErrCancelled = newState("cancelled", context.Canceled)
	// ErrDeadline: the deadline passed. It also matches context.DeadlineExceeded.
	ErrDeadline = newState("deadline exceeded", context.DeadlineExceeded)
	// ErrReleased: the reference was released; its value may be gone.
	ErrReleased = newState("reference released: call Release only after the last Get", nil)
	// ErrInvalidRef: the zero Ref, or a reference of another type.
	ErrInvalidRef = newState("invalid reference", nil)
	// ErrObjectLost: every copy is gone and there is no recipe to rebuild it. While a node that may have one lives, or nobody
	// can say who has one, it is ErrUnreachable.
	ErrObjectLost = newState("object lost", nil)
	// ErrStoreFull: the node's object store has room neither in memory nor on disk. Release references, or give it more.
	ErrStoreFull = newState("object store full", nil)
	// ErrCycle: a call chain came back to a grain whose turn waits for it.
	ErrCycle = newState("call cycle", nil)
	// ErrClosed: the system was closed.
	ErrClosed = newState("system closed", context.Canceled)
	// ErrSuspended: the node's lease ran out because the store does not answer. It keeps what it has and goes on once the
	// store is back. Retriable after a pause, or elsewhere.
	ErrSuspended = newState("node suspended: the store has not answered for a whole lease; it goes on when the store does", nil)
	// ErrFenced: this incarnation of the node is over; its session is gone, or the others voted it out. The node starts over
	// as a new incarnation.
	ErrFenced = newState("node fenced: this incarnation is over, it has to join anew", nil)
	// ErrStoreReplaced: the store is not the one that this cluster began on. Restore it, or start the cluster anew.
	ErrStoreReplaced = newState("store replaced: it holds another cluster or none; restore its data, or restart every node", nil)
	// ErrNodeDead: the node, in the incarnation that was meant, is no more.
	ErrNodeDead = newState("node dead", nil)
	// ErrUnreachable: the node lives, but neither a link nor a relay reaches it, or it does not admit this node while its own
	// store is away. Retriable after a pause.
	ErrUnreachable = newState("node unreachable", nil)
	// ErrPanic: user code panicked; TaskError carries the stack.
	ErrPanic = newState("panic", nil)
	// ErrEncode: a value cannot travel.
	ErrEncode = newState("value cannot be encoded", nil)
	// ErrTooLarge: a value is larger than what can be moved or kept.
	ErrTooLarge = newState("value too large", nil)
	// ErrNoStore: the verb or option needs an object store, or names that the cluster keeps, and this system has none.
	ErrNoStore = newState("no object store", nil)
	// ErrNotFound: no object has that name.
	ErrNotFound = newState("not found", nil)
	// ErrOutcomeUnknown: the link broke after the call was sent, so it may have run or not. The runtime repeats only
	// calls of methods that are Idempotent.
	ErrOutcomeUnknown = newState("outcome unknown", nil)
	// ErrNotDelivered: the call never reached its target, so it did not run. Retriable.
	ErrNotDelivered = newState("not delivered", nil)
	// ErrMoved: the grain lives elsewhere, or this activation is not its current one any more. The runtime follows it.
	ErrMoved = newState("grain moved", nil)
)

// stateError is a sentinel that may also match a well-known error of the standard library.
type stateError struct {
	text string
	also error
}

func newState(text string, also error) *stateError { return &stateError{text, also} }

func (e *stateError) Error() string        { return e.text }
func (e *stateError) Is(target error) bool { return e.also != nil && target == e.also }

// Retriable reports whether the state err names is one that a later attempt may not meet. It is a property of the
// sentinel, not of the place it came from.
func Retriable(err error) bool {
	return errors.Is(err, ErrOverloaded) || errors.Is(err, ErrNotDelivered) || errors.Is(err, ErrSuspended) || errors.Is(err, ErrUnreachable) ||
		errors.Is(err, ErrStoreFull)
}

// TaskError is what Get returns when user code failed: the application's error or its panic, with where it ran.
// errors.Is and errors.As reach the cause.
type TaskError struct {
	Task     TaskID // the submission
	Function string // task name, or kind/key.method for a grain call
	Node     NodeID // where it ran
	Attempt  int    // 1 for the first
	Err      error  // the cause; for a panic it matches ErrPanic
	// Stack is that of the panic here, or in work that this work waited for and failed because of; else nil. %+v prints it.
	Stack []byte
}

func (e *TaskError) Error() string {
	if e.Attempt > 1 {
		return fmt.Sprintf("%s (attempt %d): %v", e.Function, e.Attempt, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.Function, e.Err)
}

func (e *TaskError) Unwrap() error { return e.Err }

// endError turns the cause that ended a turn or a wait into the typed error for it, once.
func endError(cause error) error {
	switch {
	case cause == nil:
		return ErrCancelled
	case errors.Is(cause, ErrCancelled), errors.Is(cause, ErrDeadline), errors.Is(cause, ErrClosed):
		return cause
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrDeadline, cause)
	case cause == context.Canceled:
		return ErrCancelled
	default:
		return fmt.Errorf("%w: %w", ErrCancelled, cause)
	}
}
