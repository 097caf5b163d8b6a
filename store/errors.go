package store

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys"
)

// Sentinels name states. Match them with errors.Is; the error a verb returns adds what, where and what to do.
var (
	// ErrNotFound: there is no such key.
	ErrNotFound = errors.New("key not found")
	// ErrUnavailable: the store cannot be reached, and nothing was done. Later it may.
	ErrUnavailable = errors.New("store unavailable")
	// ErrUnknownOutcome: the change may or may not have been made, now or a little later. Read it back. It also matches
	// raysys.ErrOutcomeUnknown.
	ErrUnknownOutcome = fmt.Errorf("change of the store: %w", raysys.ErrOutcomeUnknown)
	// ErrRefused: a condition of the transaction does not hold; nothing was done. The error is a RefusedError.
	ErrRefused = errors.New("transaction refused")
	// ErrSessionGone: the session ended, and the keys that it held are deleted.
	ErrSessionGone = errors.New("session gone")
	// ErrDenied: the store's access rules forbid it.
	ErrDenied = errors.New("permission denied")
	// ErrTooLarge: a value, batch or transaction is beyond its limit. It is raysys.ErrTooLarge.
	ErrTooLarge error = raysys.ErrTooLarge
	// ErrBadKey: no store would take this key.
	ErrBadKey = errors.New("bad key")
	// ErrBadOp: an operation that no store knows, or that lacks its session.
	ErrBadOp = errors.New("bad operation")
	// ErrClosed: the store or shard was closed.
	ErrClosed = errors.New("store closed")
	// ErrCorrupt: the bytes read are not those that were written.
	ErrCorrupt = errors.New("corrupt")
	// ErrTooNew: the data is of a version that this program does not know.
	ErrTooNew = errors.New("written by a newer version")
	// ErrInUse: another process has the data directory open.
	ErrInUse = errors.New("data directory in use")
)

// RefusedError names the operation whose condition did not hold.
type RefusedError struct {
	Index int    // of the operation in the transaction
	Op    Op     // without its value
	Why   string // in the store's words
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("refused: operation %d, %v: %s", e.Index, e.Op, e.Why)
}

// Is makes errors.Is(err, ErrRefused) true.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }
