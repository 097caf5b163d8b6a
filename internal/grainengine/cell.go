package grainengine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/staterecord"
)

// maxSaves bounds how often a Save whose outcome stays unknown is repeated.
const maxSaves = 5

// cell joins a State to its activation, whose turns alone use it.
type cell struct {
	act    *activation
	def    stateDef
	value  anyValue
	etag   graindir.ETag
	exists bool
	unsure bool // Value may not be what is stored: the next turn reads it again

	// Of a durable grain:
	last []byte // what the State was when the turn began, sealed
	zero []byte // the zero value, sealed, once the turn has cleared the State
}

// durable reports whether turns of the grain are transactions.
func (c *cell) durable() bool { return c.act.tenure.durable != nil }

func (c *cell) name() string {
	return fmt.Sprintf("%s/%s.%s", c.act.kind.def.name, c.act.key, c.def.name)
}

func (c *cell) id() graindir.ID { return graindir.ID{Kind: c.act.kind.def.name, Key: c.act.key} }

// checkTurn returns the turn of ctx, which must be one of the State's own grain.
func (c *cell) checkTurn(ctx context.Context, verb string) (*core.Turn, error) {
	if c == nil {
		return nil, fmt.Errorf("%s state: %w: the State is no field of an active grain", verb, raysys.ErrNoRuntime)
	}
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s state %s: %w", verb, c.name(), err)
	}
	if t.Attached() != any(c.act) || t.Kind() != core.TurnGrain || t.Base().Ended() {
		return nil, fmt.Errorf("%s state %s: %w: the context is not that of a turn of this grain", verb, c.name(), raysys.ErrNoRuntime)
	}
	if err := t.Cancelled(); err != nil {
		return nil, fmt.Errorf("%s state %s: %w", verb, c.name(), err)
	}
	return t.Base(), nil
}

// wait returns what start passes to done.
func wait[T any](start func(done func(T, error))) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	ch := make(chan outcome, 1)
	start(func(v T, err error) { ch <- outcome{v, err} })
	o := <-ch
	return o.v, o.err
}

// take sets Value to what is stored.
func (c *cell) take(r graindir.Record) error {
	c.unsure = true
	if r.Exists {
		if err := staterecord.Open(r.Data, c.value, c.act.kind.engine.cfg.Retainer); err != nil {
			return err
		}
	} else {
		c.value.reset()
	}
	c.etag, c.exists, c.unsure = r.ETag, r.Exists, false
	return nil
}

// markUnsure is called when a turn ended by a panic, which may leave Values half changed.
func (m *tenure) markUnsure() {
	if m.durable != nil {
		return // the turn is rolled back
	}
	for _, c := range m.cells {
		c.unsure = true
	}
}

func (c *cell) read() error {
	c.act.tenure.committedBy = nil
	if c.act.tenure.stale.Load() {
		return c.moved("read")
	}
	return c.act.load([]*cell{c})
}

func (c *cell) moved(verb string) error {
	return fmt.Errorf("%s state %s: %w", verb, c.name(), raysys.ErrMoved)
}

// write stores Value.
func (c *cell) write(t *core.Turn) error {
	data, err := c.seal()
	if err == nil {
		err = bounded(data)
	}
	if err == nil && len(data) > maxRecord {
		var k keptState
		if data, k, err = c.act.tenure.keepAsObject(c.def.name, data); err == nil {
			err = c.save(t, data)
			c.act.tenure.tellKept([]keptState{k}, err)
			return err
		}
	}
	if err != nil {
		c.unsure = true
		return fmt.Errorf("write state %s: %w", c.name(), err)
	}
	return c.save(t, data)
}

