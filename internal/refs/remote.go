package refs

import (
	"fmt"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// RemoteSource brings the outcome of a future of another node. The futures here that stand for that one refer to it, and it
// refers to the borrow: when the last of them is collected, the borrow ends.
type RemoteSource struct {
	refs   *References
	Owner  core.NodeKey
	Number uint64 // in the owner's exports
	id     raysys.TaskID
	borrow *borrow
	future *core.Untyped // for the next reference that arrives; guarded by imports.mu
	// submitter is the submitter's future, which has the recipe of the value; nil where the owner submitted it, or this node.
	submitter atomic.Pointer[RemoteSource]
	run       atomic.Uint64               // of the record of the task, where this is the submitter's future; 0 where none is known
	successor atomic.Pointer[core.Source] // the outcome at the next submitter, once the owner is dead
}

func (s *RemoteSource) Name() string      { return "value owned by " + string(s.Owner.Node) }
func (s *RemoteSource) ID() raysys.TaskID { return s.id }

// Cancelled implements core.Source. It does nothing: other holders may want the value.
func (s *RemoteSource) Cancelled() {}

// Fetch implements core.Source: it asks the owner, and then the lenders when the owner is gone or does not know the future.
func (s *RemoteSource) Fetch(into any, done func(error)) {
	if next := s.successor.Load(); next != nil {
		(*next).Fetch(into, done)
		return
	}
	(&await{source: s, at: exportKey{s.Owner, s.Number}, into: into, done: done}).begin()
}

// Ask is Fetch for callers that want to know where the value is, not the value: done gets a core.Elsewhere, or a failure.
func (s *RemoteSource) Ask(done func(error)) { s.Fetch(&undecoded{}, done) }

// lost is the error of a wait that neither the owner nor a lender can answer, and for which there is no copy.
func (s *RemoteSource) lost(cause error) error {
	return fmt.Errorf("%w: its owner %s cannot be asked: %w", raysys.ErrObjectLost, s.Owner, cause)
}

// Unreachable is the error of a wait while a node that does not answer may still have the value.
func (s *RemoteSource) Unreachable(cause error) error {
	return fmt.Errorf("%w: the value that %s owns may be had later: %w", raysys.ErrUnreachable, s.Owner, cause)
}

// standsFor is a source of a future of another node: a RemoteSource, or what it became once the value was known to be an
// object.
type standsFor interface{ Remote() *RemoteSource }

// Remote implements standsFor.
func (s *RemoteSource) Remote() *RemoteSource { return s }

// RemoteOf names the future of another node that c stands for; nil for a future of this node.
func RemoteOf(c *core.Future) *RemoteSource {
	if s, ok := core.SourceOf(c).(standsFor); ok {
		return s.Remote()
	}
	return nil
}

// Lenders lists the nodes that passed the reference on and still export it to this node. They may have a copy that the
// directory does not know yet.
func (s *RemoteSource) Lenders() (list []core.NodeKey) {
	for _, l := range s.refs.table.lenders(s.borrow) {
		list = append(list, l.owner)
	}
	return list
}

// Where implements core.Located.
func (s *RemoteSource) Where() (core.NodeKey, int64) {
	return s.Owner, 0
}
