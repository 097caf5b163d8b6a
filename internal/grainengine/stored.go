package grainengine

import (
	"encoding/binary"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// A stored State is
//
//	format 1 | fingerprint of T, 8 bytes little-endian | T by the codec, which has a version of its own
//	format 2 | fingerprint | objects retained: count, ids | references: length, as the Retainer wrote them | T
//
// the second where T can hold references. The fingerprint says which version of the type wrote it. It decides nothing:
// fields may be added and taken away, and what was stored under another fingerprint is read by field names (rule C4).
// It is for the message when that fails.
const (
	recordFormat  = 1
	recordRetains = 2
	recordHead    = 1 + 8
)

// Retainer lets references outlive their node inside a State: the grain retains what they refer to (rule C25). Package
// objects implements it. Methods call done once, on any goroutine, and within bounded time.
type Retainer interface {
	// Retain keeps what refs refer to for a State of a grain, from now on until what is stored does not list it any
	// more. It waits for those that are not ready, and fails with the failure of one that failed. refs are what Restore
	// needs to find them again on any node, ids the objects among them.
	Retain(id ID, name string, refs []*core.Future, done func(written []byte, ids []raysys.TaskID, err error))
	// Restore reads what Retain wrote.
	Restore(written []byte) ([]*core.Future, error)
}

// sealRecord encodes v. written and ids are the Retainer's, for the references in v.
func sealRecord(v anyValue, data, written []byte, ids []raysys.TaskID) ([]byte, error) {
	p, err := v.plan()
	if err != nil {
		return nil, err
	}
	format := byte(recordFormat)
	if p.HasRefs() {
		format = recordRetains
	}
	out := binary.LittleEndian.AppendUint64([]byte{format}, p.Fingerprint())
	if p.HasRefs() {
		out = binary.AppendUvarint(out, uint64(len(ids)))
		for _, id := range ids {
			out = wire.AppendID(out, id)
		}
		out = wire.AppendBytes(out, written)
	}
	return append(out, data...), nil
}

// Retained lists the objects that a stored State retains.
func Retained(record []byte) (ids []raysys.TaskID) {
	if len(record) < recordHead || record[0] != recordRetains {
		return nil
	}
	r := wire.NewReader(record[recordHead:])
	for range r.Count(16) {
		ids = append(ids, r.ID())
	}
	if r.Err() != nil {
		return nil
	}
	return ids
}

// openRecord sets v to what is stored.
func openRecord(data []byte, v anyValue, h Retainer) error {
	if len(data) < recordHead {
		return fmt.Errorf("%d bytes are no stored state", len(data))
	}
	body := data[recordHead:]
	var refs []*core.Future
	switch data[0] {
	case recordFormat:
	case recordRetains:
		r := wire.NewReader(body)
		for range r.Count(16) {
			r.ID()
		}
		written := r.Bytes()
		body = r.Rest()
		if err := r.Err(); err != nil {
			return fmt.Errorf("stored references: %w", err)
		}
		if h == nil {
			return fmt.Errorf("it holds references: %w", raysys.ErrNoStore)
		}
		var err error
		if refs, err = h.Restore(written); err != nil {
			return fmt.Errorf("stored references: %w", err)
		}
	default:
		return fmt.Errorf("stored in format %d, and this program knows %d and %d: it was written by a newer version", data[0], recordFormat, recordRetains)
	}
	p, err := v.plan()
	if err != nil {
		return err
	}
	err = v.decode(body, refs)
	if was, is := binary.LittleEndian.Uint64(data[1:]), p.Fingerprint(); err != nil && was != is {
		return fmt.Errorf("stored as another version of %s (fingerprint %016x, here %016x): %w", p.Type(), was, is, err)
	}
	return err
}

// retainedRefs is what a Retainer answers.
type retainedRefs struct {
	written []byte
	ids     []raysys.TaskID
}

// seal encodes Value, and retains what it refers to.
func (c *cell) seal() ([]byte, error) {
	p, err := c.value.plan()
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
	return sealRecord(c.value, data, h.written, h.ids)
}