// save commits data under the version that was read; nil removes what is stored. When the outcome is unknown, save
// reads the record back before it returns: while the stored version is the old one it repeats the Save. All of them
// name the old version, so at most one of them counts.
func (c *cell) save(t *core.Turn, data []byte) error {
	m := c.act.tenure
	m.committedBy = nil
	c.unsure = true
	if m.stale.Load() {
		return c.moved("write")
	}
	s := c.act.kind.engine.cfg.States
	open := false
	for try := 1; ; try++ {
		tag, err := wait(func(done func(graindir.ETag, error)) { s.Save(c.id(), c.def.name, m.token, c.etag, data, done) })
		switch {
		case err == nil:
			c.committed(t, tag, data)
			return nil
		case errors.Is(err, raysys.ErrMoved):
			return c.movedAway(err, open)
		case errors.Is(err, raysys.ErrOutcomeUnknown):
			open = true
		case !open:
			return fmt.Errorf("write state %s: %w", c.name(), err)
		}
		r, back := c.stored()
		switch {
		case errors.Is(back, raysys.ErrMoved):
			return c.movedAway(back, open)
		case back != nil:
			return fmt.Errorf("write state %s: %w: reading it back: %w", c.name(), raysys.ErrOutcomeUnknown, back)
		case r.ETag != c.etag && r.Exists == (data != nil) && bytes.Equal(r.Data, data):
			c.committed(t, r.ETag, data)
			return nil
		case r.ETag != c.etag:
			return fmt.Errorf("write state %s: %w", c.name(), graindir.ErrETag)
		case try == maxSaves:
			return fmt.Errorf("write state %s: %w: tried %d times: %w", c.name(), raysys.ErrOutcomeUnknown, try, err)
		}
	}
}

// movedAway ends the activation after a commit that was refused since the grain is elsewhere. open says that an earlier
// attempt may have been stored before that.
func (c *cell) movedAway(err error, open bool) error {
	c.act.tenure.open = c.act.tenure.open || open
	c.act.tenure.goStale()
	if open {
		return fmt.Errorf("write state %s: %w: then %w", c.name(), raysys.ErrOutcomeUnknown, err)
	}
	return fmt.Errorf("write state %s: %w", c.name(), err)
}

// stored reads the record back without touching Value.
func (c *cell) stored() (graindir.Record, error) {
	s := c.act.kind.engine.cfg.States
	rs, err := wait(func(done func([]graindir.Record, error)) {
		s.Load(c.id(), []string{c.def.name}, c.act.tenure.token, done)
	})
	if err == nil && len(rs) != 1 {
		err = fmt.Errorf("the store answers with %d records for 1", len(rs))
	}
	if err != nil {
		return graindir.Record{}, err
	}
	return rs[0], nil
}

func (c *cell) committed(t *core.Turn, tag graindir.ETag, data []byte) {
	c.etag, c.exists, c.unsure = tag, data != nil, false
	c.act.tenure.committedBy = t
}

// retainedRefs is what a Retainer answers.
type retainedRefs struct {
	written []byte
	ids     []raysys.TaskID
}

// seal encodes Value, and retains what it refers to.
func (c *cell) seal() ([]byte, error) {
	p, err := c.value.Plan()
	if err != nil {
		return nil, err
	}
	data, refs, err := c.value.encode(nil)
	if err != nil {
		return nil, err
	}
	var h retainedRefs
	if p.HasRefs() && len(refs) > 0 {
		holder := c.act.kind.engine.cfg.Retainer
		if holder == nil {
			return nil, fmt.Errorf("it holds references: %w", raysys.ErrNoStore)
		}
		h, err = wait(func(done func(retainedRefs, error)) {
			holder.Retain(c.id(), c.def.name, refs, func(written []byte, ids []raysys.TaskID, err error) { done(retainedRefs{written, ids}, err) })
		})
		if err != nil {
			return nil, fmt.Errorf("retain its references: %w", err)
		}
	}
	return staterecord.Seal(c.value, data, h.written, h.ids)
}

// A State whose record is larger than maxRecord is an object in files of two nodes, which is written before the record.
// The record names it. Which object is the State's is decided by the commit of the record alone, under the conditions of
// any other: so an object whose commit is refused, or never made, is one that no version of the State lists. The
// Retainer lets go of such an object, and of one that later versions do not list.
//
//	sealed ──► KeepState: two files ──► Save or Commit ──► KeptState ──► the reply leaves
//
// maxRecord is the most that the record of a State takes itself.
const maxRecord = 128 << 10

// largeRecord is about what the record of a State takes that is an object, beside the ids of the objects it retains.
const largeRecord = 512

