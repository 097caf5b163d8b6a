package wire

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
)

// lengthSize is the room for a value's length, which is known only once it is encoded.
const lengthSize = 4

// AppendValue appends the value at v, which has the type of the plan: its length in four bytes, its encoding, and, where the type
// can hold references, their count and each of them. refs may be nil for types without. On error dst is as it was; it matches
// raysys.ErrEncode or, for what must travel as an object, raysys.ErrTooLarge.
func AppendValue(dst []byte, p *codec.Plan, v unsafe.Pointer, refs References) ([]byte, error) {
	return appendValue(dst, p, v, refs, ValueLimit)
}

// AppendPushed is AppendValue for values of up to PushLimit.
func AppendPushed(dst []byte, p *codec.Plan, v unsafe.Pointer, refs References) ([]byte, error) {
	return appendValue(dst, p, v, refs, PushLimit)
}

// AppendSmall is AppendValue for values of up to InlineLimit.
func AppendSmall(dst []byte, p *codec.Plan, v unsafe.Pointer, refs References) ([]byte, error) {
	return appendValue(dst, p, v, refs, InlineLimit)
}

func appendValue(dst []byte, p *codec.Plan, v unsafe.Pointer, refs References, limit int) ([]byte, error) {
	at := len(dst)
	out := append(dst, 0, 0, 0, 0)
	if !p.HasRefs() {
		out, err := p.AppendAt(out, v, nil)
		if err != nil {
			return dst, err
		}
		return seal(out, at, dst, limit)
	}
	return appendReferring(out, p, v, refs, limit, at, dst)
}

// appendReferring is appendValue for a value that may hold references.
func appendReferring(out []byte, p *codec.Plan, v unsafe.Pointer, refs References, limit, at int, dst []byte) ([]byte, error) {
	var futures []*core.Future
	out, err := p.AppendAt(out, v, &futures)
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

// ReadValue reads what AppendValue wrote into v, which is zero. The value shares no memory with the frame.
func ReadValue(r *Reader, p *codec.Plan, v unsafe.Pointer, refs References) error {
	body := r.Sized()
	if r.bad {
		return ErrCorrupt
	}
	if !p.HasRefs() {
		return p.DecodeAt(body, v, nil)
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
	return p.DecodeAt(body, v, futures)
}
