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
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/store"
)

// A reference in a State is written as what it refers to: a small value itself, an object by its id and owner. The owner
// keeps the object for the State's record, whose key it watches: a record that does not list the object ends that. So the
// hold and the State are one record, and a Write that never came about holds nothing for long.

// Kinds of a written reference.
const (
	writtenSmall  byte = 1 + iota // encoded value, and what it refers to
	writtenObject                 // object id, submission id, owner, size, and what it refers to
)

// maxDepth bounds references inside what references refer to.
const maxDepth = 16

// Retain implements grainengine.Retainer.
func (o *Objects) Retain(id grainengine.ID, name string, refs []*core.Future, done func([]byte, []raysys.TaskID, error)) {
	go func() { // it ends with the store's context
		w := &retaining{o: o, key: registry.StateKey(o.namespace, id, name)}
		var out []byte
		for _, c := range refs {
			var err error
			if out, err = w.append(out, c, 0); err != nil {
				done(nil, nil, err)
				return
			}
		}
		done(out, w.ids, nil)
	}()
}

// retaining is one Hold.
type retaining struct {
	o   *Objects
	key string // of the State's record
	ids []raysys.TaskID
}

func (w *retaining) append(dst []byte, c *core.Future, depth int) ([]byte, error) {
	if depth > maxDepth {
		return dst, fmt.Errorf("%w: references within references, %d deep", raysys.ErrEncode, depth)
	}
	if err := settled(w.o.ctx, c); err != nil {
		return dst, err
	}
	if err := c.Failure(); err != nil {
		return dst, err
	}
	if v, err := c.Outcome(); err == nil {
		value := reflect.ValueOf(v).Elem()
		plan, err := codec.PlanOf(value.Type())
		if err != nil {
			return dst, err
		}
		if !wire.Exceeds(plan, value, wire.InlineLimit) {
			var inner []*core.Future
			b, err := plan.Append(nil, value, &inner)
			if err != nil {
				return dst, err
			}
			if len(b) <= wire.InlineLimit {
				return w.inner(wire.AppendBytes(append(dst, writtenSmall), b), inner, depth)
			}
		}
	}
	d, err := w.o.Describe(c)
	if err != nil {
		return dst, err
	}
	if err := w.retain(&d); err != nil {
		return dst, err
	}
	w.ids = append(w.ids, d.OID)
	dst = wire.AppendID(wire.AppendID(append(dst, writtenObject), d.OID), c.ID())
	dst = wire.AppendUvarint(wire.AppendNode(dst, d.Owner), uint64(d.Size))
	return w.inner(dst, d.Refs, depth)
}

