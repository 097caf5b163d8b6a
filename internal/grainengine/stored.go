package grainengine

import (
	"encoding/binary"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/wire"
)

// A stored State is
//
//	format 1 | fingerprint of T, 8 bytes little-endian | T by the codec, which has a version of its own
//	format 2 | fingerprint | objects retained: count, ids | references: length, as the Retainer wrote them | T
//	format 3 | fingerprint | objects retained: count, ids | the object, as the Retainer wrote it
//
// the second where T can hold references; the third where the record would be too large: its object has a record of
// format 1 or 2, and is the first of those retained (large.go). The fingerprint says which version of the type wrote it. It decides nothing:
// fields may be added and taken away, and what was stored under another fingerprint is read by field names (rule C4).
// It is for the message when that fails.
const (
	recordFormat  = 1
	recordRetains = 2
	recordLarge   = 3
	recordHead    = 1 + 8
)

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
		out = wire.AppendBytes(appendRetained(out, ids), written)
	}
	return append(out, data...), nil
}

// Retained lists the objects that a stored State retains.
func Retained(record []byte) []raysys.TaskID {
	if len(record) < recordHead || record[0] != recordRetains && record[0] != recordLarge {
		return nil
	}
	r := wire.NewReader(record[recordHead:])
	ids := readRetained(&r)
	if r.Err() != nil {
		return nil
	}
	return ids
}

func appendRetained(dst []byte, ids []raysys.TaskID) []byte {
	dst = wire.AppendUvarint(dst, uint64(len(ids)))
	for _, id := range ids {
		dst = wire.AppendID(dst, id)
	}
	return dst
}

func readRetained(r *wire.Reader) (ids []raysys.TaskID) {
	for range r.Count(16) {
		ids = append(ids, r.ID())
	}
	return ids
}

// openRecord sets v to what is stored.
func openRecord(data []byte, v anyValue, h graindir.Retainer) error {
	if len(data) < recordHead {
		return fmt.Errorf("%d bytes are no stored state", len(data))
	}
	body := data[recordHead:]
	var refs []*core.Future
	switch data[0] {
	case recordFormat:
	case recordRetains:
		r := wire.NewReader(body)
		readRetained(&r)
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
		return fmt.Errorf("stored in format %d, and this program knows %d to %d: it was written by a newer version", data[0], recordFormat, recordLarge)
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
