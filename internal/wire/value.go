package wire

import (
	"encoding/binary"
	"fmt"
	"reflect"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
)

// lengthSize is the room for a value's length, which is known only once it is encoded.
const lengthSize = 4

// AppendValue appends v: its length in four bytes, its encoding, and, where the type can hold references, their count
// and each of them. refs may be nil for types without. On error dst is as it was; it matches raysys.ErrEncode or, for what
// must travel as an object, raysys.ErrTooLarge.
func AppendValue(dst []byte, p *codec.Plan, v reflect.Value, refs References) ([]byte, error) {
	return appendValue(dst, p, v, refs, ValueLimit)
}

// AppendOf is AppendValue for a value whose type is known when the program is compiled.
func AppendOf[T any](dst []byte, p *codec.Plan, v *T, refs References) ([]byte, error) {
	return appendOf(dst, p, v, refs, ValueLimit)
}

func appendOf[T any](dst []byte, p *codec.Plan, v *T, refs References, limit int) ([]byte, error) {
	if p.HasRefs() {
		return appendValue(dst, p, reflect.ValueOf(v).Elem(), refs, limit)
	}
	at := len(dst)
	out, err := codec.AppendOf(append(dst, 0, 0, 0, 0), p, v, nil)
	if err != nil {
		return dst, err
	}
	return seal(out, at, dst, limit)
}

// AppendSmall is AppendValue for values of up to InlineLimit.
func AppendSmall(dst []byte, p *codec.Plan, v reflect.Value, refs References) ([]byte, error) {
	return appendValue(dst, p, v, refs, InlineLimit)
}

func appendValue(dst []byte, p *codec.Plan, v reflect.Value, refs References, limit int) ([]byte, error) {
	at := len(dst)
	out := append(dst, 0, 0, 0, 0)
	if !p.HasRefs() {
		out, err := p.Append(out, v, nil)
		if err != nil {
			return dst, err
		}
		return seal(out, at, dst, limit)
	}
	var futures []*core.Future
	out, err := p.Append(out, v, &futures)
	if err != nil {
		return dst, err
	}
	if out, err = seal(out, at, dst, limit); err != nil {
		return dst, err
	}
	out = binary.AppendUvarint(out, uint64(len(futures)))
	for _, c := range futures {
		if out, err = refs.AppendRef(out, c); err != nil {
			return dst, err
		}
	}
	return out, nil
}

func seal(out []byte, at int, dst []byte, limit int) ([]byte, error) {
	n := len(out) - at - lengthSize
	if n > limit {
		return dst, fmt.Errorf("%w: %d bytes encoded, and at most %d travel in one frame", raysys.ErrTooLarge, n, limit)
	}
	binary.LittleEndian.PutUint32(out[at:], uint32(n))
	return out, nil
}

// ReadOf is ReadValue for a value whose type is known when the program is compiled.
func ReadOf[T any](r *Reader, p *codec.Plan, v *T, refs References) error {
	if p.HasRefs() {
		return ReadValue(r, p, reflect.ValueOf(v).Elem(), refs)
	}
	body := r.Sized()
	if r.bad {
		return ErrCorrupt
	}
	return codec.DecodeOf(body, p, v, nil)
}

// ReadValue reads what AppendValue wrote into v, which must be settable. The value shares no memory with the frame.
func ReadValue(r *Reader, p *codec.Plan, v reflect.Value, refs References) error {
	body := r.Sized()
	if r.bad {
		return ErrCorrupt
	}
	if !p.HasRefs() {
		return p.Decode(body, v, nil)
	}
	n := r.Count(1)
	futures := make([]*core.Future, 0, n)
	for range n {
		c, err := refs.ReadRef(r)
		if err != nil {
			return err
		}
		futures = append(futures, c)
	}
	if r.bad {
		return ErrCorrupt
	}
	return p.Decode(body, v, futures)
}
