package train

import (
	"context"
	"errors"

	"github.com/raysys/raysys"
)

// attempts is how often a call is made whose device failed, or whose node was lost.
const attempts = 5

// Run has the trainer of that name make steps until it has made so many, and reports after each call. On a node with a GPU it
// holds one; where no node has one, the CPU trains.
func Run(ctx context.Context, name string, job Job, steps int, report func(Progress)) (Progress, error) {
	with := []raysys.Option{raysys.Retries(attempts), raysys.RetryIf(func(err error) bool { return errors.Is(err, ErrDevice) })}
	h := onDevice
	p, err := h.begin.With(with...).Call(ctx, h.kind.Get(name), job).Get(ctx)
	if errors.Is(err, raysys.ErrNoCapacity) {
		h = onCPU // which says so
		p, err = h.begin.With(with...).Call(ctx, h.kind.Get(name), job).Get(ctx)
	}
	for err == nil && p.Step < steps {
		if p, err = h.step.With(with...).Call(ctx, h.kind.Get(name), steps).Get(ctx); err == nil {
			report(p)
		}
	}
	return p, err
}
