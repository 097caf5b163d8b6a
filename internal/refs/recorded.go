package refs

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/wire"
)

// Where the lineage of tasks is durable, a reference to a recorded task names the run of its record too. When its submitter
// dies, who holds the reference finds the next submitter by that.

// Lineage is what references need of the records of tasks.
type Lineage interface {
	// Find returns the future of a recorded task whose submitter this node is, nil when it is not.
	Find(run uint64, id raysys.TaskID) *core.Future
	// Found is Find that waits while this node, having become the submitter, makes the task, and says why it cannot. done is called
	// once, on any goroutine.
	Found(run uint64, id raysys.TaskID, done func(*core.Future, error))
	// Succeed finds the submitter of a task after the death of one, which may become this node. done is called once, on any
	// goroutine, with the Source of the outcome there, or with an error that matches cause where there is none.
	Succeed(run uint64, id raysys.TaskID, cause error, done func(core.Source, error))
	// Take has this node, which is a worker, claim a task whose submitter is dead: a detached one, which it runs, or one to
	// which a State refers.
	Take(run uint64, id raysys.TaskID)
	// RetainHere keeps a recorded task, whose submitter this node is, while the State whose record has the key refers to it.
	// done is called once, on any goroutine.
	RetainHere(run uint64, id raysys.TaskID, state string, done func(error))
}

// SetLineage gives the references the records of tasks. It is called before the first connection.
func (r *References) SetLineage(l Lineage) { r.lineage = l }

// Dormant is the Work of a task that begins when its outcome is wanted.
type Dormant interface{ Begin() }

// begin has c begin where it waits for that.
func begin(c *core.Future) {
	if d, ok := c.Work().(Dormant); ok {
		d.Begin()
	}
}

// run is the run under which the task of the future is recorded, 0 where it is not.
func (n named) run() uint64 {
	if n.recorded != nil {
		return n.recorded.run.Load()
	}
	if s := n.source(); s != nil {
		return s.run.Load()
	}
	return core.RecordedUnder(n.future)
}

// source is the future of the submitter at another node, nil where it is of this one.
func (n named) source() *RemoteSource {
	if n.submitter != nil || n.submitted {
		return n.submitter
	}
	return n.owner
}

// succeed ends a wait for the submitter of a recorded task, which is dead.
func (s *RemoteSource) succeed(end error, done func(core.Source, error)) {
	l, run := s.refs.lineage, s.run.Load()
	if l == nil || run == 0 || s.Number != 0 && s.refs.mesh.Alive(s.Owner) {
		done(nil, end)
		return
	}
	if next := s.successor.Load(); next != nil {
		done(*next, nil)
		return
	}
	l.Succeed(run, s.id, end, func(next core.Source, err error) {
		if err == nil {
			s.successor.Store(&next) // which counts this node at the next submitter
		}
		done(next, err)
	})
}

// claim has the tasks claimed whose submitter is dead and to which this node refers: what no node claims goes.
func (r *References) claim(dead core.NodeKey) {
	if r.lineage == nil {
		return
	}
	for _, s := range r.imports.of(dead) {
		s.succeed(nil, func(core.Source, error) {})
	}
}

// adopted is the Source of a task that this node has submitted in the place of another.
type adopted struct{ *localSource }

// Here returns the Source of the outcome of c, a future of this node.
func Here(c *core.Future) core.Source { return adopted{&localSource{future: c}} }

// Fetch implements core.Source.
func (s adopted) Fetch(into any, done func(error)) {
	if _, ok := into.(*undecoded); ok {
		done(&core.Elsewhere{Source: s.localSource})
		return
	}
	begin(s.future)
	s.localSource.Fetch(into, func(err error) {
		whenTold(s.future.Up().Job().Gate, s.future, func(bad error) {
			if bad != nil {
				err = bad
			}
			done(err)
		})
	})
}

// The questions of KindRecord.
const (
	recordFind   byte = iota // run and id: the future of a task whose submitter is asked
	recordNow                // the number of a future: record its task, and tell the run
	recordTake               // run and id: claim the task
	recordRetain             // run, id and the key of a State's record: keep the task while that State refers to it
)

// TakeAt asks a worker to claim a detached task. It does so once: who asks looks at the record of the task for the answer.
func (r *References) TakeAt(k core.NodeKey, run uint64, id raysys.TaskID) {
	if r.lineage != nil && k == r.mesh.Self() {
		r.lineage.Take(run, id)
		return
	}
	r.mesh.Reach(k, func(to *mesh.Questions) {
		mesh.Ask(to, wire.Requests, wire.KindRecord, func(dst []byte) []byte {
			return wire.AppendID(wire.AppendUvarint(append(dst, recordTake), run), id)
		}, func(*wire.Reader) (bool, error) { return true, nil }, func(bool, error) {})
	}, func(error) {})
}

