package objects

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
)

// retainGrace is how long a State may take to be written after its objects were retained.
const retainGrace = 2 * time.Minute

// retention keeps an object for a State until a version of the State does not list it. The first version after the
// retention decides: one activation at a time writes a State, and it writes after its retentions are made.
type retention struct {
	o       *Objects
	key     string
	oid     raysys.TaskID
	number  uint64 // of the retentions of this object for this State: the last one decides
	looked  atomic.Bool
	written atomic.Bool
	alarm   core.Alarm
	late    bool // retainGrace is over; the alarm alone uses it
	over    atomic.Bool

	writer core.NodeKey // the node of KeepState, of an object that is the State itself (retention.go); zero for others
}

// seen takes an answer about the State's record: the record as it is at first, then each change of it.
func (r *retention) seen(a registry.Entry, err error) {
	o := r.o
	listed := slices.Contains(a.Held, r.oid)
	switch {
	case o.ctx.Err() != nil || r.over.Load() || r.superseded():
	case err != nil:
		o.clock.SetAlarm(&core.Alarm{At: o.clock.Now() + int64(watchPause), Ring: func() { o.record(r.key, shardlog.Version{}, false, r.seen) }})
	case r.writer != core.NodeKey{}:
		r.seenOwn(a, listed)
	case listed || !r.looked.Swap(true):
		if listed && !r.written.Swap(true) {
			o.clock.ClearAlarm(&r.alarm)
		}
		r.looked.Store(true)
		o.record(r.key, a.Version, true, r.seen)
	default:
		o.clock.ClearAlarm(&r.alarm)
		r.finish()
	}
}

// unwritten ends a retention whose State was never written: two reads behind all that the leader was asked for before do not
// list the object, retainGrace apart. The commit of a State waits as long as the store is away, and so do these reads; the
// writer's request may reach the leader after the first.
func (r *retention) unwritten() {
	r.o.lastRecord(r.key, func(a registry.Entry, err error) {
		pause := retainGrace
		switch {
		case r.o.ctx.Err() != nil || r.over.Load() || r.written.Load() || r.superseded():
			return
		case err != nil:
			pause = watchPause
		case slices.Contains(a.Held, r.oid): // which seen will see too
			r.written.Store(true)
			return
		case r.late:
			r.finish()
			return
		default:
			r.late = true
		}
		r.o.clock.SetAlarm(&core.Alarm{At: r.o.clock.Now() + int64(pause), Ring: r.unwritten})
	})
}

// superseded reports whether a later retention of the object for the State has taken the place of this one, and watches in its stead.
func (r *retention) superseded() bool {
	kept := &r.o.kept
	kept.mu.Lock()
	defer kept.mu.Unlock()
	k := kept.byID[r.oid]
	return k != nil && k.keys[r.key] > r.number
}

// finish ends the retention for good.
func (r *retention) finish() {
	r.over.Store(true)
	r.end()
}

func (r *retention) end() {
	r.o.unkeep(r.oid, func(k *reasons) {
		if k.keys[r.key] == r.number {
			delete(k.keys, r.key)
		}
	})
}

// The retention of an object that is a State ends its files, so it ends in three ways only:
//
//	the record listed it           and does not any more, in a read behind all commits (FindLast)
//	the node that writes it lives  and says that no record will list it: KeptState, or opFree
//	the node that writes it died   and after retainGrace or more a read behind all commits does not list it
//
// The leader refuses the commit of a node that is dead, and FindLast is answered behind one that it took before.

// seenOwn is seen for the State's own object.
func (r *retention) seenOwn(a registry.Entry, listed bool) {
	if listed {
		r.written.Store(true)
		r.o.kept.noteFiles(r.oid, &a.Record)
	}
	if listed || !r.written.Load() && r.open() {
		r.o.record(r.key, a.Version, true, r.seen)
		return
	}
	r.decide(func(a registry.Entry) { r.seenOwn(a, true) })
}

// open reports whether the node that writes the State is to say what becomes of the object. Of another node nothing but
// opFree is believed before its death: it may be about to commit.
func (r *retention) open() bool {
	if r.writer != r.o.self() {
		return true
	}
	r.o.kept.mu.Lock()
	defer r.o.kept.mu.Unlock()
	k := r.o.kept.byID[r.oid]
	return k != nil && k.writing
}

// setAlarm sets the alarm for a State that is not known to be written.
func (r *retention) setAlarm() {
	r.o.clock.SetAlarm(&core.Alarm{At: r.o.clock.Now() + int64(retainGrace), Ring: r.unwrittenState})
}

