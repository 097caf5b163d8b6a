package staterecord

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
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
// format 1 or 2, and is the first of those retained (Large). The fingerprint says which version of the type wrote it. It decides nothing:
// fields may be added and taken away, and what was stored under another fingerprint is read by field names (rule C4).
// It is for the message when that fails.
const (
	recordFormat  = 1
	recordRetains = 2
	recordLarge   = 3
	recordHead    = 1 + 8
)

// Value is the Value of a State to code that does not know its type.
type Value interface {
	Plan() (*codec.Plan, error)
	Decode(data []byte, refs []*core.Future) error
}

// Typed is the zero value of a type, at an address.
type Typed struct {
	Type *codec.Plan
	At   unsafe.Pointer
}

// Plan implements Value.
func (v Typed) Plan() (*codec.Plan, error) { return v.Type, nil }

// Decode implements Value.
func (v Typed) Decode(data []byte, refs []*core.Future) error {
	return v.Type.DecodeAt(data, v.At, refs)
}

// Seal makes the record of v, which is encoded as data. written and ids are the Retainer's, for the references in v.
func Seal(v Value, data, written []byte, ids []raysys.TaskID) ([]byte, error) {
	p, err := v.Plan()
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

// Open sets v to what is stored.
func Open(data []byte, v Value, h graindir.Retainer) error {
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
	p, err := v.Plan()
	if err != nil {
		return err
	}
	err = v.Decode(body, refs)
	if was, is := binary.LittleEndian.Uint64(data[1:]), p.Fingerprint(); err != nil && was != is {
		return fmt.Errorf("stored as another version of %s (fingerprint %016x, here %016x): %w", p.Type(), was, is, err)
	}
	return err
}

// SealLarge makes the record of a State that is an object.
func SealLarge(data, written []byte, object raysys.TaskID) []byte {
	out := append([]byte{recordLarge}, data[1:recordHead]...)
	return append(appendRetained(out, append([]raysys.TaskID{object}, Retained(data)...)), written...)
}

// Large returns what the Retainer wrote of the object that a stored State is; false where it is none.
func Large(record []byte) (written []byte, ok bool) {
	if len(record) < recordHead || record[0] != recordLarge {
		return nil, false
	}
	r := wire.NewReader(record[recordHead:])
	readRetained(&r)
	written = r.Rest()
	return written, r.Err() == nil
}
