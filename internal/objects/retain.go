package objects

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/wire"
)

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

// Retain implements graindir.Retainer: it encodes the references of a State, and has the owners retain the objects.
func (o *Objects) Retain(id graindir.ID, name string, refs []*core.Future, done func([]byte, []raysys.TaskID, error)) {
	go func() { // the end of o.ctx ends it
		r := &retaining{o: o, key: registry.StateKey(o.namespace, id, name)}
		var out []byte
		for _, c := range refs {
			var err error
			if out, err = r.append(out, c, 0); err != nil {
				done(nil, nil, err)
				return
			}
		}
		done(out, r.ids, nil)
	}()
}

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

// retainAt has another node retain an object.
func (r *retaining) retainAt(at core.NodeKey, oid raysys.TaskID) error {
	return r.o.askWait(r.o.ctx, at, opRetain, objectRequest{oid: oid, key: r.key})
}

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
