package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/collective"
	"github.com/raysys/raysys/grains/params"
	"github.com/raysys/raysys/tasks"
)

var (
	gradients = collective.Define[float64]("sgd.gradients")
	weights   = params.Define[float64]("sgd.weights", 2)

	ranks   = tasks.Define3("sgd.rank", rank)
	workers = tasks.Define3("sgd.worker", worker)
)

// Rates at which all modes converge: the rows' covariance is close to one. Asynchronous steps are of one worker's rows
// each, so they are smaller, to come to rest near the optimum of all.
const (
	rate      = 0.5
	asyncRate = 0.02
)

// trained is what a way comes to.
type trained struct {
	Weights []float64
	Steps   int // that the weights have made
	Moved   int // bytes of gradients that workers handed over for steps, and of sums or weights that they were given for them
	Joins   int // of ranks; more than the ranks where one was lost
}

const numberBytes = 8

var stepped atomic.Int64 // the steps that ranks in this process have made: a test waits for them

// ways run a problem to its end, each in its manner.
var ways map[string]func(ctx context.Context, p problem, key string) (trained, error)

func init() {
	ways = map[string]func(context.Context, problem, string) (trained, error){
		"allreduce": allReduce,
		"sync": func(ctx context.Context, p problem, key string) (trained, error) {
			return server(ctx, p, key, params.Config{Optimizer: params.SGD(rate), Workers: p.Workers})
		},
		"async": func(ctx context.Context, p problem, key string) (trained, error) {
			return server(ctx, p, key, params.Config{Optimizer: params.SGD(asyncRate), Staleness: uint64(10 * p.Workers)})
		},
	}
}

// allReduce runs one rank per worker; they need nobody else.
func allReduce(ctx context.Context, p problem, key string) (all trained, err error) {
	refs := make([]raysys.Ref[trained], p.Workers)
	for i := range refs {
		refs[i] = ranks.With(raysys.Placement(raysys.Spread)).Go(ctx, p, key, i)
	}
	list, err := raysys.GetAll(ctx, refs).Values()
	if err != nil {
		return all, err
	}
	all.Weights, all.Steps = list[0].Weights, list[0].Steps
	for i, r := range list {
		if !slices.Equal(r.Weights, all.Weights) {
			return all, fmt.Errorf("rank %d ends with %v, and rank 0 with %v", i, r.Weights, all.Weights)
		}
		all.Moved += r.Moved
		all.Joins += r.Joins
	}
	return all, nil
}

// rank is one worker of allReduce. When another one is lost, all join again, together with the one that is started
// anew, and go on from the weights of the rank that is furthest.
func rank(ctx context.Context, p problem, key string, me int) (r trained, err error) {
	xs, ys := p.rows(me)
	w, step := make([]float64, p.Features), 0
	for {
		err := func() error {
			m, err := gradients.Join(ctx, key, me, p.Workers)
			if err != nil {
				return err
			}
			defer m.Leave()
			r.Joins++
			if step, w, err = resume(ctx, m, step, w); err != nil {
				return err
			}
			for ; step < p.Steps; step++ {
				sum, err := m.AllReduce(ctx, gradient(xs, ys, w), collective.Sum)
				if err != nil {
					return err
				}
				stepped.Add(1)
				r.Moved += 2 * numberBytes * len(sum)
				for i, g := range sum {
					w[i] -= cmp.Or(p.Rate, rate) * g / float64(p.Workers)
				}
			}
			return m.Barrier(ctx) // nobody leaves while another lacks the last step
		}()
		lost := (*collective.RoundError)(nil)
		switch {
		case err == nil, step == p.Steps && errors.Is(err, raysys.ErrDeadline): // then the others lacked nothing, and left
			r.Weights, r.Steps = w, step
			return r, nil
		case !errors.As(err, &lost), ctx.Err() != nil:
			return r, err
		}
	}
}

