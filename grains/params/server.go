package params

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
)

// Server is a kind of model. Make it once, in a package variable.
type Server[T Float] struct{ d *definition[T] }

// Model is one model of a Server: its name, not its place.
type Model[T Float] struct {
	d   *definition[T]
	key string
}

// Option changes a kind of model.
type Option func(*options) error

type options struct{ patience time.Duration }

// longIdle keeps weights in memory between pushes, however far these lie apart. They go by Drop.
const longIdle = 365 * 24 * time.Hour

// Patience is how long a synchronous Push waits for the other workers, and Await for a step, where its ctx allows more:
// 30 s unless set.
func Patience(d time.Duration) Option {
	return func(o *options) error {
		if d <= 0 {
			return fmt.Errorf("Patience(%v): give a positive duration", d)
		}
		o.patience = d
		return nil
	}
}

type definition[T Float] struct {
	name     string
	shards   int
	patience time.Duration
	kind     grains.Kind[shard[T]]
	init     grains.Act[shard[T], beginning[T]]
	pull     grains.Func[shard[T], question, answer[T]]
	push     grains.Func[shard[T], gradient[T], raysys.Handle[Version]]
	expect   grains.Act[shard[T], int]
	await    grains.Func[shard[T], Version, raysys.Handle[Version]]
	status   grains.Func0[shard[T], Status]
	drop     grains.Act0[shard[T]]
}

// maxShards bounds the calls of one verb.
const maxShards = 4096

// Define makes a kind of model under name, in the process-wide table, whose weights are cut into so many shards. A bad
// definition is reported by system.New.
func Define[T Float](name string, shards int, opts ...Option) Server[T] {
	return define[T](core.DefaultTable, name, shards, opts)
}

// DefineIn is Define in a table of your own, for tests.
func DefineIn[T Float](t *raysys.Table, name string, shards int, opts ...Option) Server[T] {
	return define[T](t, name, shards, opts)
}

func define[T Float](t *raysys.Table, name string, shards int, opts []Option) Server[T] {
	o := options{patience: 30 * time.Second}
	var bad error
	if shards < 1 || shards > maxShards {
		bad = fmt.Errorf("%d shards: give 1 to %d", shards, maxShards)
	}
	for _, opt := range opts {
		if opt == nil {
			bad = errors.Join(bad, errors.New("nil Option"))
			continue
		}
		bad = errors.Join(bad, opt(&o))
	}
	if bad != nil {
		t.Add("model", name, 0, bad, 2)
	}
	d := &definition[T]{name: name, shards: shards, patience: o.patience}
	d.kind = grains.DefineIn[shard[T]](t, name, grains.IdleAfter(longIdle), grains.Placement(raysys.Spread), grains.Unfiltered())
	d.init = grains.Action(d.kind, "init", (*shard[T]).init)
	d.pull = grains.Method(d.kind, "pull", (*shard[T]).pull)
	d.push = grains.Method(d.kind, "push", (*shard[T]).push)
	d.expect = grains.Action(d.kind, "expect", (*shard[T]).expect)
	d.await = grains.Method(d.kind, "await", (*shard[T]).await)
	d.status = grains.Method0(d.kind, "status", (*shard[T]).status)
	d.drop = grains.Action0(d.kind, "drop", func(s *shard[T], ctx context.Context) error { return grains.Deactivate(ctx) })
	return Server[T]{d}
}

// Get returns the model of that name.
func (s Server[T]) Get(key string) Model[T] { return Model[T]{s.d, key} }

func (m Model[T]) String() string { return m.d.name + "/" + m.key }

func (m Model[T]) shard(i int) grains.Grain[shard[T]] {
	return m.d.kind.Get(fmt.Sprintf("%s/%d", m.key, i))
}

// span is shard i's range of a vector of n.
func (d *definition[T]) span(n, i int) (lo, hi int) { return n * i / d.shards, n * (i + 1) / d.shards }

// each runs call on every shard at once and collects what they answer, and the first error.
func each[T Float, R any](ctx context.Context, m Model[T], verb string, call func(i int, g grains.Grain[shard[T]]) raysys.Ref[R]) ([]R, error) {
	refs := make([]raysys.Ref[R], m.d.shards)
	for i := range refs {
		refs[i] = call(i, m.shard(i))
	}
	vs, err := raysys.GetAll(ctx, refs).Values()
	if err != nil {
		return nil, fmt.Errorf("%s %v: %w", verb, m, err)
	}
	return vs, nil
}

// Init gives the model weights and says how it learns, whatever it was before. Its version is the first of a new run.
func (m Model[T]) Init(ctx context.Context, weights []T, cfg Config) error {
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("init %v: %w", m, err)
	}
	run := rand.Uint64() | 1 // the zero Version is that of no run
	weights = append([]T{}, weights...)
	_, err := each(ctx, m, "init", func(i int, g grains.Grain[shard[T]]) grains.Done {
		lo, hi := m.d.span(len(weights), i)
		return m.d.init.Call(ctx, g, beginning[T]{Run: run, Total: len(weights), Weights: weights[lo:hi:hi], Config: cfg})
	})
	return err
}

// Drop forgets the weights.
func (m Model[T]) Drop(ctx context.Context) error {
	_, err := each(ctx, m, "drop", func(_ int, g grains.Grain[shard[T]]) grains.Done { return m.d.drop.Call(ctx, g) })
	return err
}

// Expect changes how many pushes make a step of a synchronous model, from the round in progress on: after a worker was
// lost for good, or others came.
func (m Model[T]) Expect(ctx context.Context, workers int) error {
	if workers < 1 {
		return fmt.Errorf("expect %v: %w: %d workers", m, ErrConfig, workers)
	}
	_, err := each(ctx, m, "expect", func(_ int, g grains.Grain[shard[T]]) grains.Done { return m.d.expect.Call(ctx, g, workers) })
	return err
}

// Status returns how each shard stands.
func (m Model[T]) Status(ctx context.Context) ([]Status, error) {
	return each(ctx, m, "status", func(_ int, g grains.Grain[shard[T]]) raysys.Ref[Status] { return m.d.status.Call(ctx, g) })
}
