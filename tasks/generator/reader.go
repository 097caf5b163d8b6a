package generator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/items"
)

// stream is a Stream without its type.
type stream struct {
	d    *definition
	key  string
	ctx  context.Context // the task's end is that of it
	stop context.CancelFunc
	task raysys.Ref[struct{}]
	read atomic.Bool
}

func begin(ctx context.Context, d *definition) *stream {
	s := &stream{d: d, key: fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()), ctx: ctx, stop: func() {}}
	if _, _, err := core.TurnOf(ctx); err == nil {
		s.ctx, s.stop = context.WithCancel(streamKey.With(ctx, s.key))
	}
	return s
}

// all makes the items at the place at, one after the other, and calls f for each until that returns false. An error is for the last call.
func (s *stream) all(ctx context.Context, at unsafe.Pointer, f func(error) bool) {
	if err := s.each(ctx, at, func() bool { return f(nil) }); err != nil {
		f(fmt.Errorf("read %s: %w", s.d.name, err))
	}
}

func (s *stream) each(ctx context.Context, at unsafe.Pointer, f func() bool) error {
	if s.read.Swap(true) {
		return fmt.Errorf("%w: a stream has one loop over All", raysys.ErrBadOption)
	}
	defer s.stop()
	if _, _, err := core.TurnOf(ctx); err != nil {
		return err
	}
	ctx, end := context.WithCancel(raysys.Branch(ctx, rand.Int())) // the numbers of the reader's own calls are those that they would be without
	defer end()
	r := &reader{s: s, ctx: ctx, endAsks: func() {}}
	r.awaitAttempt()
	for {
		c, err := r.chunk()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range c.Len() {
			if err := s.d.codec.Decode(c, i, at); err != nil {
				return err
			}
			if r.read++; !f() {
				return nil
			}
		}
	}
}

// reader is one loop.
type reader struct {
	s       *stream
	ctx     context.Context
	read    int                // items that the loop has had
	attempt int                // the one that is read, 0 before the first
	newer   raysys.Ref[answer] // the next attempt
	box     grains.Grain[box]
	asking  context.Context
	endAsks context.CancelFunc
	next    int                   // the chunk that comes next
	asks    [2]raysys.Ref[answer] // of this one, and of the one after it; zero where none is asked for
	failed  int
}

// chunk waits for the next chunk, which may be empty. It returns io.EOF at the end.
func (r *reader) chunk() (items.Chunk, error) {
	for {
		if r.s.ctx.Err() != nil {
			return items.Chunk{}, fmt.Errorf("%w: %w", raysys.ErrCancelled, context.Cause(r.s.ctx))
		}
		head := r.asks[r.next%2]
		switch {
		case settled(head):
			a, err := head.Get(r.ctx)
			if err == nil {
				if err = a.Items.Check(); err != nil {
					return items.Chunk{}, err
				}
				r.askForNext(a)
				return a.Items, nil
			}
			if !r.mayAskAgain(err) {
				return items.Chunk{}, err
			}
			r.askForChunk(r.next)
		case settled(r.s.task):
			_, err := r.s.task.Get(r.ctx)
			if err == nil {
				err = io.EOF
			}
			return items.Chunk{}, err
		case settled(r.newer):
			a, err := r.newer.Get(r.ctx)
			if err == nil {
				r.begin(a.N)
			} else if !r.mayAskAgain(err) {
				return items.Chunk{}, err
			}
			r.awaitAttempt()
		default:
			open := []raysys.Ref[answer]{r.newer, {Link: r.s.task.Link}, head} // Wait looks at no value
			if head.IsZero() {
				open = open[:2]
			}
			if _, _, err := raysys.Wait(r.ctx, open, 1); err != nil {
				return items.Chunk{}, err
			}
		}
	}
}

func settled[T any](r raysys.Ref[T]) bool { return !r.IsZero() && core.FutureOf(r.Link).Settled() }

// tries is how often calls may fail in a row: each of them is made again by itself, for as long as its way is in order.
const tries = 16

// mayAskAgain reports whether a call that has failed is to be made again.
func (r *reader) mayAskAgain(err error) bool {
	var refused *raysys.TaskError
	r.failed++
	return r.failed <= tries && r.ctx.Err() == nil && !errors.As(err, &refused)
}

// awaitAttempt asks for an attempt that is newer than the one that is read, and tells that one where it begins.
func (r *reader) awaitAttempt() {
	n := r.attempt + 1
	r.newer = r.s.d.ask.Call(r.ctx, r.s.d.kind.Get(r.s.key), ask{N: n, Newest: true, Done: n, Read: r.read})
}

// begin reads an attempt.
func (r *reader) begin(n int) {
	r.endAsks()
	r.asking, r.endAsks = context.WithCancel(r.ctx)
	r.attempt, r.next, r.box = n, 0, r.s.d.kind.Get(fmt.Sprint(r.s.key, "/", n))
	r.askForChunk(0)
	r.askForChunk(1)
}

// askForChunk asks for a chunk.
func (r *reader) askForChunk(n int) {
	r.asks[n%2] = r.s.d.ask.Call(r.asking, r.box, ask{N: n, Done: r.next})
}

// askForNext asks for what follows the chunk that has come.
func (r *reader) askForNext(a answer) {
	r.failed = 0
	r.next++
	r.askForChunk(r.next + 1)
	if a.Last { // the ask says that it is here, and has no answer
		r.asks = [2]raysys.Ref[answer]{}
	}
}
