package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/raysys/raysys/examples/cartpole/ppo"
	"github.com/raysys/raysys/system"
)

// closeGrace is how long an ended run waits for rollouts that are still on their way: they take hundredths of a second.
const closeGrace = 10 * time.Second

// Run learns and serves on a node of its own, configured by RAYSYS_* but for the seed. It writes the report to stdout,
// and to stderr how it goes. The error matches ErrUsage when options or variables cannot be meant, ErrNotLearned when the
// goal was not reached, and carries the cause of ctx's end when that came first; then stdout stays empty.
func Run(ctx context.Context, o Options, stdout, stderr io.Writer) error {
	if err := o.Validate(); err != nil {
		return err
	}
	cfg, err := system.FromEnv()
	if err != nil {
		return usageError{err}
	}
	cfg.Seed = o.Seed
	node, err := system.New(cfg)
	if err != nil {
		return usageError{err}
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	p := newProgress(stderr)
	report, err := play(node.Context(ctx), o, p)
	p.end()
	if err != nil && ctx.Err() != nil {
		// What a call met of the end is the node's business, not the user's.
		err = fmt.Errorf("stopped: %w", context.Cause(ctx))
	}
	grace, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	if err := errors.Join(err, node.Close(grace)); err != nil {
		return err
	}
	return report.Write(stdout, o.Form)
}

// play is Run on a runtime that is there.
func play(ctx context.Context, o Options, p *progress) (Report, error) {
	learned, err := Learn(ctx, o, func(s ppo.Stats) { p.learning(s, o.goal()) })
	if err != nil {
		return Report{}, err
	}
	served, err := Serve(ctx, learned.Weights, o, func(d time.Duration) { p.serving(d, o.Serve) })
	if err != nil {
		return Report{}, err
	}
	return newReport(o.Seed, learned, served), nil
}
