package grainengine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/staterecord"
)

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
	size := 0
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

// commit is storeCommit, after it has made objects of the States in c that are too large for their records, or together for one
// commit.
func (d *durable) commit(c *graindir.Commit) (version graindir.ETag, err error) {
	var list []keptState
	for _, i := range objects(c, d.recordKey()) {
		s := c.States[i]
		var k keptState
		if c.States[i].Data, k, err = d.a.tenure.keepAsObject(s.Name, s.Data); err != nil {
			d.a.tenure.tellKept(list, err)
			return graindir.ETag{}, fmt.Errorf("write state %s/%s.%s: %w", d.a.kind.def.name, d.a.key, s.Name, err)
		}
		list = append(list, k)
	}
	version, err = d.storeCommit(c)
	d.a.tenure.tellKept(list, err)
	return version, err
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
