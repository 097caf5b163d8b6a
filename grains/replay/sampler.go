package replay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/raysys/raysys"
)

// Sampler asks for samples ahead, so that they are there when the learner wants them. It is for one goroutine.
//
// What its calls take is not lost with the ctx of a Next: it goes to the next one, or to Close.
type Sampler[T any] struct{ s sampler }

// sampler is a Sampler without its type.
type sampler struct {
	b      *buffer
	table  string
	n      int
	ahead  int
	id     uint64
	rounds []*round  // the oldest first
	got    collected // what the next Next is to return, and less than n more
}

// Sampler returns a sampler of n items at a time, with so many calls ahead. Close it.
func (c *Client[T]) Sampler(table string, n, ahead int) *Sampler[T] {
	return &Sampler[T]{sampler{b: &c.b, table: table, n: n, ahead: max(0, ahead), id: rand.Uint64()}}
}

// Next returns the next samples: n items, as Client.Sample. Where it fails because the limiter is shut, or ctx has ended, what was taken is kept
// for the next call.
func (s *Sampler[T]) Next(ctx context.Context) (Samples[T], error) {
	got, err := s.s.next(ctx)
	return samplesOf[T](s.s.b.d, got, err)
}

// Close gives up the calls that are open, and returns the items that were taken and that no Next has returned: those count as sampled. An error
// says that a shard did not answer within five seconds: what it has taken counts as sampled, too.
func (s *Sampler[T]) Close() (Samples[T], error) {
	got, err := s.s.close()
	left, bad := samplesOf[T](s.s.b.d, got, nil)
	return left, errors.Join(err, bad)
}

func (s *sampler) next(ctx context.Context) (collected, error) {
	at, err := s.b.sampled(s.table, s.n)
	for open := s.ahead + 1; err == nil; open = 1 {
		s.fill(ctx, at, open)
		if len(s.got.keys) >= s.n {
			return s.got.cut(s.n), nil
		}
		if len(s.rounds) == 0 {
			err = context.DeadlineExceeded // it is about to end
			break
		}
		r := s.rounds[0]
		if err = s.takeAnswers(ctx, r); r.next == len(r.calls) {
			s.rounds = s.rounds[1:]
			if err == nil {
				err = s.b.after(ctx, r)
			}
		}
	}
	return collected{}, fmt.Errorf("sample %v: %w", s.b, err)
}

// fill asks until so many rounds are open. Their calls end with the Sampler: what they take does not go with ctx. Ahead they wait for as long as
// shards allow, and else as long as ctx does.
func (s *sampler) fill(ctx context.Context, table, open int) {
	for len(s.rounds) < open {
		wait, ok := allowed(ctx)
		n := s.n
		if s.ahead == 0 {
			n -= len(s.got.keys)
		} else {
			wait = patience
		}
		if !ok || n < 1 {
			return
		}
		s.rounds = append(s.rounds, s.b.askShards(context.WithoutCancel(ctx), question{Table: uint16(table), N: n, Wait: wait, Sampler: s.id}))
	}
}

// takeAnswers takes the answers of a round. Where its calls wait longer than ctx allows it says shortly before the end of ctx which limiter is shut.
func (s *sampler) takeAnswers(ctx context.Context, r *round) error {
	most := left(ctx)
	if time.Until(r.until) <= most {
		return s.b.collect(ctx, r, &s.got)
	}
	soon, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := s.b.collect(soon, r, &s.got)
	if err == nil || soon.Err() == nil || ctx.Err() != nil || r.next == len(r.calls) {
		return err
	}
	if raysys.PhaseOf(r.calls[r.next]) == raysys.PhasePending {
		q := question{Shard: r.shards[r.next], Table: uint16(r.table)}
		if _, err := s.b.d.sample.Call(ctx, s.b.shard(q.Shard), q).Get(ctx); shutIn(err) != nil {
			return shutIn(err)
		}
	}
	return s.b.collect(ctx, r, &s.got) // the answer is on its way
}

func (s *sampler) close() (collected, error) {
	got, rounds := s.got, s.rounds
	s.got, s.rounds, s.ahead = collected{}, nil, 0
	if len(rounds) == 0 {
		return got, nil
	}
	ctx, cancel := context.WithTimeout(rounds[0].ctx, 5*time.Second)
	defer cancel()
	var bad error
	for _, r := range rounds {
		for i, call := range r.calls[r.next:] {
			if raysys.PhaseOf(call) == raysys.PhasePending {
				q := question{Shard: r.shards[r.next+i], Table: uint16(r.table), Sampler: s.id}
				_ = s.b.d.sample.Call(ctx, s.b.shard(q.Shard), q) // the call says what came of it
			}
		}
	}
	for _, r := range rounds {
		for r.next < len(r.calls) && ctx.Err() == nil {
			bad = errors.Join(bad, s.b.collect(ctx, r, &got))
		}
		for _, call := range r.calls[r.next:] {
			call.Cancel()
		}
	}
	if bad != nil {
		return got, fmt.Errorf("close a sampler of %v: %w", s.b, bad)
	}
	return got, nil
}