// bounded returns an error for a sealed State that cannot be stored.
func bounded(data []byte) error {
	if len(data) > MaxState {
		return fmt.Errorf("%w: %d bytes encoded, and a State has at most %d", raysys.ErrTooLarge, len(data), MaxState)
	}
	if n := recordSize(data); n > maxRecord {
		return fmt.Errorf("%w: it refers to %d objects, and a State refers to at most %d", raysys.ErrTooLarge, len(staterecord.Retained(data)), (maxRecord-largeRecord)/16)
	}
	return nil
}

// recordSize is about what the record of a sealed State takes in a commit.
func recordSize(data []byte) int {
	if len(data) <= maxRecord {
		return len(data)
	}
	return asObject(data)
}

// asObject is about what the record of a sealed State takes when that is an object.
func asObject(data []byte) int { return largeRecord + 16*len(staterecord.Retained(data)) }

// keptState is a State that was made an object for a commit.
type keptState struct {
	name   string
	object raysys.TaskID
}

// keepAsObject makes an object of a State that is too large for its record, and returns that record.
func (m *tenure) keepAsObject(name string, data []byte) (record []byte, k keptState, err error) {
	type kept struct {
		written []byte
		object  raysys.TaskID
	}
	keeper := m.a.kind.engine.cfg.Retainer
	if keeper == nil {
		return nil, k, fmt.Errorf("%d bytes encoded are an object: %w", len(data), raysys.ErrNoStore)
	}
	start := func(done func(kept, error)) {
		keeper.KeepState(graindir.ID{Kind: m.a.kind.def.name, Key: m.a.key}, name, data, func(written []byte, object raysys.TaskID, err error) {
			done(kept{written, object}, err)
		})
	}
	var o kept
	if m.durable != nil {
		o, err = awaited(m.durable, start)
	} else {
		o, err = wait(start)
	}
	if err != nil {
		return nil, k, fmt.Errorf("keep its %d bytes as an object: %w", len(data), err)
	}
	return staterecord.SealLarge(data, o.written, o.object), keptState{name, o.object}, nil
}

// objects returns which States of a commit will be objects: those that no record takes, and then the largest, until the rest fits.
func objects(c *graindir.Commit, key int) (list []int) {
	size := sizeOfSides(c.Sides, key)
	for _, p := range c.Replies {
		size += len(p.Data) + key
	}
	for i, s := range c.States {
		size += recordSize(s.Data) + len(s.Name) + key
		if len(s.Data) > maxRecord {
			list = append(list, i)
		}
	}
	for size > maxCommit {
		largest := -1
		for i, s := range c.States {
			if len(s.Data) <= maxRecord && !slices.Contains(list, i) && (largest < 0 || len(s.Data) > len(c.States[largest].Data)) {
				largest = i
			}
		}
		if largest < 0 {
			return list
		}
		list = append(list, largest)
		size -= len(c.States[largest].Data) - asObject(c.States[largest].Data)
	}
	return list
}

// large reports whether the turn changed States that will be objects.
func (t *endedTurn) large() bool {
	size := 0
	for _, s := range t.states {
		size += len(s.Data)
	}
	return size > maxRecord
}

// tellKept tells what became of the commit of objects.
func (m *tenure) tellKept(list []keptState, err error) {
	for _, k := range list {
		m.a.kind.engine.cfg.Retainer.KeptState(graindir.ID{Kind: m.a.kind.def.name, Key: m.a.key}, k.name, k.object, err)
	}
}

// fetchObjects replaces the records of States that are objects by what these have.
func (m *tenure) fetchObjects(cells []*cell, records []graindir.Record) error {
	for i := range records {
		written, large := staterecord.Large(records[i].Data)
		if !large {
			continue
		}
		keeper := m.a.kind.engine.cfg.Retainer
		if keeper == nil {
			return fmt.Errorf("read state %s: it is an object: %w", cells[i].name(), raysys.ErrNoStore)
		}
		data, err := wait(func(done func([]byte, error)) {
			keeper.FetchState(graindir.ID{Kind: m.a.kind.def.name, Key: m.a.key}, cells[i].def.name, written, done)
		})
		if errors.Is(err, raysys.ErrObjectLost) {
			err = fmt.Errorf("%w: %w", graindir.ErrUnreadable, err)
		}
		if err != nil {
			return fmt.Errorf("read state %s: %w", cells[i].name(), err)
		}
		records[i].Data = data
	}
	return nil
}
