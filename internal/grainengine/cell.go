package grainengine

import (
	"bytes"
	"context"
	"errors"
	"fmt"

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

// loadStates reads all States of a new G at once.
func (a *activation) loadStates(g any) error {
	cells := make([]*cell, len(a.kind.def.states))
	for i, d := range a.kind.def.states {
		cells[i] = &cell{act: a, def: d}
		d.bindIn(g, cells[i])
	}
	a.tenure.cells, a.tenure.committedBy = nil, nil
	load := a.load
	if a.tenure.durable != nil {
		load = a.tenure.durable.restore
	}
	if err := load(cells); err != nil {
		return err
	}
	a.tenure.cells = cells
	return nil
}

// load reads cells from the store.
func (a *activation) load(cells []*cell) error {
	s := a.kind.engine.cfg.States
	if s == nil {
		return fmt.Errorf("load state of %s/%s: %w: this node was given no store for grains.State", a.kind.def.name, a.key, raysys.ErrNoRuntime)
	}
	names := make([]string, len(cells))
	for i, c := range cells {
		names[i] = c.def.name
	}
	records, err := wait(func(done func([]graindir.Record, error)) {
		s.Load(graindir.ID{Kind: a.kind.def.name, Key: a.key}, names, a.tenure.token, done)
	})
	if err == nil && len(records) != len(cells) {
		err = fmt.Errorf("the store answers with %d records for %d", len(records), len(cells))
	}
	if errors.Is(err, raysys.ErrMoved) {
		a.tenure.goStale()
	}
	if err == nil {
		err = a.tenure.fetchObjects(cells, records)
	}
	if err != nil {
		return fmt.Errorf("load state of %s/%s: %w", a.kind.def.name, a.key, err)
	}
	for i, c := range cells {
		if err := c.take(records[i]); err != nil {
			return fmt.Errorf("load state %s: %w", c.name(), err)
		}
	}
	return nil
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

// reload reads what a failed Write left unsure, before another turn sees it.
func (a *activation) reload() error {
	var cells []*cell
	for _, c := range a.tenure.cells {
		if c.unsure {
			cells = append(cells, c)
		}
	}
	if len(cells) == 0 {
		return nil
	}
	return a.load(cells)
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
