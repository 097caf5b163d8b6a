package wire

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
)

// largeMark stands where the length of a value is expected: the value is in objects of the sender, whose references follow.
const largeMark = 1<<32 - 1

// AppendLarge appends, in place of a value, the futures that hold it: one, or one for each parameter of a task that has
// several. The receiver finds them with Reader.Large and reads each with ReadLarge or ReadRef.
func AppendLarge(dst []byte, refs References, holders ...*raysys.Core) ([]byte, error) {
	out := append(dst, 0xff, 0xff, 0xff, 0xff)
	for _, c := range holders {
		var err error
		if out, err = refs.AppendObject(out, c); err != nil {
			return dst, err
		}
	}
	return out, nil
}

// ReadLarge reads what AppendLarge wrote of one future: where the value is.
func ReadLarge(r *Reader, refs References) (raysys.Source, error) {
	c, err := refs.ReadRef(r)
	if err != nil {
		return nil, err
	}
	src := raysys.SourceOf(c)
	if src == nil {
		return nil, fmt.Errorf("%w: the value is said to be in a future of this node", ErrCorrupt)
	}
	return src, nil
}

// AppendResult appends the outcome of c, which is ready: a value of up to InlineLimit as AppendValue does, a larger one by
// reference to c. v is what c.Outcome returned, nil when the value is elsewhere.
func AppendResult(dst []byte, p *codec.Plan, v any, c *raysys.Core, refs References) ([]byte, error) {
	if v == nil {
		return AppendLarge(dst, refs, c)
	}
	value := reflect.ValueOf(v).Elem()
	if Exceeds(p, value, InlineLimit) {
		return AppendLarge(dst, refs, c)
	}
	out, err := AppendSmall(dst, p, value, refs)
	if errors.Is(err, raysys.ErrTooLarge) {
		return AppendLarge(dst, refs, c)
	}
	return out, err
}

// Exceeds reports whether a value surely encodes to more than limit bytes, or holds so much memory that it is better not to
// try. It costs nothing where values of the type have one size.
func Exceeds(p *codec.Plan, v reflect.Value, limit int) bool { return !p.Fixed() && p.Size(v) > limit }
