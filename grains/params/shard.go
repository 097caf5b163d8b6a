package params

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/internal/promise"
)

// Version names one state of a model's weights: which Init they come from, and how many steps they have made since.
type Version struct{ Run, Step uint64 }

// Config is how a model learns.
type Config struct {
	Optimizer Optimizer
	// Workers is how many pushes make a step, each of another worker and for the same version. 0: each push is a step.
	Workers int
	// Staleness refuses asynchronous pushes whose gradient was computed on weights that are more steps old than this.
	// 0: no bound.
	Staleness uint64
}

func (c Config) validate() error {
	switch {
	case c.Workers < 0:
		return fmt.Errorf("%w: %d workers: give 0 for asynchronous steps, or more", ErrConfig, c.Workers)
	case c.Workers > 0 && c.Staleness > 0:
		return fmt.Errorf("%w: a bound on staleness is for asynchronous steps; with Workers only the current version counts", ErrConfig)
	}
	return c.Optimizer.validate()
}

// shard is one range of a model's weights.
type shard[T Float] struct {
	root   promise.Root
	cfg    Config
	total  int // weights of the whole model
	at     Version
	weight []T
	lent   bool            // weight may be read by others, so the next step writes elsewhere
	object raysys.Ref[[]T] // weight as an object, once a worker asked for it whole
	memory memory[T]

	pushes map[int][]T // of the current round, by worker
	last   []int       // workers whose pushes made the last step
	next   *promise.Promise[Version]
}

// beginning is the argument of init.
type beginning[T Float] struct {
	Run     uint64
	Total   int // of the whole model
	Weights []T
	Config  Config
}

// gradient is one shard's part of a push.
type gradient[T Float] struct {
	At     Version
	Worker int
	Total  int // of the whole push, so that all shards refuse one of a wrong length
	Values []T
}

// question asks for what differs from Have.
type question struct {
	Have   Version
	Lo, Hi int // in the shard
}

// answer holds the weights in one of two forms, or neither when Have is the current version.
type answer[T Float] struct {
	At     Version
	Len    int // of the whole shard
	Values []T
	Object raysys.Handle[[]T]
}

// inline is the size in bytes up to which weights travel inside the answer.
const inline = 60 << 10

func sizeOf[T Float](n int) int {
	var x T
	return n * int(unsafe.Sizeof(x))
}

func (s *shard[T]) ready() error {
	if s.root.IsZero() {
		return ErrNoModel
	}
	return nil
}

func (s *shard[T]) init(ctx context.Context, b beginning[T]) (err error) {
	if s.next != nil {
		s.next.Settle(Version{Run: b.Run}) // calls that wait for a step of the last run find another run
	}
	if s.root, err = promise.Of(ctx); err != nil {
		return err
	}
	s.cfg, s.total, s.at, s.weight, s.lent = b.Config, b.Total, Version{Run: b.Run}, b.Weights, true
	s.memory, s.last = memory[T]{}, nil
	s.object = raysys.Ref[[]T]{}
	s.begin()
	return nil
}

// begin begins a round.
func (s *shard[T]) begin() {
	s.pushes = map[int][]T{}
	s.next = promise.New[Version](s.root, "step of a model")
}

func (s *shard[T]) pull(_ context.Context, q question) (answer[T], error) {
	a := answer[T]{At: s.at, Len: len(s.weight)}
	if err := s.ready(); err != nil {
		return a, err
	}
	if q.Have == s.at {
		return a, nil
	}
	lo, hi := max(q.Lo, 0), min(q.Hi, len(s.weight))
	if lo >= hi {
		return a, nil
	}
	if sizeOf[T](hi-lo) <= inline {
		a.Values, s.lent = s.weight[lo:hi:hi], true
		return a, nil
	}
	if hi-lo < len(s.weight) {
		a.Object = raysys.Put(s.root.Context(), slices.Clone(s.weight[lo:hi])).Handle()
		return a, nil
	}
	// All workers that pull this version share one object.
	if s.object.IsZero() {
		s.object, s.lent = raysys.Put(s.root.Context(), s.weight), true
	}
	a.Object = s.object.Handle()
	return a, nil
}

