package generator

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/items"
)

// soon is how long an item waits for others.
const soon = 5 * time.Millisecond

// window is how many chunks may be unread.
const window = 2

// branch numbers the calls of a sender, so that those of the producer have the numbers that they would have without.
const branch = -0x67656e

// streamKey brings the key of a stream to its task.
var streamKey = raysys.NewContextKey[string]("raysys.generator")

// sender is the producer's side of an attempt.
type sender struct {
	d     *definition
	ctx   context.Context // of the task
	calls context.Context // the same, for calls
	box   grains.Grain[box]
	at    unsafe.Pointer // the item that yield is given
	timer *time.Timer    // of the first item of the chunk

	mu     sync.Mutex // guards the rest, and the item
	chunk  items.Chunk
	next   int // its number
	out    [window]raysys.Ref[int]
	skip   int // items that the loop had of the attempts before
	over   bool
	err    error
	waiter core.Waiter // of flush
	waits  atomic.Bool // written without mu
}

// produce runs f as an attempt of the stream whose key ctx has.
func produce(ctx context.Context, d *definition, at unsafe.Pointer, f func(*sender) error) (err error) {
	key, ok := streamKey.From(ctx)
	if !ok {
		return fmt.Errorf("%w: %s is a generator: call its Go", raysys.ErrBadOption, d.name)
	}
	n := raysys.Attempt(ctx)
	calls, end := context.WithCancel(raysys.Branch(ctx, branch))
	defer end()
	s := &sender{d: d, ctx: ctx, calls: calls, at: at, box: d.kind.Get(fmt.Sprint(key, "/", n))}
	if _, err := d.put.Call(calls, s.box, put{N: -1}).Get(ctx); err != nil { // so that it is beside the task, and not beside the reader
		return err
	}
	begun := d.put.Call(calls, d.kind.Get(key), put{N: n})
	if n > 1 {
		if s.skip, err = begun.Get(ctx); err != nil {
			return err
		}
	}
	s.timer = time.AfterFunc(time.Hour, s.flush)
	s.timer.Stop()
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.over = true
	})()
	defer func() { // also after a panic: what was yielded before it comes first
		if failed := s.finish(); failed != nil {
			err = failed
		}
	}()
	return f(s)
}

// yield sends the item that is at s.at. The caller has locked s, and yield unlocks it.
func (s *sender) yield() bool {
	defer s.mu.Unlock()
	switch {
	case s.over:
		return false
	case s.skip > 0:
		s.skip--
		return true
	}
	if err := s.d.codec.Append(&s.chunk, s.at); err != nil {
		s.fail(fmt.Errorf("yield: %w", err))
		return false
	}
	if s.chunk.Len() == 1 {
		s.timer.Reset(soon)
	}
	for s.chunk.Full() && !s.over {
		if s.hasRoom() {
			s.send(false)
		} else {
			s.waitForRoom()
		}
	}
	return !s.over
}

func (s *sender) fail(err error) {
	if s.over = true; s.err == nil {
		s.err = err
	}
}

// oldest is the put that has to end before another chunk may go.
func (s *sender) oldest() raysys.Ref[int] { return s.out[s.next%window] }

// hasRoom reports whether the chunk may go.
func (s *sender) hasRoom() bool {
	return s.oldest().IsZero() || core.FutureOf(s.oldest().Link).Settled()
}

// waitForRoom waits for room, with s unlocked. The chunk may have gone meanwhile.
func (s *sender) waitForRoom() {
	oldest := s.oldest()
	s.mu.Unlock()
	_, _ = oldest.Get(s.ctx)
	s.mu.Lock()
}

// send sends the chunk, for which there is room.
func (s *sender) send(last bool) {
	if !s.oldest().IsZero() {
		if _, err := s.oldest().Get(s.calls); err != nil { // it has settled
			s.fail(err)
			return
		}
	}
	s.timer.Stop()
	size, n := len(s.chunk.Data), s.chunk.Len()
	s.out[s.next%window] = s.d.put.Call(s.calls, s.box, put{N: s.next, Last: last, Items: s.chunk})
	s.next++
	s.chunk = items.Chunk{}
	if n > 1 && !last {
		s.chunk = items.Chunk{Data: make([]byte, 0, size+size/8), Ends: make([]uint32, 0, min(n+n/8, items.MaxItems))}
	}
}

// flush sends what has waited, as soon as there is room, while the producer makes its next item.
func (s *sender) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over || s.chunk.Len() == 0:
	case s.hasRoom():
		s.send(false)
	case !s.waits.Swap(true) && !core.FutureOf(s.oldest().Link).Subscribe(&s.waiter, s):
		s.Resolved(nil)
	}
}

// Resolved implements core.Resolved: there is room.
func (s *sender) Resolved(*core.Waiter) {
	s.waits.Store(false)
	s.timer.Reset(0)
}

// finish sends what is left, and waits until all is read. yield returns false from then on.
func (s *sender) finish() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.hasRoom() && s.ctx.Err() == nil {
		s.waitForRoom()
	}
	s.over = true
	if s.hasRoom() {
		s.send(true)
	}
	out := s.out
	s.mu.Unlock()
	for _, r := range out {
		if !r.IsZero() {
			if _, err := r.Get(s.ctx); err != nil { // of a reader that is gone it fails at once
				s.mu.Lock()
				s.fail(err)
				s.mu.Unlock()
			}
		}
	}
	s.mu.Lock()
	return s.err
}
