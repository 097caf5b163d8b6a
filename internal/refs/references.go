package refs

import (
	"math"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/wire"
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

// lostAt returns the Source of c when that is what lost names, nil when the value is elsewhere or here.
func (r *References) lostAt(c *core.Future, lost exportKey) core.Source {
	if lost == (exportKey{}) || !c.Absent() {
		return nil
	}
	src := core.SourceOf(c)
	switch s := core.SourceOf(core.Behind(c)).(type) {
	case standsFor:
		at := s.Remote()
		owner := at.Owner
		if l, ok := s.(core.Located); ok {
			owner, _ = l.Where()
		}
		if owner == lost.owner && (lost.number == 0 || lost.number == at.Number) {
			return src
		}
	case interface{ Lost() error }: // in this node's store
		if lost.owner == r.mesh.Self() && s.Lost() != nil {
			return src
		}
	}
	return nil
}

// nextAttempt finds the future that a recorded task has by now in the place of c, which has failed with no outcome: what
// submitted the task has another attempt. Where there is none done gets cause.
func (r *References) nextAttempt(c *core.Future, cause error, done func(*core.Future, error)) {
	run := core.RecordedUnder(c)
	if r.lineage == nil || run == 0 || !c.Failed() {
		done(nil, cause)
		return
	}
	r.lineage.Succeed(run, c.ID(), nil, func(_ core.Source, err error) {
		next := r.lineage.Find(run, c.ID())
		if err != nil || next == nil || next == c {
			done(nil, cause)
			return
		}
		done(next, nil)
	})
}

// register asks the owner to count this node, and asks again as long as the request may have been lost.
func (r *References) register(b *borrow) {
	r.mesh.Reach(b.owner.owner, func(to *mesh.Questions) {
		mesh.Ask(to, wire.Requests, wire.KindBorrow, func(dst []byte) []byte {
			return wire.AppendUvarint(dst, b.owner.number)
		}, func(in *wire.Reader) (byte, error) { return in.Byte(), nil }, func(counted byte, err error) {
			if mesh.Undelivered(err) || mesh.Unknown(err) { // counting twice is counting once: see exports.declared
				r.runner.Later(func() { r.register(b) })
				return
			}
			r.table.answered(b, err == nil && counted == 1)
		})
	}, func(error) { r.table.answered(b, false) })
}

// Orphans returns futures of dead nodes that this node holds, of the ids for which wanted is true: up to limit, and of the two futures
// of a value the owner's.
func (r *References) Orphans(wanted func(id raysys.TaskID) bool, limit int) (list []*core.Future) {
	found, submitters := map[*RemoteSource]bool{}, map[*RemoteSource]bool{}
	i := &r.imports
	i.mu.Lock()
	defer i.mu.Unlock()
	for k, w := range i.list {
		if s := w.Value(); s != nil && wanted(s.id) && !r.mesh.Alive(k.owner) {
			found[s], submitters[s.submitter.Load()] = true, true
		}
	}
	for s := range found {
		if !submitters[s] && len(list) < limit {
			list = append(list, &s.future.Future)
		}
	}
	return list
}

// collected is called by the collector's goroutine when nothing here refers to a future of another node any more.
func (r *References) collected(b *borrow) {
	r.imports.forget(b.owner)
	r.table.atTick(func() { r.table.end(b) })
}

// submitterOf returns what a reference to the submitter's future names.
func (r *References) submitterOf(n named) named {
	if n.submitted {
		return named{future: n.future}
	}
	return named{future: r.imports.again(n.submitter), owner: n.submitter}
}

// pair returns the future for a reference to two futures.
func (r *References) pair(owner, submitter *core.Future) *core.Future {
	by := RemoteOf(submitter)
	if by == nil || !submitter.Borrowed() {
		return submitter
	}
	switch at := RemoteOf(owner); {
	case at == nil, !owner.Borrowed():
		r.imports.owns(owner, by)
		return &core.NewUntyped(r.job, ownedHere{&localSource{future: owner, submitter: by}}).Future
	case at != by:
		if known := at.submitter.Load(); known == nil || !r.mesh.Alive(known.Owner) { // the task has another submitter by now
			at.submitter.CompareAndSwap(known, by)
		}
	}
	return owner
}

// RemakeOwn is Remake for a value that this node has lost, which another had a task compute here: for c, the future of
// the owner.
func (r *References) RemakeOwn(c *core.Future, lost error, done func(core.Source, error)) {
	at := r.imports.submitterOf(c)
	switch {
	case at == nil:
		done(nil, lost)
		return
	case at.Number == 0: // the task's record knows the submitter
		at.succeed(lost, done)
		return
	}
	number, ok := r.exports.numberOf(c)
	if !ok {
		number = math.MaxUint64 // the submitter's future is of another value by now
	}
	(&recovery{at: at, lost: exportKey{r.mesh.Self(), number}, cause: lost, done: done}).begin()
}

// Open begins the session of a new connection. It is called before anything else is sent on the connection: the first frame
// declares the references that are held here.
func (r *References) Open(p *mesh.Peer) {
	s := &Session{Peer: p, refs: r}
	p.Session = s
	r.exports.anew(p.Key(), s)
	r.table.declare(s)
}
