package refs

import (
	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/runner"
)

// References are the references between this node and others: those that other nodes hold to its futures, and those that
// it holds to theirs. They send over the mesh. A value that is too large to be sent with its outcome stays where it is,
// as an object, which the node's Objects describe and find.
type References struct {
	mesh    *mesh.Mesh
	runner  *runner.Runner
	clock   Clock
	job     *core.Job
	objects Objects // from SetObjects on
	lineage Lineage // nil where that is not durable
	exports exports
	imports imports
	table   table
}

// New makes the references of a node; it does no I/O.
func New(m *mesh.Mesh, r *runner.Runner, clock Clock, job *core.Job) *References {
	refs := &References{mesh: m, runner: r, clock: clock, job: job}
	refs.imports.refs, refs.table.refs = refs, refs
	return refs
}

// SetObjects gives the references the node's objects, which are made after them. It is called before the first connection.
func (r *References) SetObjects(o Objects) { r.objects = o }

// Clock is the node's, with alarms that can be taken back.
type Clock interface {
	runner.Clock
	ClearAlarm(*core.Alarm) bool
}

// Objects is what references need of the objects.
type Objects interface {
	// Describe says which object the value of a settled future is; it may wait for room in the store.
	Describe(*core.Future) (Description, error)
	// DescribeHere is Describe for a value that is here, when its owner has lost it: this node's bytes are the object.
	DescribeHere(*core.Future) (Description, error)
	// NewSource makes a source for a reference whose value turned out to be an object.
	NewSource(*RemoteSource, Description) core.Source
	// FindCopies ends a wait for an owner that cannot be asked: done gets a core.Elsewhere for a copy of its object, else end.
	FindCopies(s *RemoteSource, end error, done func(error))
}

// Future returns the future that this node exports under a number, nil when no other node holds it any more.
func (r *References) Future(number uint64) *core.Future { return r.exports.get(number) }

// Exported returns how many futures of this node others hold, Imported how many of others this node holds.
func (r *References) Exported() int { return r.exports.size() }

// Imported is the counterpart of Exported.
func (r *References) Imported() int { return r.imports.size() }

// Holders lists the futures that other nodes hold, with how many references each of them has.
func (r *References) Holders() map[*core.Future]map[core.NodeKey]int { return r.exports.holders() }

// Take returns the future that owner exports under number. The owner has counted this node as a holder already.
func (r *References) Take(id raysys.TaskID, owner core.NodeKey, number uint64) *core.Future {
	from := exportKey{owner, number}
	return r.imports.take(id, from, from)
}

// GiveBack gives back a reference that the owner has counted for this node, and that nothing here will use.
func (r *References) GiveBack(owner core.NodeKey, number uint64) {
	r.table.drop(exportKey{owner, number})
}

// Uncounted names a future of another node that does not count this node as its holder. Such a reference stands for a copy
// of the future's value.
func (r *References) Uncounted(owner core.NodeKey, id raysys.TaskID) *RemoteSource {
	return &RemoteSource{refs: r, Owner: owner, id: id, borrow: &borrow{}}
}

// Borrow names the future that owner exports under number, by a record. The owner does not count this node as a holder yet: it is asked
// to at once, and the reference counts until its Source is collected.
func (r *References) Borrow(owner core.NodeKey, number uint64, id raysys.TaskID) core.Source {
	if owner != r.mesh.Self() {
		return RemoteOf(r.imports.take(id, exportKey{owner, number}, exportKey{}))
	}
	if c := r.exports.get(number); c != nil {
		return Here(c)
	}
	return r.Uncounted(owner, id)
}

// Gone says that an incarnation has left the cluster. The references that it holds count for borrowGrace more; see borrow.
func (r *References) Gone(holder core.NodeKey) {
	r.runner.After(borrowGrace, func() { r.exports.died(holder) })
	r.claim(holder)
}

// Tick calls the functions that AtTick was given since the last one. The node calls it a few times a second.
func (r *References) Tick() { r.table.tick() }

// AtTick has f called by the next Tick. It is for the collector's goroutine, which runs outside the virtual time of a test
// and so must neither set an alarm nor wake a goroutine.
func (r *References) AtTick(f func()) { r.table.atTick(f) }

// AfterDrops calls f, which must not block, when the drops that wait have been sent; at once when none does.
func (r *References) AfterDrops(f func()) { r.table.afterDrops(f) }

// Owed returns how many references are about to be given back.
func (r *References) Owed() int { return r.table.owed() }

// Close sends no more drops. A new connection would declare what is held then.
func (r *References) Close() { r.table.close() }
