package core

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"
	"time"
)

// The sentinels are made here, because futures end with them; package raysys names and documents them for programs.
var (
	ErrNoRuntime      = newState("no runtime in the context: pass the ctx that system.Main, Node.Context, a task or a grain method gave you (context.Background has none)", nil)
	ErrUnknownFunc    = newState("unknown function", nil)
	ErrBadDefinition  = newState("bad definition", nil)
	ErrBadOption      = newState("bad option", nil)
	ErrNoCapacity     = newState("no capacity", nil)
	ErrOverloaded     = newState("overloaded", nil)
	ErrCancelled      = newState("cancelled", context.Canceled)
	ErrDeadline       = newState("deadline exceeded", context.DeadlineExceeded)
	ErrReleased       = newState("reference released: call Release only after the last Get", nil)
	ErrInvalidRef     = newState("invalid reference", nil)
	ErrObjectLost     = newState("object lost", nil)
	ErrStoreFull      = newState("object store full", nil)
	ErrCycle          = newState("call cycle", nil)
	ErrClosed         = newState("system closed", context.Canceled)
	ErrSuspended      = newState("node suspended: the store has not answered for a whole lease; it goes on when the store does", nil)
	ErrFenced         = newState("node fenced: this incarnation is over, it has to join anew", nil)
	ErrStoreReplaced  = newState("store replaced: it holds another cluster or none; restore its data, or restart every node", nil)
	ErrNodeDead       = newState("node dead", nil)
	ErrUnreachable    = newState("node unreachable", nil)
	ErrPanic          = newState("panic", nil)
	ErrEncode         = newState("value cannot be encoded", nil)
	ErrTooLarge       = newState("value too large", nil)
	ErrNoStore        = newState("no object store", nil)
	ErrNotFound       = newState("not found", nil)
	ErrOutcomeUnknown = newState("outcome unknown", nil)
	ErrNotDelivered   = newState("not delivered", nil)
	ErrMoved          = newState("grain moved", nil)

	ErrNondeterministic = newState("another call or task under an id that was recorded", nil)
	ErrKeyReused        = newState("another call under a key that was used", nil)
	ErrNameTaken        = newState("name taken", nil)
	ErrDeviceSick       = newState("device sick", nil)
	ErrGroupRemoved     = newState("placement group removed", nil)
	ErrFilter           = newState("filter", nil)
	ErrLeaving          = newState("the node leaves", nil)

	errExcused = newState("it is made again", nil) // see Excused
)

// CountAnew says what a task does whose next attempt does not begin from the start.
const CountAnew = "a task that goes on, and does not start over, gives its calls a raysys.Key of what they count, or makes them under raysys.Branch(ctx, raysys.Attempt(ctx)<<32+i)"

// ErrOwnFailure is what an error matches, without those that it wraps, where the failure is the work's own. Such a
// future has failed, also where the cause is that something else was cancelled or lost.
var ErrOwnFailure = errors.New("the work's own failure")

// Orphaned is a cancellation that is no outcome of the work below: another node has caused it, which has ended, or has
// cancelled what it submitted here; or an attempt has failed that is followed by another one. Work below may be submitted again, by the next attempt of what was cancelled.
type Orphaned struct{ Err error }

func (e *Orphaned) Error() string { return e.Err.Error() }
func (e *Orphaned) Unwrap() error { return e.Err }

// stateError is a sentinel that may also match a well-known error of the standard library.
type stateError struct {
	text string
	also error
}

func newState(text string, also error) error { return &stateError{text, also} }

func (e *stateError) Error() string        { return e.text }
func (e *stateError) Is(target error) bool { return e.also != nil && target == e.also }

// endError turns the cause that ended a turn or a wait into the typed error for it, once.
func endError(cause error) error {
	switch cause.(type) {
	case nil:
		return ErrCancelled
	case *stateError, *deadlineError:
	default: // a program's, from context.WithCancelCause
		cause = Sound(cause)
	}
	switch {
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

// The names are on the wire: they never change.
func init() {
	for _, s := range []struct {
		name string
		err  error
	}{
		{"no-runtime", ErrNoRuntime},
		{"unknown-func", ErrUnknownFunc},
		{"bad-definition", ErrBadDefinition},
		{"bad-option", ErrBadOption},
		{"no-capacity", ErrNoCapacity},
		{"overloaded", ErrOverloaded},
		{"cancelled", ErrCancelled},
		{"deadline", ErrDeadline},
		{"released", ErrReleased},
		{"invalid-ref", ErrInvalidRef},
		{"object-lost", ErrObjectLost},
		{"cycle", ErrCycle},
		{"closed", ErrClosed},
		{"panic", ErrPanic},
		{"encode", ErrEncode},
		{"too-large", ErrTooLarge},
		{"outcome-unknown", ErrOutcomeUnknown},
		{"not-delivered", ErrNotDelivered},
		{"moved", ErrMoved},
		{"nondeterministic", ErrNondeterministic},
		{"key-reused", ErrKeyReused},
		{"name-taken", ErrNameTaken},
		{"group-removed", ErrGroupRemoved},
		{"filter", ErrFilter},
		{"suspended", ErrSuspended},
		{"fenced", ErrFenced},
		{"store-replaced", ErrStoreReplaced},
		{"node-dead", ErrNodeDead},
		{"unreachable", ErrUnreachable},
		{"store-full", ErrStoreFull},
		{"no-store", ErrNoStore},
		{"not-found", ErrNotFound},
		{"device-sick", ErrDeviceSick},
		{"leaving", ErrLeaving},
		{"excused", errExcused},
	} {
		RegisterError("raysys."+s.name, s.err)
	}
	for _, s := range []struct {
		name string
		err  error
	}{
		{"context.Canceled", context.Canceled},
		{"context.DeadlineExceeded", context.DeadlineExceeded},
		{"errors.ErrUnsupported", errors.ErrUnsupported},
		{"fs.ErrClosed", fs.ErrClosed},
		{"fs.ErrExist", fs.ErrExist},
		{"fs.ErrInvalid", fs.ErrInvalid},
		{"fs.ErrNotExist", fs.ErrNotExist},
		{"fs.ErrPermission", fs.ErrPermission},
		{"io.EOF", io.EOF},
		{"io.ErrClosedPipe", io.ErrClosedPipe},
		{"io.ErrNoProgress", io.ErrNoProgress},
		{"io.ErrShortBuffer", io.ErrShortBuffer},
		{"io.ErrShortWrite", io.ErrShortWrite},
		{"io.ErrUnexpectedEOF", io.ErrUnexpectedEOF},
		{"net.ErrClosed", net.ErrClosed},
		{"os.ErrDeadlineExceeded", os.ErrDeadlineExceeded},
		{"os.ErrNoDeadline", os.ErrNoDeadline},
		{"os.ErrProcessDone", os.ErrProcessDone},
		{"strconv.ErrRange", strconv.ErrRange},
		{"strconv.ErrSyntax", strconv.ErrSyntax},
	} {
		RegisterError(s.name, s.err)
	}
}

type deadlineError struct {
	what  string
	after time.Duration // 0 where that is not known
}

func (e *deadlineError) Error() string {
	if e.after > 0 {
		return fmt.Sprintf("%s: deadline exceeded after %v (raysys.Deadline sets another)", e.what, e.after)
	}
	return e.what + ": deadline exceeded (raysys.Deadline sets another)"
}

func (e *deadlineError) Unwrap() error { return ErrDeadline }