// unwrittenState looks after an object that no record is known to list. Its alarm alone calls it.
func (r *retention) unwrittenState() {
	switch self := r.writer == r.o.self(); {
	case r.written.Load(), r.over.Load(), r.o.ctx.Err() != nil:
	case self && r.open(), !self && r.o.mesh.Alive(r.writer):
		r.setAlarm()
	case !r.late:
		r.late = true
		r.setAlarm()
	default:
		r.decide(func(registry.Entry) { r.written.Store(true) }) // which seen will see too
	}
}

// decide ends the retention unless the last version of the State's record lists the object; else it calls listed.
func (r *retention) decide(listed func(registry.Entry)) {
	r.o.lastRecord(r.key, func(a registry.Entry, err error) {
		switch {
		case r.o.ctx.Err() != nil || r.over.Load():
		case err != nil:
			r.o.clock.SetAlarm(&core.Alarm{At: r.o.clock.Now() + int64(watchPause), Ring: func() { r.decide(listed) }})
		case slices.Contains(a.Held, r.oid):
			listed(a)
		default:
			r.finish()
		}
	})
}

// A reference in a State is written as what it refers to: a small value itself, an object by its id and owner, and by the
// recorded task that computed it. The owner retains the object while the State's record lists it, and watches that record;
// so does the task's submitter with the task. So the retention and the State are one record, and the retention of a Write
// that was never committed ends after retainGrace.

// Kinds of a written reference.
const (
	writtenSmall  byte = 1 + iota // encoded value, and what it refers to
	writtenObject                 // object id, submission id, owner, size, and what it refers to
	writtenTask                   // run and id of the recorded task that computed the object, and then as writtenObject
)

// maxDepth bounds references inside what references refer to.
const maxDepth = 16

// retaining is one call of Retain.
type retaining struct {
	o   *Objects
	key string // of the State's record
	ids []raysys.TaskID
}

// append writes one reference. An object that is lost is made again, where something knows how.
func (r *retaining) append(dst []byte, c *core.Future, depth int) ([]byte, error) {
	if depth > maxDepth {
		return dst, fmt.Errorf("%w: references within references, %d deep", raysys.ErrEncode, depth)
	}
	for rebuilds := 0; ; rebuilds++ {
		out, src, err := r.once(dst, c, depth)
		if src == nil || !errors.Is(err, raysys.ErrObjectLost) || rebuilds == maxRebuilds {
			return out, err
		}
		if bad := r.rebuild(c, src, err); bad != nil {
			return dst, bad
		}
		if core.SourceOf(c) == src { // it has the value, and no copy that can be kept
			return dst, err
		}
	}
}

// maxRebuilds bounds how often one object is made again for one reference, when each new owner dies too.
const maxRebuilds = 8

// rebuild has the object that src has lost made again.
func (r *retaining) rebuild(c *core.Future, src core.Source, lost error) error {
	_, err := runner.Wait(r.o.ctx, func(done func(struct{}, error)) {
		c.Rebuild(src, lost, func(err error) { done(struct{}{}, err) })
	})
	return err
}

// once is append without a rebuild. When the object of c itself cannot be retained it returns the source that c has.
func (r *retaining) once(dst []byte, c *core.Future, depth int) ([]byte, core.Source, error) {
	if err := settled(r.o.ctx, c); err != nil {
		return dst, nil, err
	}
	if err := c.Failure(); err != nil {
		return dst, nil, err
	}
	if v, err := c.Outcome(); err == nil {
		value := reflect.ValueOf(v).Elem()
		plan, err := codec.PlanOf(value.Type())
		if err != nil {
			return dst, nil, err
		}
		if !wire.Exceeds(plan, wire.AddressOf(v), wire.InlineLimit) {
			var inner []*core.Future
			b, err := plan.Append(nil, value, &inner)
			if err != nil {
				return dst, nil, err
			}
			if len(b) <= wire.InlineLimit {
				dst, err = r.inner(wire.AppendBytes(append(dst, writtenSmall), b), inner, depth)
				return dst, nil, err
			}
		}
	}
	src := core.SourceOf(c)
	d, err := r.o.Describe(c)
	if err == nil {
		err = r.retain(&d)
	}
	if err != nil {
		return dst, src, err
	}
	task, err := r.task(c)
	if err != nil {
		return dst, nil, err
	}
	r.ids = append(r.ids, d.OID)
	if task.Retained {
		r.ids = append(r.ids, task.ID)
	}
	if task.Run != 0 {
		dst = wire.AppendID(wire.AppendUvarint(append(dst, writtenTask), task.Run), task.ID)
	} else {
		dst = append(dst, writtenObject)
	}
	dst = wire.AppendID(wire.AppendID(dst, d.OID), c.ID())
	dst = wire.AppendUvarint(wire.AppendNode(dst, d.Owner), uint64(d.Size))
	dst, err = r.inner(dst, d.Refs, depth)
	return dst, nil, err
}

