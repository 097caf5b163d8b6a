package graindir

import (
	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// Retainer lets references outlive their node inside a State: the grain retains what they refer to (rule C25). Package
// objects implements it. Methods call done once, on any goroutine, and within bounded time.
type Retainer interface {
	// Retain keeps what refs refer to for a State of a grain, from now on until what is stored does not list it any
	// more. It waits for those that are not ready, and fails with the failure of one that failed. refs are what Restore
	// needs to find them again on any node, ids the objects among them.
	Retain(id ID, name string, refs []*core.Future, done func(written []byte, ids []raysys.TaskID, err error))
	// Restore reads what Retain wrote.
	Restore(written []byte) ([]*core.Future, error)
	// KeepState makes an object of the record of a State that is too large for the store, and returns when it is in files of
	// two nodes, or of one where there is no other. written is what FetchState needs to find it on any node, object its id.
	// The object stays until a version of the State is stored that does not list it.
	KeepState(id ID, name string, record []byte, done func(written []byte, object raysys.TaskID, err error))
	// KeptState tells what became of the first version of the State that lists the object: it was stored, where err is nil;
	// where err matches raysys.ErrOutcomeUnknown, raysys.ErrMoved or ErrETag it may have been; else it was not, and the object
	// goes. Each KeepState that succeeded is followed by KeptState.
	KeptState(id ID, name string, object raysys.TaskID, err error)
	// FetchState reads what KeepState wrote. It fails with raysys.ErrObjectLost where no node has it any more, and with
	// raysys.ErrUnreachable while one that may have it is away.
	FetchState(id ID, name string, written []byte, done func(record []byte, err error))
}
