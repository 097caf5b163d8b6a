package generator

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/items"
)

// idle is when a box goes at which no call waits. One that is asked again comes back as it was.
const idle = time.Minute

// put brings the chunk of number N, and waits until the reader needs it no more.
type put struct {
	N     int
	Last  bool // of the attempt
	Items items.Chunk
}

// ask is for the chunk of number N, or for the last one from there on.
type ask struct {
	N      int
	Newest bool
	Done   int // chunks before it are needed no more
	Read   int // what the loop has had of items when it asked: those who wait with such a chunk get that
}

// answer is a chunk.
type answer struct {
	N     int
	Last  bool
	Items items.Chunk
}

// box is where puts and asks meet: the grain. mu guards all: a call that waits and is cancelled leaves in no turn of the grain.
//
// Each ask that meets a chunk gets it, also again: a put ends by the number of another ask. So calls may be made again at any time, and in any order.
type box struct {
	mu   sync.Mutex
	puts []*waiting[put, int]
	asks []*waiting[ask, answer]
	last ask // that with the highest Done
}

// waiting is a call that waits.
type waiting[A, R any] struct {
	arg   A
	later *grains.Later[R]
	stop  func() bool
}

func (b *box) put(_ context.Context, p put, l *grains.Later[int]) error {
	why := "the reader has not come to the chunk"
	if p.Items.Len() == 0 && !p.Last {
		why = "the task runs"
	}
	wait(b, &b.puts, &waiting[put, int]{arg: p, later: l}, why)
	return nil
}

func (b *box) ask(_ context.Context, a ask, l *grains.Later[answer]) error {
	why := "the producer has made no further item"
	if a.Newest {
		why = "no other attempt of the task has begun"
	}
	wait(b, &b.asks, &waiting[ask, answer]{arg: a, later: l}, why)
	return nil
}

// wait adds a call to its list, and lets those go on that can.
func wait[A, R any](b *box, list *[]*waiting[A, R], w *waiting[A, R], why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*list = append(*list, w)
	if b.meet(); slices.Contains(*list, w) {
		w.later.Because(func() string { return why })
		w.stop = context.AfterFunc(w.later.Context(), func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			*list = slices.DeleteFunc(*list, func(o *waiting[A, R]) bool { return o == w })
		})
	}
}

// settle ends a call that has left its list. It fails for a caller that is gone.
func (w *waiting[A, R]) settle(v R) bool {
	if w.stop != nil {
		w.stop()
	}
	_ = w.later.Settle(v)
	return true
}

// meet lets the calls go on that can.
func (b *box) meet() {
	for _, w := range b.asks {
		if w.arg.Done >= b.last.Done {
			b.last = w.arg
		}
	}
	b.asks = slices.DeleteFunc(b.asks, func(w *waiting[ask, answer]) bool {
		var found *put
		for _, p := range b.puts {
			if p.arg.N == w.arg.N || w.arg.Newest && p.arg.N > w.arg.N {
				if found == nil || p.arg.N > found.N {
					found = &p.arg
				}
			}
		}
		return found != nil && w.settle(answer{N: found.N, Last: found.Last, Items: found.Items})
	})
	b.puts = slices.DeleteFunc(b.puts, func(w *waiting[put, int]) bool {
		return w.arg.N < b.last.Done && w.settle(b.last.Read)
	})
}