// RetainAt asks the submitter of a recorded task to keep it while a State refers to it.
func (r *References) RetainAt(k core.NodeKey, run uint64, id raysys.TaskID, state string, done func(error)) {
	r.mesh.Reach(k, func(to *mesh.Questions) {
		mesh.Ask(to, wire.Requests, wire.KindRecord, func(dst []byte) []byte {
			return wire.AppendBytes(wire.AppendID(wire.AppendUvarint(append(dst, recordRetain), run), id), state)
		}, func(*wire.Reader) (bool, error) { return true, nil }, func(_ bool, err error) { done(err) })
	}, done)
}

// Stored names the value of a recorded task by what a State says of it: the node that had the value, and the task. It is
// counted on no node; the submitter is found by the task's record.
func (r *References) Stored(owner core.NodeKey, run uint64, id raysys.TaskID) *RemoteSource {
	s := r.Uncounted(owner, id)
	s.run.Store(run)
	return s
}

// StoredHere returns the future for a reference in a State to the value of c, a future of this node, which a recorded task
// computed here.
func (r *References) StoredHere(c *core.Future, run uint64, id raysys.TaskID) *core.Future {
	if c.Recipe() != nil { // this node is the submitter too
		return c
	}
	by := r.Stored(r.mesh.Self(), run, id)
	r.imports.owns(c, by)
	return &core.NewUntyped(r.job, ownedHere{&localSource{future: c, submitter: by}}).Future
}

// FindAt asks a node for the outcome of a task whose submitter it is.
func (r *References) FindAt(k core.NodeKey, run uint64, id raysys.TaskID, done func(core.Source, error)) {
	r.mesh.Connect(k, func(p *mesh.Peer, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		p.Questions.Ask(wire.Requests, wire.KindRecord, func(dst []byte) []byte {
			return wire.AppendID(wire.AppendUvarint(append(dst, recordFind), run), id)
		}, func(in *wire.Reader, err error) error {
			if err != nil {
				done(nil, err)
				return nil
			}
			src, err := Of(p).readAnswer(in, &RemoteSource{refs: r, Owner: k, id: id, borrow: &borrow{}})
			if in, ok := src.(*inlineSource); ok && err == nil && in.err != nil {
				done(nil, in.err)
				return nil
			}
			done(src, err)
			return err
		})
	})
}

// FindObject finds the object of a task that owner has, as its number there; 0 where only owner itself referred to it. done is called once, on any
// goroutine, with what brings it from there, or from a node that has a copy, and counts this node. The error matches raysys.ErrObjectLost where
// no node has it, and raysys.ErrUnreachable while one may.
func (r *References) FindObject(owner core.NodeKey, number uint64, id raysys.TaskID, done func(core.Source, error)) {
	var s *RemoteSource
	switch {
	case owner == r.mesh.Self():
		if c := r.exports.get(number); c != nil && c.Object() {
			done(core.Through(c), nil)
		} else {
			done(nil, fmt.Errorf("%w: %w by %s, its owner", raysys.ErrObjectLost, errUnknownRef, owner))
		}
		return
	case number == 0:
		s = r.Uncounted(owner, id)
	default:
		s = r.Borrow(owner, number, id).(*RemoteSource)
	}
	s.Ask(func(err error) {
		if e := (*core.Elsewhere)(nil); errors.As(err, &e) {
			done(e.Source, nil)
			return
		}
		done(nil, err)
	})
}

// Unrecorded returns the submitter's future of c where that is of another node and its task is not known to be recorded.
func Unrecorded(c *core.Future) *RemoteSource {
	if s := namedBy(c).source(); s != nil && s.Number != 0 && s.run.Load() == 0 {
		return s
	}
	return nil
}

// Record has the submitter record the task of s. done is called once, on any goroutine; the reference may be passed on then.
func (s *RemoteSource) Record(done func()) {
	s.refs.mesh.Reach(s.Owner, func(to *mesh.Questions) {
		mesh.Ask(to, wire.Requests, wire.KindRecord, func(dst []byte) []byte {
			return wire.AppendUvarint(append(dst, recordNow), s.Number)
		}, func(in *wire.Reader) (uint64, error) { return in.Uvarint(), nil }, func(run uint64, err error) {
			if err == nil && run != 0 {
				s.run.Store(run)
			}
			done()
		})
	}, func(error) { done() })
}

// RecordedAs returns what names the task of c in its record: by the submitter's future where that is of another node.
func RecordedAs(c *core.Future) (run uint64, id raysys.TaskID) {
	n := namedBy(c)
	if n.recorded != nil {
		return n.recorded.run.Load(), n.recorded.id
	}
	if s := n.source(); s != nil {
		return s.run.Load(), s.id
	}
	return core.RecordedUnder(n.future), n.future.ID()
}