func (w *retaining) inner(dst []byte, refs []*core.Future, depth int) ([]byte, error) {
	dst = wire.AppendUvarint(dst, uint64(len(refs)))
	for _, c := range refs {
		var err error
		if dst, err = w.append(dst, c, depth+1); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// retain has the owner keep an object for the State, or when that is dead a node that has a copy.
func (w *retaining) retain(d *refs.Description) error {
	o := w.o
	if d.Owner == o.self() {
		return o.retain(w.key, d.OID)
	}
	err := w.retainAt(d.Owner, d.OID)
	if errors.Is(err, raysys.ErrNodeDead) || err != nil && !o.mesh.Alive(d.Owner) {
		err = w.retainCopy(d, err)
	}
	if err != nil {
		return fmt.Errorf("object of %s: %w", d.Owner, err)
	}
	return nil
}

// retainAt has another node keep it.
func (w *retaining) retainAt(at core.NodeKey, oid raysys.TaskID) error {
	return w.o.askWait(w.o.ctx, at, opRetain, question{oid: oid, key: w.key})
}

// retainCopy keeps a copy of a dead node's object, which becomes one that stays: here if there is one, else where the directory
// says, first at those who keep it anyway.
func (w *retaining) retainCopy(d *refs.Description, cause error) error {
	o, oid := w.o, d.OID
	if obj := o.store.Lookup(oid); obj != nil {
		if _, err := obj.Manifest(o.ctx); err == nil && o.retain(w.key, oid) == nil { // it is here as a whole
			return nil
		}
	}
	lost := []error{fmt.Errorf("%w: %w", raysys.ErrObjectLost, cause)}
	var open error // of a node that lives and did not say that it has none
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
			err := w.retainAt(l.Node, oid)
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

// retain keeps an object of this node while the State with that key lists it.
func (o *Objects) retain(key string, oid raysys.TaskID) error {
	obj := o.store.Lookup(oid)
	future := o.coreOf(oid)
	h := &retention{o: o, key: key, oid: oid}
	if obj == nil || obj.Lost() != nil || !o.kept.keep(obj, func(k *reasons) {
		if k.owner == (core.NodeKey{}) { // else it is kept for another too, whose death ends that
			k.owner = o.self()
		}
		if future != nil {
			k.future = future
		}
		k.names[key]++
		h.number = k.names[key]
	}) {
		return fmt.Errorf("%w: node %s does not have it", raysys.ErrObjectLost, o.self())
	}
	h.alarm.At, h.alarm.Ring = o.clock.Now()+int64(retainGrace), h.unwritten
	o.clock.SetAlarm(&h.alarm)
	o.record(key, store.Version{}, false, h.seen)
	return nil
}

// retainGrace is how long a State may take to be written after its references were held.
const retainGrace = 2 * time.Minute

// retention is one hold of an object for a State. The next version of the State after it decides, since a State is written by
// one activation at a time, which writes once the hold stands.
type retention struct {
	o       *Objects
	key     string
	oid     raysys.TaskID
	number  uint64 // a later hold of the same State for the same object takes over
	looked  atomic.Bool
	written atomic.Bool
	alarm   core.Alarm
}

// seen is told of the State's record: as it is at first, and then whenever it has changed.
func (h *retention) seen(a registry.Entry, err error) {
	o := h.o
	listed := slices.Contains(a.Held, h.oid)
	switch {
	case o.ctx.Err() != nil:
	case err != nil:
		o.clock.SetAlarm(&core.Alarm{At: o.clock.Now() + int64(watchPause), Ring: func() { o.record(h.key, store.Version{}, false, h.seen) }})
	case listed || !h.looked.Swap(true):
		if listed && !h.written.Swap(true) {
			o.clock.ClearAlarm(&h.alarm)
		}
		h.looked.Store(true)
		o.record(h.key, a.Version, true, h.seen)
	default:
		o.clock.ClearAlarm(&h.alarm)
		h.end()
	}
}

// unwritten ends a hold whose State was never written.
func (h *retention) unwritten() {
	if !h.written.Load() {
		h.end()
	}
}

func (h *retention) end() {
	h.o.unkeep(h.oid, func(k *reasons) {
		if k.names[h.key] == h.number {
			delete(k.names, h.key)
		}
	})
}

// record asks for a record of the directory or, in a process of its own, for a State's.
func (o *Objects) record(key string, seen store.Version, wait bool, done func(registry.Entry, error)) {
	reg, err := o.records()
	if err != nil {
		done(registry.Entry{}, err)
		return
	}
	if wait {
		reg.Await(key, seen, done)
		return
	}
	reg.Find(key, done)
}

// Restore implements grainengine.Retainer.
func (o *Objects) Restore(written []byte) (refs []*core.Future, err error) {
	r := wire.NewReader(written)
	for r.Len() > 0 {
		c, err := o.restore(&r, 0)
		if err != nil {
			return nil, err
		}
		refs = append(refs, c)
	}
	return refs, r.Err()
}

func (o *Objects) restore(r *wire.Reader, depth int) (*core.Future, error) {
	if depth > maxDepth {
		return nil, wire.ErrCorrupt
	}
	kind := r.Byte()
	switch kind {
	case writtenSmall:
		b := slices.Clone(r.Bytes())
		refs, err := o.restoreInner(r, depth)
		if err != nil {
			return nil, err
		}
		return &core.NewForeign(o.job, &writtenValue{b, refs}).Future, nil
	case writtenObject:
		d := refs.Description{OID: r.ID()}
		id := r.ID()
		d.Owner, d.Size = wire.ReadNode(r), int64(r.Uvarint())
		var err error
		if d.Refs, err = o.restoreInner(r, depth); err != nil {
			return nil, err
		}
		if d.Owner == o.self() {
			if future, _ := o.kept.find(d.OID); future != nil {
				return future, nil
			}
		}
		if o.refs == nil {
			return &core.NewForeign(o.job, lostSource{id, d.Owner}).Future, nil
		}
		s := o.refs.Uncounted(d.Owner, id)
		return &core.NewForeign(o.job, o.NewSource(s, d)).Future, nil
	}
	return nil, errors.Join(wire.ErrCorrupt, r.Err())
}

func (o *Objects) restoreInner(r *wire.Reader, depth int) (refs []*core.Future, err error) {
	for range r.Count(1) {
		c, err := o.restore(r, depth+1)
		if err != nil {
			return nil, err
		}
		refs = append(refs, c)
	}
	return refs, r.Err()
}

// writtenValue is a small value that was written with its reference.
type writtenValue struct {
	value []byte
	refs  []*core.Future
}

func (s *writtenValue) Name() string      { return "value of a stored reference" }
func (s *writtenValue) ID() raysys.TaskID { return raysys.TaskID{} }
func (s *writtenValue) Cancelled()        {}

// Fetch implements core.Source.
func (s *writtenValue) Fetch(into any, done func(error)) {
	done(refs.Decode(s.value, into, s.refs))
}

// lostSource is an object that an earlier process had.
type lostSource struct {
	id    raysys.TaskID
	owner core.NodeKey
}

func (s lostSource) Name() string      { return "object of " + s.owner.String() }
func (s lostSource) ID() raysys.TaskID { return s.id }
func (s lostSource) Cancelled()        {}

// Fetch implements core.Source.
func (s lostSource) Fetch(_ any, done func(error)) {
	done(fmt.Errorf("%w: its owner %s is dead", raysys.ErrObjectLost, s.owner))
}
