package refs

import (
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// RemoteSource is a future of another node. It holds the borrow, and whatever refers to the future holds it.
type RemoteSource struct {
	refs   *References
	Owner  core.NodeKey
	Number uint64 // in the owner's exports
	id     raysys.TaskID
	borrow *borrow
	future *core.Untyped // what newcomers get; guarded by imports.mu
}

func (s *RemoteSource) Name() string      { return "value owned by " + string(s.Owner.Node) }
func (s *RemoteSource) ID() raysys.TaskID { return s.id }

// Cancelled implements core.Source: others may want the value, so its owner goes on.
func (s *RemoteSource) Cancelled() {}

// Fetch implements core.Source: it asks the owner, and if that is gone or does not know the future, the lenders.
func (s *RemoteSource) Fetch(into any, done func(error)) {
	(&await{source: s, at: exportKey{s.Owner, s.Number}, into: into, done: done}).begin()
}

// Ask is Fetch for callers that want to know where the value is, and not the value: done is called with a
// core.Elsewhere, or with a failure.
func (s *RemoteSource) Ask(done func(error)) { s.Fetch(&undecoded{}, done) }

// lost is what a wait ends with that neither the owner nor anybody else answers.
func (s *RemoteSource) lost(cause error) error {
	return fmt.Errorf("%w: its owner %s cannot be asked: %w", raysys.ErrObjectLost, s.Owner, cause)
}

// Unreachable is what it ends with while somebody may have the value still.
func (s *RemoteSource) Unreachable(cause error) error {
	return fmt.Errorf("%w: the value that %s owns may be had later: %w", raysys.ErrUnreachable, s.Owner, cause)
}

// standsFor is a source for a future of another node, once more is known of it.
type standsFor interface{ Remote() *RemoteSource }

// Remote implements standsFor.
func (s *RemoteSource) Remote() *RemoteSource { return s }

// RemoteOf returns what names the future of another node that c stands for, nil when it is of this node.
func RemoteOf(c *core.Future) *RemoteSource {
	if s, ok := core.SourceOf(c).(standsFor); ok {
		return s.Remote()
	}
	return nil
}

// Lenders lists the nodes that passed the reference on and still keep it for this one. They may have a copy that the
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
