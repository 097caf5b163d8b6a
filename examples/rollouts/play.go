package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
)

// Lengths of episodes are drawn evenly from shortest to longest.
const (
	shortest, longest = 10, 1000
	stepWait          = 50 * time.Microsecond
	pendulumSteps     = 50 // of Pendulum, in place of a step: one takes a millionth of a second or less
)

// episode says all of an episode: an actor plays the same one whenever it is asked.
type episode struct {
	Seed     uint64
	Number   int
	Pendulum bool
}

// length is how many steps it has.
func (e episode) length() int {
	return shortest + rand.New(rand.NewPCG(e.Seed, uint64(e.Number))).IntN(longest-shortest+1)
}

// played is what an actor answers.
type played struct {
	Steps  int
	Return float64
	Took   time.Duration
}

// Actor is a grain that plays episodes.
type Actor struct{}

var (
	actors = grains.Define[Actor]("rollouts.actor", grains.Placement(raysys.Spread))
	// An actor whose node dies plays the episode again elsewhere: nothing hangs on an episode but its answer.
	playing = grains.Method(actors, "play", (*Actor).play).Idempotent()
)

func (*Actor) play(ctx context.Context, e episode) (p played, err error) {
	begin := time.Now()
	p.Steps = e.length()
	if e.Pendulum {
		p.Return, err = swing(ctx, e.Seed+uint64(e.Number), p.Steps*pendulumSteps)
	} else {
		err = wait(ctx, time.Duration(p.Steps)*stepWait) // at once: a timer of 50 us is late by as much
	}
	p.Took = time.Since(begin)
	return p, err
}

// wait stands for a simulator elsewhere.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// swing plays Pendulum by random torques.
func swing(ctx context.Context, seed uint64, steps int) (total float64, err error) {
	env, rng := envs.Pendulum(seed), rand.New(rand.NewPCG(seed, 1))
	s := rl.Step{Truncated: true}
	torque := make([]float32, 1)
	for i := range steps {
		if i%4096 == 0 && ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if s.Done() {
			env.Reset()
		}
		torque[0] = 4*rng.Float32() - 2
		s = env.Step(torque)
		total += float64(s.Reward)
	}
	return total, nil
}

// workload is what both ways play.
type workload struct {
	Seed           uint64
	Actors, Rounds int // a round is an episode for each actor
	Pendulum       bool
}

func (w workload) episode(number int) episode { return episode{w.Seed, number, w.Pendulum} }

// bound is how much longer the rounds last than their episodes do on average: what an asynchronous way gains where nothing but episodes takes time.
func (w workload) bound() float64 {
	longestOf, all := 0, 0
	for round := range w.Rounds {
		most := 0
		for i := range w.Actors {
			n := w.episode(round*w.Actors + i).length()
			most, all = max(most, n), all+n
		}
		longestOf += most
	}
	return float64(longestOf) * float64(w.Actors) / float64(all)
}

// span is an episode on an actor, seen by the driver.
type span struct {
	actor, steps int
	from, to     time.Duration // since the way began
}

// way is how the episodes were played.
type way struct {
	Steps   int     `json:"steps"`
	Returns float64 `json:"returns"` // the sum of Pendulum's
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"steps_per_second"`
	spans   []span
}

func (w *way) add(p played) {
	w.Steps += p.Steps
	w.Returns += p.Return
}

func (w *way) end(begin time.Time) {
	w.Seconds = time.Since(begin).Seconds()
	w.Rate = float64(w.Steps) / w.Seconds
}

// all are the actors, in memory.
func (w workload) all(ctx context.Context) ([]grains.Grain[Actor], error) {
	list := make([]grains.Grain[Actor], w.Actors)
	for i := range list {
		list[i] = actors.Get(fmt.Sprintf("%d-%d", w.Seed, i))
	}
	refs := make([]raysys.Ref[played], w.Actors)
	for i, a := range list {
		refs[i] = playing.Call(ctx, a, w.episode(i))
	}
	_, err := raysys.GetAll(ctx, refs).Values()
	return list, err
}

// async gives an actor the next episode as soon as its last one has ended.
func (w workload) async(ctx context.Context, list []grains.Grain[Actor]) (r way, err error) {
	var open raysys.RefSet[played]
	begin, next := time.Now(), 0
	var on []int // the actor of each call, in their order
	var since []time.Duration
	begins := func(actor int) {
		if next < w.Actors*w.Rounds {
			on, since = append(on, actor), append(since, time.Since(begin))
			open.Add(playing.Call(ctx, list[actor], w.episode(next)))
			next++
		}
	}
	for i := range list {
		begins(i)
	}
	for i, ref := range open.AsCompleted(ctx) {
		p, err := ref.Get(ctx)
		if err != nil {
			return r, err
		}
		begins(on[i])
		r.add(p)
		r.spans = append(r.spans, span{on[i], p.Steps, since[i], time.Since(begin)})
	}
	r.end(begin)
	return r, context.Cause(ctx)
}

// bulk begins a round when all actors have ended the last one.
func (w workload) bulk(ctx context.Context, list []grains.Grain[Actor]) (r way, err error) {
	refs := make([]raysys.Ref[played], w.Actors)
	begin := time.Now()
	for round := range w.Rounds {
		since := time.Since(begin)
		for i, a := range list {
			refs[i] = playing.Call(ctx, a, w.episode(round*w.Actors+i))
		}
		ends, err := raysys.GetAll(ctx, refs).Values()
		if err != nil {
			return r, err
		}
		for i, p := range ends {
			r.add(p)
			r.spans = append(r.spans, span{i, p.Steps, since, since + p.Took})
		}
	}
	r.end(begin)
	return r, nil
}

// comparison is of the median ratio.
type comparison struct {
	Ratio float64 `json:"ratio"`
	Async way     `json:"async"`
	Bulk  way     `json:"bulk"`
}

// compare measures both ways in turn, and returns the one of the median ratio.
func (w workload) compare(ctx context.Context, repeat int, what string, progress io.Writer) (c comparison, err error) {
	list, err := w.all(ctx)
	if err != nil {
		return c, err
	}
	var each []comparison
	for i := range repeat {
		if c.Async, err = w.async(ctx, list); err != nil {
			return c, err
		}
		if c.Bulk, err = w.bulk(ctx, list); err != nil {
			return c, err
		}
		if c.Async.Steps != c.Bulk.Steps {
			return c, fmt.Errorf("%s: %d steps asynchronously, and %d bulk-synchronously", what, c.Async.Steps, c.Bulk.Steps)
		}
		c.Ratio = c.Async.Rate / c.Bulk.Rate
		each = append(each, c)
		fmt.Fprintf(progress, "%s, %d of %d: %.0f steps/s asynchronously, %.0f bulk-synchronously, ratio %.2f\n", what, i+1, repeat, c.Async.Rate, c.Bulk.Rate, c.Ratio)
	}
	slices.SortFunc(each, func(a, b comparison) int { return cmp.Compare(a.Ratio, b.Ratio) })
	return each[len(each)/2], nil
}
