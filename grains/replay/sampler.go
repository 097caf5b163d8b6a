package replay

import (
	"context"
	"errors"

	"github.com/raysys/raysys"
)

// Sampler asks for samples ahead, so that they are there when the learner wants them. It is for one goroutine.
type Sampler[T any] struct {
	b     *buffer
	table string
	at, n int
	ahead int
	calls []asked   // the oldest first
	got   collected // of the samples that Next is to return
}

type asked struct {
	shard int
	call  raysys.Ref[answer]
}

// Sampler returns a sampler of n items at a time, with so many calls ahead.
func (c *Client[T]) Sampler(table string, n, ahead int) *Sampler[T] {
	at, err := c.b.d.cfg.table(table)
	if err != nil || n < 1 {
		ahead = 0 // Next says so
	}
	return &Sampler[T]{b: &c.b, table: table, at: at, n: n, ahead: ahead}
}

// Next returns the next samples: n items, as Client.Sample. Where it fails because the limiter is shut,
// or ctx has ended, what was taken is kept for the next call.
func (s *Sampler[T]) Next(ctx context.Context) (Samples[T], error) {
	got, err := s.next(ctx)
	return samplesOf[T](s.b.d, got, err)
}

func (s *Sampler[T]) next(ctx context.Context) (collected, error) {
	s.fill(ctx, s.ahead+1)
	if len(s.calls) == 0 {
		return s.collect(ctx, nil)
	}
	first := s.calls[0]
	return s.collect(ctx, func() (int, answer, error) {
		wait, _ := allowed(ctx)
		soon, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		a, err := first.call.Get(soon)
		if err == nil || soon.Err() == nil { // else it stays for the next: what it takes is not lost
			s.calls = s.calls[1:]
		}
		return first.shard, a, err
	})
}

func (s *Sampler[T]) collect(ctx context.Context, first func() (int, answer, error)) (collected, error) {
	got, err := s.b.sample(ctx, s.table, s.n, s.got, first)
	if s.got = (collected{}); err != nil && (shutIn(err) != nil || errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil) {
		s.got = got
	}
	return got, err
}

// fill makes calls until so many are open.
func (s *Sampler[T]) fill(ctx context.Context, open int) {
	for s.ahead > 0 && len(s.calls) < open {
		wait, ok := allowed(ctx)
		if !ok {
			return
		}
		shard := s.b.turn()[0]
		s.calls = append(s.calls, asked{shard, s.b.ask(ctx, s.at, s.n, shard, wait)})
	}
}

// Close gives up the calls that are open. What they have taken counts as sampled.
func (s *Sampler[T]) Close() {
	for _, c := range s.calls {
		c.call.Cancel()
	}
	s.calls, s.ahead = nil, 0
}
