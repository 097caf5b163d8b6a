package feed

import (
	"container/list"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/items"
)

// What a feed has at most, but for the newest item: that many items, and bytes of them.
const (
	kept      = 1000
	keptBytes = 16 << 20
)

// Feed has the newest items that its grain has emitted: 1,000, and 16 MiB of them, encoded. One that is larger is there alone. The zero Feed has none, and is ready.
type Feed[T any] struct {
	_ [0]*T
	f log
}

// Emit appends an item, as it is now. It is for turns of the grain, and never waits. The error says why the item cannot travel.
func (f *Feed[T]) Emit(v T) error { return f.f.emit(reflect.TypeFor[T](), unsafe.Pointer(&v)) }

// log is a Feed without its type. mu guards all: an ask that is cancelled leaves in no turn of the grain.
type log struct {
	mu    sync.Mutex
	run   uint64 // of the activation
	codec *items.Codec
	held  []items.Chunk // of one item each, a ring once it is full
	first uint64        // the number of the oldest item that is in it
	next  uint64        // the number of the next item
	size  int           // of the items, in bytes
	asks  list.List     // of *waiting, which have all there is
}

type waiting struct {
	ask   ask
	later *grains.Later[answer]
	at    *list.Element // nil once it has left
	stop  func() bool
}

// ask is for the items from number From on, of the activation Run. Of 0 it is the first of a watcher, for the last items.
type ask struct {
	Run, From uint64
	Last      int
}

// answer has the items from number First on. Next is the number after them.
type answer struct {
	Run, First, Next uint64
	Items            items.Chunk
}

func (f *log) emit(t reflect.Type, p unsafe.Pointer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begin()
	if f.codec == nil {
		c, err := items.CodecOf(t)
		if err != nil {
			return err
		}
		f.codec = &c
	}
	var one items.Chunk
	if err := f.codec.Append(&one, p); err != nil {
		return err
	}
	f.size += len(one.Data)
	for f.next > f.first && (f.next-f.first == kept || f.size > keptBytes) {
		f.size -= len(f.held[f.first%kept].Data)
		f.held[f.first%kept] = items.Chunk{}
		f.first++
	}
	if len(f.held) < kept {
		f.held = append(f.held, one)
	} else {
		f.held[f.next%kept] = one
	}
	f.next++
	for at := f.asks.Front(); at != nil; at = f.asks.Front() {
		w := at.Value.(*waiting)
		f.leave(w)
		_ = w.later.Settle(f.answer(w.ask)) // fails for a watcher that is gone
	}
	return nil
}

func (f *log) begin() {
	for f.run == 0 {
		f.run = rand.Uint64()
	}
}

func (f *log) leave(w *waiting) {
	f.asks.Remove(w.at)
	w.at = nil
	w.stop()
}

// watch answers an ask, or keeps it until there is an item.
func (f *log) watch(most int, a ask, l *grains.Later[answer]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begin()
	if a.Run != f.run || a.From < f.next {
		return l.Settle(f.answer(a))
	}
	if f.asks.Len() >= most {
		return fmt.Errorf("%w: %d watch it: grains.Mailbox(%d) lets half of that", raysys.ErrOverloaded, f.asks.Len(), 2*most)
	}
	w := &waiting{ask: a, later: l}
	w.at = f.asks.PushBack(w)
	w.stop = context.AfterFunc(l.Context(), func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if w.at != nil {
			f.leave(w)
		}
	})
	l.Because(func() string { return "the feed has nothing new" })
	return nil
}

// answer has the items that an ask is for, as far as they are here and go into a chunk.
func (f *log) answer(a ask) answer {
	from := a.From
	switch {
	case a.Run == 0:
		from = f.next - min(uint64(max(a.Last, 0)), f.next)
	case a.Run != f.run: // of another activation: all that this one has is new
		from = f.first
	}
	from = max(from, f.first)
	r := answer{Run: f.run, First: from, Next: from}
	for ; r.Next < f.next && !r.Items.Full(); r.Next++ {
		r.Items.Join(f.held[r.Next%kept])
	}
	return r
}
