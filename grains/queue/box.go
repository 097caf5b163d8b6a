package queue

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/items"
	"github.com/raysys/raysys/internal/tally"
	"github.com/raysys/raysys/system"
)

// batch are items that are put. One without items asks for room for N of them, Bytes together: it waits in the same line.
type batch struct {
	ID       uint64 // the same for a call that is made again
	Items    items.Chunk
	N, Bytes int  `raysys:"omitzero"`
	Asked    bool `raysys:"omitzero"` // for room, which there was: it goes first
}

func (p *batch) asks() bool { return p.Items.Len() == 0 && p.N > 0 }

// errAskFirst: the Puts that wait hold as much memory as they may.
var errAskFirst = tally.Expect(core.Sentinel("queue.askfirst",
	"queue: the Puts that wait hold as many bytes as the queue may"))

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
	size    int // of items, in bytes
	waits   int // bytes of the items in putting
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

func (w *waiting[R]) leave(b *box) {
	w.line.Remove(w.at)
	b.waits -= len(w.put.Items.Data)
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
	size := len(w.put.Items.Data)
	if b.waits += size; w.put.Asked {
		w.at = w.line.PushFront(w)
	} else {
		w.at = w.line.PushBack(w)
	}
	b.pump()
	switch {
	case w.at == nil:
	case size > 0 && b.waits > max(size, d.bytes):
		w.leave(b)
		return fmt.Errorf("%w: %w: %d bytes wait", errAskFirst, raysys.ErrOverloaded, b.waits)
	case b.putting.Len()+b.taking.Len() > d.most:
		w.leave(b)
		return fmt.Errorf("%w: %d producers and %d consumers wait, queue.Mailbox(%d) lets half of that", raysys.ErrOverloaded, b.putting.Len(), b.taking.Len(), 2*d.most)
	default:
		w.stop = context.AfterFunc(w.later.Context(), func() {
			b.do(d, func() {
				if w.at != nil {
					w.leave(b)
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

// pump lets calls that wait go on, of those that ask for room one: its items are still to come. Settle fails for those whose callers are gone.
func (b *box) pump() {
	for asked := false; ; {
		if w := first[int](&b.putting); w != nil && b.mayPut(&w.put) && !(asked && w.put.asks()) {
			w.leave(b)
			if _, in := b.puts.Get(w.put.ID); !in && b.closed {
				_ = w.later.Fail(ErrClosed)
			} else if gone := w.later.Settle(0) != nil; gone || in {
				continue
			} else if asked = asked || w.put.asks(); !w.put.asks() {
				b.append(w.put)
			}
		} else if w := first[items.Chunk](&b.taking); w != nil && b.mayTake(w.ask) {
			w.leave(b)
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

// mayPut reports whether there is room. Items that are more than the whole queue may have go in alone.
func (b *box) mayPut(p *batch) bool {
	_, in := b.puts.Get(p.ID)
	n, size := p.Items.Len(), len(p.Items.Data)
	if p.asks() {
		n, size = p.N, p.Bytes
	}
	return in || b.closed || b.count == 0 || b.count+n <= b.d.size && b.size+size <= b.d.bytes
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
	b.count, b.size = b.count+p.Items.Len(), b.size+len(p.Items.Data)
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
		b.count, b.size = b.count+c.Len(), b.size+len(c.Data)
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
	b.size -= len(c.Data)
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
