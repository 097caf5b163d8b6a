package demo

import (
	"errors"
	"fmt"
	"time"
)

// ErrUsage is the state of options, or of RAYSYS_* variables, that cannot be meant.
var ErrUsage = errors.New("bad usage")

// usageError matches ErrUsage and reads as what is wrong alone.
type usageError struct{ error }

func (e usageError) Is(target error) bool { return target == ErrUsage }
func (e usageError) Unwrap() error        { return e.error }

// Options are what a run may be told. Start from Defaults, or let Bind make flags of them.
type Options struct {
	// Seed decides the whole run: the task ids, every rollout, every update. Positive, since a node takes 0 for a
	// random one.
	Seed uint64

	// Steps is the budget of environment steps to learn within.
	Steps int

	// Serve is how long the policy is served.
	Serve time.Duration

	// Goal is the mean return from which the task counts as learned. 0: that of CartPole-v1, 475.
	Goal float64

	// Form is how the report is written.
	Form Form
}

// Defaults returns seed 1, 100,000 steps and two seconds of serving, reported as text. The algorithm needs 19,000 to
// 30,000 steps; two seconds are some hundred thousand requests, so that p99 rests on thousands.
func Defaults() Options {
	return Options{Seed: 1, Steps: 100_000, Serve: 2 * time.Second, Form: Text}
}

// Flags is what the flag sets of the standard library and of pflag have in common.
type Flags interface {
	Uint64Var(p *uint64, name string, value uint64, usage string)
	IntVar(p *int, name string, value int, usage string)
	DurationVar(p *time.Duration, name string, value time.Duration, usage string)
}

// Bind makes flags seed, steps and serve of o, with its present values as their defaults. Form is a flag.Value and a
// pflag.Value itself, whose two sets do not agree on a shorthand.
func (o *Options) Bind(f Flags) {
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of the run: the same one repeats it")
	f.IntVar(&o.Steps, "steps", o.Steps, "environment steps to learn within")
	f.DurationVar(&o.Serve, "serve", o.Serve, "how long to serve the policy")
}

// Validate reports, as ErrUsage, the first option that cannot be meant.
func (o Options) Validate() error {
	bad := func(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }
	switch {
	case o.Seed == 0:
		return bad("seed is 0: give 1 or more")
	case o.Steps < 1:
		return bad("steps is %d: give 1 or more", o.Steps)
	case o.Serve <= 0:
		return bad("serve is %v: give a positive duration, such as 2s", o.Serve)
	case !(o.Goal >= 0): // NaN too
		return bad("goal is %v: give 0 (the environment's) or more", o.Goal)
	case o.Form != Text && o.Form != JSON:
		return bad("form is %q: %w", string(o.Form), errForm)
	}
	return nil
}

func (o Options) goal() float64 {
	if o.Goal == 0 {
		return spec.Threshold
	}
	return o.Goal
}

// Form is how the report is written.
type Form string

// The forms of a report.
const (
	Text Form = "text"
	JSON Form = "json"
)

var errForm = errors.New("the forms are text and json")

// String implements flag.Value.
func (f *Form) String() string { return string(*f) }

// Set implements flag.Value.
func (f *Form) Set(s string) error {
	if Form(s) != Text && Form(s) != JSON {
		return errForm
	}
	*f = Form(s)
	return nil
}

// Type implements pflag.Value: it names the value in the help text.
func (f *Form) Type() string { return "text|json" }