// task has the task that computed the object of c recorded, and its record stay for the State.
func (r *retaining) task(c *core.Future) (core.RetainedTask, error) {
	gate, ok := r.o.job.Gate.(core.StateGate)
	if !ok {
		return core.RetainedTask{}, nil
	}
	return runner.Wait(r.o.ctx, func(done func(core.RetainedTask, error)) { gate.RetainTask(c, r.key, done) })
}

func (r *retaining) inner(dst []byte, refs []*core.Future, depth int) ([]byte, error) {
	dst = wire.AppendUvarint(dst, uint64(len(refs)))
	for _, c := range refs {
		var err error
		if dst, err = r.append(dst, c, depth+1); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// retain has the owner of an object retain it for the State, or a node with a copy when the owner is dead.
func (r *retaining) retain(d *refs.Description) error {
	o := r.o
	if d.Owner == o.self() {
		return o.retainHere(r.key, d.OID)
	}
	err := r.retainAt(d.Owner, d.OID)
	if errors.Is(err, raysys.ErrNodeDead) || err != nil && !o.mesh.Alive(d.Owner) {
		err = r.retainCopy(d, err)
	}
	if err != nil {
		return fmt.Errorf("object of %s: %w", d.Owner, err)
	}
	return nil
}

// retainAt has another node retain an object. It asks again when a connection ends before the answer: to retain twice is
// to retain once. The node may also have died, which the next question finds out.
func (r *retaining) retainAt(at core.NodeKey, oid raysys.TaskID) (err error) {
	for range maxAsked {
		err = r.o.askWait(r.o.ctx, at, opRetain, objectRequest{oid: oid, key: r.key})
		if !mesh.Unknown(err) || !r.o.mesh.Alive(at) {
			break
		}
	}
	return err
}

// maxAsked bounds how often retainAt asks a node whose connections end.
const maxAsked = 8

// retainCopy has a copy of a dead node's object retained: on this node if it has one, else on a node that the directory
// names, first on those that keep a copy as a replica.
func (r *retaining) retainCopy(d *refs.Description, cause error) error {
	o, oid := r.o, d.OID
	if obj := o.store.Lookup(oid); obj != nil {
		if obj.Whole(o.ctx) == nil && o.retainHere(r.key, oid) == nil {
			return nil
		}
	}
	lost := []error{fmt.Errorf("%w: %w", raysys.ErrObjectLost, cause)}
	var open error // the first of a node that lives and did not answer that it has no copy
	for again := true; ; {
		a, err := o.dir.FindWait(o.ctx, registry.ObjectKey(oid))
		if err != nil {
			return unknownCopies(err)
		}
		at := slices.Clone(a.Record.At)
		slices.SortStableFunc(at, func(a, b registry.Location) int { return boolOrder(b.Kept, a.Kept) })
		for _, l := range at {
			if l.Node == o.self() || !o.mesh.Alive(l.Node) {
				continue
			}
			err := r.retainAt(l.Node, oid)
			if err == nil {
				return nil
			}
			err = fmt.Errorf("node %s: %w", l.Node.Node, err)
			if open == nil && !errors.Is(err, raysys.ErrObjectLost) && o.mesh.Alive(l.Node) {
				open = err
			}
			lost = append(lost, err)
		}
		if open != nil {
			return fmt.Errorf("%w: it may be had later: %w", raysys.ErrUnreachable, open)
		}
		if !again || !o.underWay(o.ctx, d.Owner) {
			return errors.Join(lost...)
		}
		again = false
	}
}

// settled waits until c has its outcome.
func settled(ctx context.Context, c *core.Future) error {
	_, err := runner.Wait(ctx, func(done func(struct{}, error)) {
		w := &onceSettled{done: func() { done(struct{}{}, nil) }}
		if !c.Subscribe(&w.Waiter, w) {
			w.done()
		}
	})
	return err
}

type onceSettled struct {
	core.Waiter
	done func()
}

// Resolved implements core.Resolved.
func (w *onceSettled) Resolved(*core.Waiter) { w.done() }
