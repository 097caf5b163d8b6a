package core

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"
)

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
