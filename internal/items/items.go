package items

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
)

// What a chunk has at most, but for one that is a single item.
const (
	MaxItems = 1024
	MaxBytes = 256 << 10
)

// ErrBroken: a chunk from another node is none.
var ErrBroken = errors.New("a list of items from another node is broken: do all nodes run builds of raysys that fit?")

// Chunk is a run of items.
type Chunk struct {
	Data []byte
	Ends []uint32 // of each item in Data
}

// Len is how many items there are.
func (c Chunk) Len() int { return len(c.Ends) }

// Full reports whether the next item goes into another chunk.
func (c Chunk) Full() bool { return len(c.Ends) >= MaxItems || len(c.Data) >= MaxBytes }

// Item is the bytes of item i.
func (c Chunk) Item(i int) []byte { return c.Data[c.start(i):c.Ends[i]:c.Ends[i]] }

func (c Chunk) start(i int) uint32 {
	if i == 0 {
		return 0
	}
	return c.Ends[i-1]
}

// Check is for a chunk that another node made: the other methods take it for whole.
func (c Chunk) Check() error {
	var last uint32
	for i, end := range c.Ends {
		if end < last || int64(end) > int64(len(c.Data)) {
			return fmt.Errorf("%w: item %d of %d goes from byte %d to %d of %d", ErrBroken, i, len(c.Ends), last, end, len(c.Data))
		}
		last = end
	}
	if int(last) != len(c.Data) {
		return fmt.Errorf("%w: its %d items end at byte %d of %d", ErrBroken, len(c.Ends), last, len(c.Data))
	}
	return nil
}

// Slice is the items from i to before j. Its bytes are those of c: an append to it copies.
func (c Chunk) Slice(i, j int) Chunk {
	if i == j {
		return Chunk{}
	}
	from, to := c.start(i), c.Ends[j-1]
	part := Chunk{Data: c.Data[from:to:to], Ends: c.Ends[i:j:j]}
	if from > 0 {
		part.Ends = slices.Clone(part.Ends)
		for k := range part.Ends {
			part.Ends[k] -= from
		}
	}
	return part
}

// Join appends the items of o.
func (c *Chunk) Join(o Chunk) {
	if len(c.Ends) == 0 {
		*c = o.Slice(0, o.Len())
		return
	}
	at := uint32(len(c.Data))
	c.Data = append(c.Data, o.Data...)
	for _, e := range o.Ends {
		c.Ends = append(c.Ends, at+e)
	}
}

// Codec turns items of one type into bytes and back.
type Codec struct{ plan *codec.Plan }

// CodecOf is the codec of a type. The error says why there is none.
func CodecOf(t reflect.Type) (Codec, error) {
	plan, err := codec.PlanOf(t)
	if err == nil && plan.HasRefs() {
		err = fmt.Errorf("%v has references: put what they stand for into the item", t)
	}
	return Codec{plan}, err
}

// Append adds the item at p, which has the type of the codec. After an error c is what it was.
func (k Codec) Append(c *Chunk, p unsafe.Pointer) error {
	data, err := k.plan.AppendAt(c.Data, p, nil)
	if err != nil {
		return err
	}
	if len(data) > 1<<31-1 {
		return fmt.Errorf("%w: the items of one chunk have %d bytes", raysys.ErrTooLarge, len(data))
	}
	c.Data, c.Ends = data, append(c.Ends, uint32(len(data)))
	return nil
}

// Decode makes the zero value at p, which has the type of the codec, item i of the chunk.
func (k Codec) Decode(c Chunk, i int, p unsafe.Pointer) error {
	return k.plan.DecodeAt(c.Item(i), p, nil)
}