// push takes a gradient and returns what settles with the version after the step it counts for.
func (s *shard[T]) push(_ context.Context, g gradient[T]) (h raysys.Handle[Version], err error) {
	switch err = s.ready(); {
	case err != nil:
		return h, err
	case g.At.Run != s.at.Run:
		return h, fmt.Errorf("%w: the gradient belongs to another Init", ErrStale)
	case g.Total != s.total || len(g.Values) != len(s.weight):
		return h, fmt.Errorf("%w: a gradient of %d elements for %d weights", ErrLength, g.Total, s.total)
	case g.At.Step > s.at.Step:
		return h, fmt.Errorf("%w: the gradient is for step %d, and the weights have made %d", ErrStale, g.At.Step, s.at.Step)
	case s.cfg.Workers == 0:
		if old := s.at.Step - g.At.Step; s.cfg.Staleness > 0 && old > s.cfg.Staleness {
			return h, fmt.Errorf("%w: the gradient is %d steps old, and at most %d are allowed", ErrStale, old, s.cfg.Staleness)
		}
		done := s.next
		s.step(g.Values)
		return done.Handle(), nil
	case g.At.Step+1 == s.at.Step && slices.Contains(s.last, g.Worker):
		// It counted already: its sender did not hear of it.
		done := promise.New[Version](s.root, "step of a model")
		done.Settle(s.at)
		return done.Handle(), nil
	case g.At.Step < s.at.Step:
		return h, fmt.Errorf("%w: the gradient is for step %d, and step %d is made", ErrStale, g.At.Step, s.at.Step)
	}
	if before, ok := s.pushes[g.Worker]; ok && !same(before, g.Values) {
		return h, fmt.Errorf("%w: %d, for step %d", ErrWorker, g.Worker, g.At.Step)
	}
	s.pushes[g.Worker] = g.Values
	done := s.next
	s.complete()
	return done.Handle(), nil
}

// same compares NaN as equal: the same computation gives them again.
func same[T Float](a, b []T) bool {
	return slices.EqualFunc(a, b, func(x, y T) bool { return x == y || x != x && y != y })
}

// complete makes the step when the round has its pushes.
func (s *shard[T]) complete() {
	if len(s.pushes) < s.cfg.Workers || len(s.pushes) == 0 {
		return
	}
	workers := slices.Sorted(maps.Keys(s.pushes))
	mean := make([]T, len(s.weight))
	for _, w := range workers {
		for i, x := range s.pushes[w] {
			mean[i] += x
		}
	}
	n := T(len(workers))
	for i := range mean {
		mean[i] /= n
	}
	s.last = workers
	s.step(mean)
}

// step applies a gradient and begins the next round.
func (s *shard[T]) step(g []T) {
	dst := s.weight
	if s.lent {
		dst = make([]T, len(s.weight))
	}
	s.at.Step++
	step(s.cfg.Optimizer, dst, s.weight, g, &s.memory, s.at.Step)
	s.weight, s.lent, s.object = dst, false, raysys.Ref[[]T]{}
	done := s.next
	s.begin()
	done.Settle(s.at)
}

// expect changes how many pushes make a step.
func (s *shard[T]) expect(_ context.Context, workers int) error {
	switch err := s.ready(); {
	case err != nil:
		return err
	case s.cfg.Workers == 0:
		return fmt.Errorf("%w: the model is asynchronous", ErrConfig)
	}
	s.cfg.Workers = workers
	s.complete()
	return nil
}

// await returns what settles when there is a later version than have.
func (s *shard[T]) await(_ context.Context, have Version) (raysys.Handle[Version], error) {
	if err := s.ready(); err != nil {
		return raysys.Handle[Version]{}, err
	}
	if have != s.at {
		done := promise.New[Version](s.root, "step of a model")
		done.Settle(s.at)
		return done.Handle(), nil
	}
	return s.next.Handle(), nil
}

// Status is how a shard stands.
type Status struct {
	Version Version
	Len     int
	Workers int   // pushes that make a step, 0 where each does
	In      []int // workers that have pushed in the current round
}

func (s *shard[T]) status(context.Context) (Status, error) {
	if err := s.ready(); err != nil {
		return Status{}, err
	}
	return Status{Version: s.at, Len: len(s.weight), Workers: s.cfg.Workers, In: slices.Sorted(maps.Keys(s.pushes))}, nil
}

// OnDeactivate implements grains.Deactivator: calls that wait for a step get the error that none will come.
func (s *shard[T]) OnDeactivate(context.Context) error {
	if s.next != nil {
		s.next.Settle(Version{})
	}
	return nil
}
