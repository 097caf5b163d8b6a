package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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

// ways run a problem to its end, each in its manner, and return the weights.
var ways map[string]func(ctx context.Context, p problem, key string) ([]float64, error)

func init() {
	ways = map[string]func(context.Context, problem, string) ([]float64, error){
		"allreduce": allReduce,
		"sync": func(ctx context.Context, p problem, key string) ([]float64, error) {
			return server(ctx, p, key, params.Config{Optimizer: params.SGD(rate), Workers: p.Workers})
		},
		"async": func(ctx context.Context, p problem, key string) ([]float64, error) {
			return server(ctx, p, key, params.Config{Optimizer: params.SGD(asyncRate), Staleness: uint64(10 * p.Workers)})
		},
	}
}

// allReduce runs one rank per worker; they need nobody else.
func allReduce(ctx context.Context, p problem, key string) ([]float64, error) {
	refs := make([]raysys.Ref[[]float64], p.Workers)
	for i := range refs {
		refs[i] = ranks.With(raysys.Placement(raysys.Spread)).Go(ctx, p, key, i)
	}
	ws, err := raysys.GetAll(ctx, refs).Values()
	if err != nil {
		return nil, err
	}
	for i, w := range ws {
		if !slices.Equal(w, ws[0]) {
			return nil, fmt.Errorf("rank %d ends with %v, and rank 0 with %v", i, w, ws[0])
		}
	}
	return ws[0], nil
}

// rank is one worker of allReduce. When another one is lost, all join again, together with the one that is started
// anew, and go on from the weights of the rank that is furthest.
func rank(ctx context.Context, p problem, key string, me int) ([]float64, error) {
	xs, ys := p.rows(me)
	w, step := make([]float64, p.Features), 0
	for {
		err := func() error {
			m, err := gradients.Join(ctx, key, me, p.Workers)
			if err != nil {
				return err
			}
			defer m.Leave()
			if step, w, err = resume(ctx, m, step, w); err != nil {
				return err
			}
			for ; step < p.Steps; step++ {
				sum, err := m.AllReduce(ctx, gradient(xs, ys, w), collective.Sum)
				if err != nil {
					return err
				}
				for i, g := range sum {
					w[i] -= rate * g / float64(p.Workers)
				}
			}
			return m.Barrier(ctx) // nobody leaves while another lacks the last step
		}()
		lost := (*collective.RoundError)(nil)
		switch {
		case err == nil, step == p.Steps && errors.Is(err, raysys.ErrDeadline): // then the others lacked nothing, and left
			return w, nil
		case !errors.As(err, &lost), ctx.Err() != nil:
			return nil, err
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
func server(ctx context.Context, p problem, key string, cfg params.Config) ([]float64, error) {
	model := weights.Get(key)
	if err := model.Init(ctx, make([]float64, p.Features), cfg); err != nil {
		return nil, err
	}
	steps := p.Steps
	if cfg.Workers == 0 {
		steps *= 10 * p.Workers // each push is a step, and a smaller one
	}
	refs := make([]raysys.Ref[int], p.Workers)
	for i := range refs {
		refs[i] = workers.With(raysys.Placement(raysys.Spread)).Go(ctx, p, key, [2]int{i, steps})
	}
	if _, err := raysys.GetAll(ctx, refs).Values(); err != nil {
		return nil, err
	}
	w, err := model.Pull(ctx)
	if err != nil {
		return nil, err
	}
	return w.Values, model.Drop(ctx)
}

// worker pulls, computes and pushes until the model has made its steps. It returns how many of its gradients counted.
// It keeps nothing, so one that is lost is simply started anew.
func worker(ctx context.Context, p problem, key string, me [2]int) (int, error) {
	number, steps := me[0], uint64(me[1])
	xs, ys := p.rows(number)
	cache := weights.Get(key).Cache()
	for counted := 0; ; {
		w, _, err := cache.Pull(ctx)
		if err != nil {
			return counted, err
		}
		if w.Version.Step >= steps {
			return counted, nil
		}
		switch _, err := weights.Get(key).Push(ctx, w.Version, number, gradient(xs, ys, w.Values)); {
		case err == nil:
			counted++
		case !errors.Is(err, params.ErrStale): // a stale one is computed again
			return counted, err
		}
	}
}

// fit is the result of one mode beside the closed form.
type fit struct {
	took     time.Duration
	excess   float64 // of the loss over the least there is
	distance float64 // of the weights from the closed form's, the largest
}

func (p problem) fit(ctx context.Context, mode string) (fit, error) {
	begin := time.Now()
	w, err := ways[mode](ctx, p, fmt.Sprintf("%s-%016x", mode, rand.Uint64()))
	if err != nil {
		return fit{}, fmt.Errorf("%s: %w", mode, err)
	}
	best := p.best()
	return fit{time.Since(begin), p.loss(w)/p.loss(best) - 1, distance(w, best)}, nil
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