// resume brings all ranks to the step and the weights of the one that is furthest.
func resume(ctx context.Context, m *collective.Member[float64], step int, w []float64) (int, []float64, error) {
	size := m.Size()
	furthest, err := m.AllReduce(ctx, []float64{float64(step*size + m.Rank())}, collective.Max)
	if err != nil {
		return step, w, err
	}
	to, from := int(furthest[0])/size, int(furthest[0])%size
	got, err := m.Broadcast(ctx, from, w)
	if err != nil {
		return step, w, err
	}
	return to, got, nil
}

// server runs the workers on a parameter server.
func server(ctx context.Context, p problem, key string, cfg params.Config) (all trained, err error) {
	model := weights.Get(key)
	if err := model.Init(ctx, make([]float64, p.Features), cfg); err != nil {
		return all, err
	}
	steps := p.Steps
	if cfg.Workers == 0 {
		steps *= 10 * p.Workers // each push is a step, and a smaller one
	}
	refs := make([]raysys.Ref[int], p.Workers)
	for i := range refs {
		refs[i] = workers.With(raysys.Placement(raysys.Spread)).Go(ctx, p, key, [2]int{i, steps})
	}
	moved, err := raysys.GetAll(ctx, refs).Values()
	if err != nil {
		return all, err
	}
	for _, bytes := range moved {
		all.Moved += bytes
	}
	w, err := model.Pull(ctx)
	if err != nil {
		return all, err
	}
	all.Weights, all.Steps = w.Values, int(w.Version.Step)
	return all, model.Drop(ctx)
}

// worker pulls, computes and pushes until the model has made its steps. It returns how many bytes it moved.
// It keeps nothing, so one that is lost is simply started anew.
func worker(ctx context.Context, p problem, key string, me [2]int) (moved int, err error) {
	number, steps := me[0], uint64(me[1])
	xs, ys := p.rows(number)
	cache := weights.Get(key).Cache()
	for {
		w, fresh, err := cache.Pull(ctx)
		if err != nil {
			return moved, err
		}
		if fresh {
			moved += numberBytes * len(w.Values)
		}
		if w.Version.Step >= steps {
			return moved, nil
		}
		_, err = weights.Get(key).Push(ctx, w.Version, number, gradient(xs, ys, w.Values))
		if err != nil && !errors.Is(err, params.ErrStale) { // a stale one is computed again
			return moved, err
		}
		moved += numberBytes * len(w.Values)
	}
}

// fit is the result of one mode beside the closed form.
type fit struct {
	trained
	took     time.Duration
	loss     float64
	excess   float64 // of the loss over the least there is
	distance float64 // of the weights from the closed form's, the largest
}

// rate is in steps a second.
func (f fit) rate() float64 { return float64(f.Steps) / f.took.Seconds() }

func (p problem) fit(ctx context.Context, mode string) (fit, error) {
	begin := time.Now()
	t, err := ways[mode](ctx, p, fmt.Sprintf("%s-%016x", mode, rand.Uint64()))
	if err != nil {
		return fit{}, fmt.Errorf("%s: %w", mode, err)
	}
	took, best, loss := time.Since(begin), p.best(), p.loss(t.Weights)
	return fit{t, took, loss, loss/p.loss(best) - 1, distance(t.Weights, best)}, nil
}

// asyncExcess is what async must stay below. The last steps may all be one worker's, which pull the weights towards the
// optimum of its own rows; that is about Features/Rows above the least. Where it starts, the loss is hundreds of times
// the least.
const asyncExcess = 0.05

// check holds a fit to what its mode must reach: the optimum, or for async a loss close to the least.
func (f fit) check(mode string) error {
	if mode == "async" && f.excess < asyncExcess || f.distance < 1e-9 {
		return nil
	}
	return fmt.Errorf("not fitted: %s ends %.2g from the closed form, with a loss %.2g above the least: give more -steps", mode, f.distance, f.excess)
}
