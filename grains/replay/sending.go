package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/raysys/raysys"
)

// A step belongs to any number of items, in any tables: its bytes are in a batch once. sending makes batches of steps and items, and sends them.
type sending struct {
	b      *buffer
	keeps  bool // a batch that has failed stays first in open, and is sent again: a Writer's
	batch  batch
	packed int     // how many items of the batch pack has looked at
	kept   int     // how many bytes of the batch are of the one before: cut copied them
	open   []*sent // the oldest first
	done   int     // how many items are in a shard
	sent   int     // how many items batches had that were sent
	left   []int   // places of items whose batch has failed
}

const (
	batchBytes = 256 << 10 // a batch of as many bytes is sent
	batchItems = 4096
	batchOpen  = 4 // at most are on their way
)

func (b *buffer) sending() *sending { return &sending{b: b} }

// step appends a step, to which p points.
func (w *sending) step(p unsafe.Pointer) error {
	data, err := w.b.d.plan.AppendAt(w.batch.Data, p, nil)
	if err != nil {
		return err
	}
	if len(data) > 1<<31-1 {
		return fmt.Errorf("%w: the steps of one batch have %d bytes", raysys.ErrTooLarge, len(data))
	}
	w.batch.Data = data
	w.batch.Ends = append(w.batch.Ends, uint32(len(data)))
	return nil
}

// expect makes room for n steps in all, as large as the first.
func (w *sending) expect(n int) {
	w.batch.Data = slices.Grow(w.batch.Data, min(batchBytes, (n-1)*len(w.batch.Data)))
}

// item adds an item of the steps from first to before last.
func (w *sending) item(table int, priority float64, first, last int) {
	x := &w.batch
	x.Tables, x.Priorities = append(x.Tables, uint16(table)), append(x.Priorities, priority)
	x.First, x.Last = append(x.First, uint32(first)), append(x.Last, uint32(last))
}

// pack makes objects of the items that are large. Where the store is full it fails, and goes on there the next time.
func (w *sending) pack(ctx context.Context) error {
	x := &w.batch
	for ; w.packed < len(x.Tables); w.packed++ {
		first, last, from := x.First[w.packed], x.Last[w.packed], uint32(0)
		if first > 0 {
			from = x.Ends[first-1]
		}
		object := int32(-1)
		if data := x.Data[from:x.Ends[last-1]]; len(data) > raysys.ObjectSize {
			ref := raysys.Put(ctx, pack(data, x.Ends[first:last], from))
			if _, err := ref.Get(ctx); err != nil {
				return err
			}
			object = int32(len(x.Objects))
			x.Objects = append(x.Objects, ref.Handle())
		}
		if object >= 0 || x.Object != nil {
			for len(x.Object) < w.packed {
				x.Object = append(x.Object, -1)
			}
			x.Object = append(x.Object, object)
		}
	}
	return nil
}

// full reports whether the batch is to be sent. A long item keeps its steps from batch to batch: the longer they are, the more steps have to
// come before they are copied again.
func (w *sending) full() bool {
	return len(w.batch.Data)-w.kept >= max(batchBytes, w.kept/4) || len(w.batch.Tables) >= batchItems
}

// take returns the batch and begins another, in the memory of its steps. Of these only those go along that items are in.
func (w *sending) take() batch {
	x := w.batch
	w.packed = 0
	w.batch = batch{Data: x.Data[:0], Ends: x.Ends[:0]}
	least, most := uint32(len(x.Ends)), uint32(0)
	for i := range x.Tables {
		if x.Object == nil || x.Object[i] < 0 {
			least, most = min(least, x.First[i]), max(most, x.Last[i])
		}
	}
	if least >= most { // all are objects
		least, most = 0, 0
		x.Data, x.Ends = nil, nil
		return x
	}
	from := uint32(0)
	if least > 0 {
		from = x.Ends[least-1]
	}
	x.Data = bytes.Clone(x.Data[from:x.Ends[most-1]])
	ends := make([]uint32, most-least)
	for i := range ends {
		ends[i] = x.Ends[int(least)+i] - from
	}
	x.Ends = ends
	for i := range x.Tables {
		if x.Object == nil || x.Object[i] < 0 {
			x.First[i], x.Last[i] = x.First[i]-least, x.Last[i]-least
		}
	}
	return x
}

// send sends the batch that cut takes, while others may be on their way. After an error nothing was taken.
func (w *sending) send(ctx context.Context, cut func() batch) error {
	err := w.waitForRoom(ctx, batchOpen-1)
	if err == nil {
		err = w.pack(ctx)
	}
	if err != nil {
		return err
	}
	if x := cut(); len(x.Tables) > 0 {
		s := &sent{b: w.b, batch: x, first: w.sent, items: len(x.Tables)}
		s.send(ctx)
		w.sent += s.items
		w.open = append(w.open, s)
	}
	return nil
}

// gaveUp waits for the batches that are on their way, and says in a ShutError which of n items are in, of all batches.
func (w *sending) gaveUp(ctx context.Context, err error, n int) error {
	err = errors.Join(err, w.waitForRoom(ctx, 0))
	if shut := shutIn(err); shut != nil {
		for i := w.sent; i < n; i++ { // in no batch that was sent
			w.left = append(w.left, i)
		}
		shut.Done, shut.Left = w.done, w.left
	}
	return err
}

// waitForRoom waits until at most so many batches are on their way, and returns the first error.
func (w *sending) waitForRoom(ctx context.Context, most int) (err error) {
	for len(w.open) > most {
		s := w.open[0]
		bad := s.end(ctx)
		if bad != nil && w.keeps {
			return bad
		}
		w.done += s.done
		for i := s.first + s.done; bad != nil && i < s.first+s.items; i++ {
			w.left = append(w.left, i)
		}
		if err == nil {
			err = bad
		}
		w.open = w.open[1:]
	}
	return err
}
