package train

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/raysys/raysys"
)

// attempts is how often a call is made whose device failed, or whose node was lost.
const attempts = 5

// Run has the trainer of that name make steps until it has made so many, and reports after each call. On a node with a GPU it
// holds one; where no node has one that can be used, the CPU trains. A name that has begun on a GPU stays with GPUs: while none can be
// had Run fails, and the same name goes on later.
func Run(ctx context.Context, name string, job Job, steps int, report func(Progress)) (Progress, error) {
	with := []raysys.Option{raysys.Retries(attempts), raysys.RetryIf(func(err error) bool { return errors.Is(err, ErrDevice) })}
	begin := func(h handles) (Progress, error) {
		return h.begin.With(with...).Call(ctx, h.kind.Get(name), job).Get(ctx)
	}
	h := onDevice
	p, err := begin(h)
	if without := err; errors.Is(err, raysys.ErrNoCapacity) || errors.Is(err, ErrUnusable) || errors.Is(err, ErrElsewhere) {
		h = onCPU
		if p, err = begin(h); errors.Is(err, ErrElsewhere) {
			return p, fmt.Errorf("%w, and no GPU can be had now: run it again when one can: %w", err, without)
		} else if err == nil {
			log.Printf("gpu: no GPU is used, the CPU trains: %v", without)
		}
	}
	for err == nil && p.Step < steps {
		if p, err = h.step.With(with...).Call(ctx, h.kind.Get(name), steps).Get(ctx); err == nil {
			report(p)
		}
	}
	return p, err
}
