package system

import (
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/runner"
)

// references are those between this node and others: what others hold of it, and what it holds of others. They know the
// connections and, of the objects, what a value that stays where it is needs.
type references struct {
	mesh    *mesh.Mesh
	runner  *runner.Runner
	clock   clock
	job     *core.Job
	objects values
	exports exports
	imports imports
	ledger  ledger
}

// clock is the node's, with alarms that can be taken back.
type clock interface {
	runner.Clock
	ClearAlarm(*core.Alarm) bool
}

// values is what references need of the objects.
type values interface {
	// describe says which object a settled future is; it may wait for room in the store.
	describe(*core.Future) (description, error)
	// newObjectSource makes what brings the value of an object which a reference turned out to be.
	newObjectSource(*remoteSource, description) core.Source
	// copies ends a wait for an owner that cannot be asked: with where copies of its object are, else with end.
	copies(s *remoteSource, end error, done func(error))
}

// session is the references over one connection. It implements wire.References and wire.Lender.
type session struct {
	*mesh.Peer
	refs     *references
	declared []uint64 // by KindHeld, so far; used by the goroutine that reads
}

// open begins the session of a new connection: the first thing that is said on it is what is held here.
func (r *references) open(p *mesh.Peer) *session {
	s := &session{Peer: p, refs: r}
	r.exports.anew(s)
	r.ledger.declare(s)
	return s
}

// references returns the session, for refsOver.
func (p *session) references() *session { return p }

// refsOver returns the references over a connection.
func refsOver(p *mesh.Peer) *session {
	return p.Session.(interface{ references() *session }).references()
}
