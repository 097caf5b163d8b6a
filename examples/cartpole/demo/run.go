package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/raysys/raysys/system"
)

// Run learns and serves on a node of its own, configured by RAYSYS_* but for the seed: alone everything runs in this
// process, in a cluster the work is done by its workers. It writes the report to stdout, and to stderr how it goes. The
// error matches ErrUsage when options or variables cannot be meant, ErrNotLearned when the goal was not reached, and
// carries the cause of ctx's end when that came first; then stdout stays empty.
//
// A worker (RAYSYS_ROLE, which raysys node sets) learns nothing by itself: it serves those that do until ctx ends or an
// operator asks it to leave.
func Run(ctx context.Context, o Options, stdout, stderr io.Writer) error {
	if err := o.Validate(); err != nil {
		return err
	}
	cfg, err := system.FromEnv()
	if err != nil {
		return usageError{err}
	}
	cfg.Seed = o.Seed
	var report *Report
	err = system.Run(ctx, cfg, func(ctx context.Context) error {
		p := newProgress(stderr)
		defer p.end()
		r, err := play(ctx, o, p)
		if err != nil && ctx.Err() != nil {
			// The error of a call that the end of the node caused tells the user nothing.
			return fmt.Errorf("stopped: %w", context.Cause(ctx))
		}
		report = &r
		return err
	})
	switch {
	case errors.Is(err, system.ErrConfig):
		return usageError{err}
	case err != nil || report == nil: // a worker has none
		return err
	}
	return report.Write(stdout, o.Form)
}

// play is Run on a runtime that is there.
func play(ctx context.Context, o Options, p *progress) (Report, error) {
	learned, err := Learn(ctx, o, func(s Stats) { p.learning(s, o.goal()) })
	if err != nil {
		return Report{}, err
	}
	served, err := Serve(ctx, learned.Weights, o, func(d time.Duration) { p.serving(d, o.Serve) })
	if err != nil {
		return Report{}, err
	}
	return newReport(o.Seed, learned, served), nil
}
