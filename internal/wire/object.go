package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
)

// largeMark stands where the length of a value is expected: the value is in objects of the sender, whose references follow.
const largeMark = 1<<32 - 1

// AppendLarge appends, in place of a value, the futures that hold it: one, or one for each parameter of a task that has
// several. The receiver finds them with Reader.Large and reads each with ReadRef.
func AppendLarge(dst []byte, refs References, holders ...*core.Future) ([]byte, error) {
	out := append(dst, 0xff, 0xff, 0xff, 0xff)
	for _, c := range holders {
		var err error
		if out, err = refs.AppendObject(out, c); err != nil {
			return dst, err
		}
	}
	return out, nil
}

// AppendParams is AppendLarge for the parameters of a task, of which those that are small travel along.
func AppendParams(dst []byte, refs References, holders ...*core.Future) ([]byte, error) {
	out := append(dst, 0xff, 0xff, 0xff, 0xff)
	for _, c := range holders {
		var err error
		if out, err = refs.AppendRef(out, c); err != nil {
			return dst, err
		}
	}
	return out, nil
}

// appendLargeResult appends, in place of a value, about how large it is, and the future that holds it.
func appendLargeResult(dst []byte, refs References, c *core.Future, size int64) ([]byte, error) {
	out := binary.AppendUvarint(append(dst, 0xff, 0xff, 0xff, 0xff), uint64(max(size, 0)))
	out, err := refs.AppendObject(out, c)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// ReadLarge reads what AppendResult wrote of a large value, behind what Reader.Large has taken: where it is, and about how
// large.
func ReadLarge(r *Reader, refs References) (src core.Source, size int64, err error) {
	size = int64(min(r.Uvarint(), maxSize))
	c, err := refs.ReadRef(r)
	if err != nil {
		return nil, 0, err
	}
	if src = core.SourceOf(c); src == nil {
		return nil, 0, fmt.Errorf("%w: the value is said to be in a future of this node", ErrCorrupt)
	}
	return src, size, nil
}

// maxSize bounds the size that another node may claim, so that sums of them cannot overflow.
const maxSize = 1 << 50

// AppendResult appends the outcome of c, which is ready: a value of up to InlineLimit as AppendValue does, a larger one by
// reference to c. v is where the value is, nil when it is elsewhere.
func AppendResult(dst []byte, p *codec.Plan, v unsafe.Pointer, c *core.Future, refs References) ([]byte, error) {
	if v == nil || Exceeds(p, v, InlineLimit) {
		return AppendReference(dst, p, v, c, refs)
	}
	out, err := AppendSmall(dst, p, v, refs)
	if errors.Is(err, raysys.ErrTooLarge) {
		return AppendReference(dst, p, v, c, refs)
	}
	return out, err
}

// AppendReference is AppendResult by reference, whatever the size.
func AppendReference(dst []byte, p *codec.Plan, v unsafe.Pointer, c *core.Future, refs References) ([]byte, error) {
	if v == nil {
		w, _ := core.WhereaboutsOf(c)
		return appendLargeResult(dst, refs, c, w.Size)
	}
	return appendLargeResult(dst, refs, c, int64(p.SizeAt(v)))
}

// AddressOf is where the value is that v, which is a pointer or nil, points at.
func AddressOf(v any) unsafe.Pointer {
	if v == nil {
		return nil
	}
	return reflect.ValueOf(v).UnsafePointer()
}

// Exceeds reports whether the value at v surely encodes to more than limit bytes, or holds so much memory that it is better not
// to try. It costs nothing where values of the type have one size.
func Exceeds(p *codec.Plan, v unsafe.Pointer, limit int) bool {
	return !p.Fixed() && p.SizeAt(v) > limit
}
