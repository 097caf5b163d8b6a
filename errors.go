package raysys

import (
	"errors"
	"fmt"
	"strings"

	"github.com/raysys/raysys/internal/core"
)

// Sentinels name states. Match them with errors.Is; the error a verb returns adds what, where and what to do.
var (
	// ErrNoRuntime: the context does not come from a runtime.
	ErrNoRuntime = core.ErrNoRuntime
	// ErrUnknownFunc: the handle's function or kind is not in the table this system was given.
	ErrUnknownFunc = core.ErrUnknownFunc
	// ErrBadDefinition: a Define call was wrong; system.New reports all of them together.
	ErrBadDefinition = core.ErrBadDefinition
	// ErrBadOption: an option has a value that cannot be meant.
	ErrBadOption = core.ErrBadOption
	// ErrNoCapacity: the request exceeds what any node has, so that waiting would be for ever.
	ErrNoCapacity = core.ErrNoCapacity
	// ErrOverloaded: a bounded queue is full. Retriable after a pause.
	ErrOverloaded = core.ErrOverloaded
	// ErrCancelled: the work was cancelled. It also matches context.Canceled.
	ErrCancelled = core.ErrCancelled
	// ErrDeadline: the deadline passed. It also matches context.DeadlineExceeded.
	ErrDeadline = core.ErrDeadline
	// ErrReleased: the reference was released; its value may be gone.
	ErrReleased = core.ErrReleased
	// ErrInvalidRef: the zero Ref, or a reference of another type.
	ErrInvalidRef = core.ErrInvalidRef
	// ErrObjectLost: every copy is gone and there is no recipe to rebuild it. While a node that may have one lives,
	// or its location is not known, the error is ErrUnreachable.
	ErrObjectLost = core.ErrObjectLost
	// ErrStoreFull: the node's object store has room neither in memory nor on disk. Release references, or give it more.
	ErrStoreFull = core.ErrStoreFull
	// ErrCycle: a call chain came back to a grain whose turn waits for it.
	ErrCycle = core.ErrCycle
	// ErrClosed: the system was closed. It matches context.Canceled.
	ErrClosed = core.ErrClosed
	// ErrSuspended: the node's lease ran out because the store does not answer. It keeps what it has and goes on once the
	// store is back. Retriable after a pause, or elsewhere.
	ErrSuspended = core.ErrSuspended
	// ErrFenced: this incarnation of the node is over; its session is gone, or the others voted it out. The node starts over
	// as a new incarnation.
	ErrFenced = core.ErrFenced
	// ErrStoreReplaced: the store is not the one that this cluster began on. Restore it, or start the cluster anew.
	ErrStoreReplaced = core.ErrStoreReplaced
	// ErrNodeDead: the node, in the incarnation that was meant, is no more.
	ErrNodeDead = core.ErrNodeDead
	// ErrUnreachable: the node lives, but neither a link nor a relay reaches it, or it does not admit this node while its own
	// store is away. Retriable after a pause.
	ErrUnreachable = core.ErrUnreachable
	// ErrPanic: user code panicked; TaskError carries the stack.
	ErrPanic = core.ErrPanic
	// ErrEncode: a value cannot travel.
	ErrEncode = core.ErrEncode
	// ErrTooLarge: a value is larger than what can be moved or kept.
	ErrTooLarge = core.ErrTooLarge
	// ErrNoStore: the verb or option needs an object store, or names that the cluster keeps, and this system has none.
	ErrNoStore = core.ErrNoStore
	// ErrNotFound: no object and no task has that name.
	ErrNotFound = core.ErrNotFound
	// ErrOutcomeUnknown: the link broke after the call was sent, so it may have run or not. The runtime repeats only
	// calls of methods that are Idempotent.
	ErrOutcomeUnknown = core.ErrOutcomeUnknown
	// ErrNotDelivered: the call never reached its target, so it did not run. Retriable.
	ErrNotDelivered = core.ErrNotDelivered
	// ErrMoved: the grain lives elsewhere, or this activation is not its current one any more. The runtime follows it.
	ErrMoved = core.ErrMoved
	// ErrNondeterministic: work that ran again did something else under an id that its first run recorded, such as a call
	// with another argument. What was recorded stays.
	ErrNondeterministic = core.ErrNondeterministic
	// ErrKeyReused: the grain remembers a call with the same Key, of another method or with another argument. What that
	// call did stays.
	ErrKeyReused = core.ErrKeyReused
	// ErrNameTaken: a task runs under that name which was submitted with another function or another argument, or an object
	// has the name.
	ErrNameTaken = core.ErrNameTaken
	// ErrDeviceSick: a device that the work held has failed; see WithDevices. With ErrNoCapacity: the devices that the work asks for have.
	ErrDeviceSick = core.ErrDeviceSick
	// ErrGroupRemoved: the placement group of the work was removed, or went with the node that it belonged to. What ran in it was cancelled.
	ErrGroupRemoved = core.ErrGroupRemoved
	// ErrLeaving is what a task returns that gives way to the drain of its node (Leaving). The task is made again on
	// another node at once, whatever its Retries; Attempt counts on. So is one whose node was told meanwhile to stay.
	// From a task on another node, and from a grain's method, it is an error as others.
	ErrLeaving = core.ErrLeaving
	// ErrFilter: a Filter called next twice, or late, or with a context of other work, or returned nil and had not called it.
	ErrFilter = core.ErrFilter
)

// Retriable reports whether the state err names is one that a later attempt may not meet. It is a property of the
// sentinel, not of the place it came from. An error may match ErrOutcomeUnknown besides: then the call may have run, and a later
// attempt may run it twice.
func Retriable(err error) bool {
	return errors.Is(err, ErrOverloaded) || errors.Is(err, ErrNotDelivered) || errors.Is(err, ErrSuspended) || errors.Is(err, ErrUnreachable) ||
		errors.Is(err, ErrStoreFull)
}

// TaskError is what Get returns when user code failed: the application's error or its panic, with where it ran. A task that was lost
// with its node in its last attempt, and one whose argument or result could not be read, is one too. errors.Is and errors.As reach the
// cause.
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

// Is tells the runtime that the failure is the work's own, also where its cause is that something else was cancelled or lost.
func (e *TaskError) Is(target error) bool { return target == core.ErrOwnFailure }

// CycleError is the failure of a grain call that would wait for itself. It matches ErrCycle.
type CycleError struct {
	Chain []string // the turns, from the one that waits back to itself
}

func (e *CycleError) Error() string {
	return fmt.Sprintf("call cycle %s: declare the kind or the method Reentrant to admit it, or do not wait in the turn",
		strings.Join(e.Chain, " -> "))
}

// Is makes errors.Is(err, ErrCycle) true.
func (e *CycleError) Is(target error) bool { return target == error(ErrCycle) }

// The name is on the wire: it never changes.
var _ = Register[*CycleError]("grains.CycleError")
