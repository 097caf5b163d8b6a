package queue

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/items"
	"github.com/raysys/raysys/system"
)

// batch are items that are put.
type batch struct {
	ID    uint64 // the same for a call that is made again
	Items items.Chunk
}

// ask is for up to N items.
type ask struct {
	ID uint64
	N  int
}

// rest goes back to the front: Items of those that the take Of got, or all of them where there are none here.
type rest struct {
	ID, Of uint64
	Items  items.Chunk
}

// box is one queue: the grain. mu guards all: a call that waits and is cancelled leaves its line in no turn of the grain. Calls are settled with
// mu held: nothing that waits for one calls into the box.
type box struct {
	mu      sync.Mutex
	d       *definition
	held    []piece
	count   int // of items
	closed  bool
	putting list.List // of *waiting[int], in the order in which they came
	taking  list.List // of *waiting[items.Chunk]; while one waits there is no item
	puts    items.Recent[struct{}]
	takes   items.Recent[taken]
	bytes   int // of takes
}

// piece is a chunk of which the items before next are gone.
type piece struct {
	items.Chunk
	next int
}

// taken is what came of a take. Of one that gave up the items have gone back.
type taken struct {
	items.Chunk
	back bool
}

// What a queue remembers of calls: that puts are in, and what takes got.
const (
	rememberedPuts  = 32 << 10
	rememberedTakes = 1024
	rememberedBytes = 4 << 20
)

// waiting is a call that stands in a line.
type waiting[R any] struct {
	later *grains.Later[R]
	put   batch
	ask   ask
	line  *list.List
	at    *list.Element // nil once it has left
	stop  func() bool
}

func (w *waiting[R]) leave() {
	w.line.Remove(w.at)
	if w.at = nil; w.stop != nil {
		w.stop()
	}
}

func (b *box) put(d *definition, p batch, l *grains.Later[int]) error {
	return stand(b, d, &waiting[int]{later: l, put: p, line: &b.putting})
}

func (b *box) take(d *definition, a ask, l *grains.Later[items.Chunk]) error {
	return stand(b, d, &waiting[items.Chunk]{later: l, ask: a, line: &b.taking})
}

// stand puts a call at the end of its line, and lets those go on that can.
func stand[R any](b *box, d *definition, w *waiting[R]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.d = d
	w.at = w.line.PushBack(w)
	b.pump()
	switch {
	case w.at == nil:
	case b.putting.Len()+b.taking.Len() > d.most:
		w.leave()
		return fmt.Errorf("%w: %d producers and %d consumers wait, queue.Mailbox(%d) lets half of that", raysys.ErrOverloaded, b.putting.Len(), b.taking.Len(), 2*d.most)
	default:
		w.stop = context.AfterFunc(w.later.Context(), func() {
			b.do(d, func() {
				if w.at != nil {
					w.leave()
				}
			})
		})
		why := "the queue is empty"
		if w.line == &b.putting {
			why = "the queue is full"
		}
		w.later.Because(func() string { return why })
	}
	return nil
}

// do changes the box, and lets calls go on that can.
func (b *box) do(d *definition, change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.d = d
	change()
	b.pump()
}

// pump lets calls that wait go on. Settle fails for those whose callers are gone.
func (b *box) pump() {
	for {
		if w := first[int](&b.putting); w != nil && b.mayPut(w.put) {
			w.leave()
			if _, in := b.puts.Get(w.put.ID); !in && b.closed {
				_ = w.later.Fail(ErrClosed)
			} else if w.later.Settle(0) == nil && !in {
				b.append(w.put)
			}
		} else if w := first[items.Chunk](&b.taking); w != nil && b.mayTake(w.ask) {
			w.leave()
			b.give(w)
		} else {
			return
		}
	}
}

func first[R any](line *list.List) *waiting[R] {
	if line.Len() == 0 {
		return nil
	}
	return line.Front().Value.(*waiting[R])
}

func (b *box) mayPut(p batch) bool {
	_, in := b.puts.Get(p.ID)
	return in || b.closed || b.count == 0 || b.count+p.Items.Len() <= b.d.size
}

func (b *box) mayTake(a ask) bool {
	_, known := b.takes.Get(a.ID)
	return known || b.closed || b.count > 0
}

// give settles a take, which has left its line.
func (b *box) give(w *waiting[items.Chunk]) {
	got, known := b.takes.Get(w.ask.ID)
	switch {
	case got.back:
		_ = w.later.Fail(raysys.ErrCancelled) // its caller has said so
	case known: // the call is made again
		_ = w.later.Settle(got.Chunk)
	case b.count == 0:
		_ = w.later.Fail(ErrClosed)
	default:
		c := b.remove(w.ask.N)
		if w.later.Settle(c) != nil {
			b.front(c)
			return
		}
		b.remember(w.ask.ID, taken{Chunk: c})
	}
}

// remember keeps what came of a take.
func (b *box) remember(id uint64, t taken) {
	old, _ := b.takes.Get(id)
	b.takes.Add(id, t)
	for b.bytes += len(t.Data) - len(old.Data); b.takes.Len() > rememberedTakes || b.bytes > rememberedBytes && b.takes.Len() > 1; {
		b.bytes -= len(b.takes.Drop().Data)
	}
}

// append puts items to the end.
func (b *box) append(p batch) {
	b.held = append(b.held, piece{Chunk: p.Items})
	b.count += p.Items.Len()
	b.did(p.ID)
}

// did keeps that the call of an ID counts.
func (b *box) did(id uint64) {
	if b.puts.Add(id, struct{}{}); b.puts.Len() > rememberedPuts {
		b.puts.Drop()
	}
}

// front puts items back.
func (b *box) front(c items.Chunk) {
	if c.Len() > 0 {
		b.held = slices.Insert(b.held, 0, piece{Chunk: c})
		b.count += c.Len()
	}
}

// remove takes the first items out, up to n and to what a chunk has.
func (b *box) remove(n int) (c items.Chunk) {
	for n = min(n, items.MaxItems); n > 0 && b.count > 0 && !c.Full(); {
		head := &b.held[0]
		to := min(head.next+n, head.Len())
		c.Join(head.Slice(head.next, to))
		n, b.count = n-(to-head.next), b.count-(to-head.next)
		if head.next = to; to == head.Len() {
			*head = piece{}
			b.held = b.held[1:]
		}
	}
	return c
}

// giveBack puts the rest of a take to the front. One that comes again changes nothing.
func (b *box) giveBack(r rest) {
	if _, done := b.puts.Get(r.ID); done {
		return
	}
	b.did(r.ID)
	if got, known := b.takes.Get(r.Of); r.Items.Len() > 0 {
		b.front(r.Items)
	} else if known && !got.back {
		b.front(got.Chunk)
	}
	b.remember(r.Of, taken{back: true})
}

func (b *box) length() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

// OnDeactivate says what is lost with the node.
func (b *box) OnDeactivate(ctx context.Context) error {
	if n := system.NodeOf(ctx); n != nil && b.length() > 0 {
		id, _ := grains.Self(ctx)
		n.Log().Warn("a queue is lost with its items, since its node drains or ends; it begins anew, and empty", "queue", id.String(), "items", b.length())
	}
	return nil
}
