package core

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Options are how one submission differs from the default; With on a task or a method fills them.
type Options struct {
	Resources Resources // of a task; the default is one CPU
	Sized     bool      // Resources were given
	Retried   bool      // Retries, RetryIf or Backoff were given
	Retries   int       // further attempts after the first, for errors RetryIf accepts
	RetryIf   func(error) bool
	BackoffLo time.Duration // pause before the first retry; doubles, with jitter, up to BackoffHi
	BackoffHi time.Duration
	Deadline  time.Duration // from submission; 0 leaves the default (tasks none, grain calls 30 s)
	NoLimit   bool          // no deadline at all
	Detached  bool
	Name      string            // of a detached task; "" without
	Key       string            // of a call of a durable grain
	Strategy  string            // "" leaves the default, Balanced
	Labels    map[string]string // a node must have them all
	// Conditions are the nodes where it must be, or must not be, and which it prefers; beside Labels.
	Conditions []Condition
	Waits      bool   // for a node that has what no node has yet
	Class      Class  // of a task; counts where Classed
	Classed    bool   // Class was given; else it is that of the turn that submits
	Bundle     Bundle // what the resources are taken from; zero for the node
	Err        error  // the first option that cannot be meant
}

// Option is raysys.Option: it changes one submission.
type Option func(*Options)

// NewOptions applies opts to the defaults.
func NewOptions[O ~func(*Options)](opts []O) Options {
	return With(Options{
		Resources: Resources{CPU: 1}, Retries: 3,
		BackoffLo: 10 * time.Millisecond, BackoffHi: time.Second,
	}, opts)
}

// With applies opts to a copy of o: what they do not name stays.
func With[O ~func(*Options)](o Options, opts []O) Options {
	for _, f := range opts {
		if f == nil {
			o.Fail(fmt.Errorf("%w: nil Option", ErrBadOption))
			continue
		}
		f(&o)
	}
	if err := errors.Join(o.Resources.ValidateWanted(), o.Resources.Meant()); err != nil {
		o.Fail(err)
	}
	return o
}

// Fail records the error of an option; the first counts.
func (o *Options) Fail(err error) {
	if o.Err == nil {
		o.Err = err
	}
}

// Pause returns the wait before the attempt that follows attempt number n (1 is the first), for a draw r in [0,1).
func (o *Options) Pause(n int, r float64) time.Duration {
	d := float64(o.BackoffLo) * math.Pow(2, float64(min(n-1, 40)))
	d = min(d, float64(o.BackoffHi))
	return time.Duration(d * (1 - r/2))
}

// FiringKey begins the Key of a firing: package schedule appends the schedule's name, a space and the due time.
const FiringKey = "schedule "

// Packed is a task or a call of a grain as data, which is made later, and maybe by another node: see Pack of the engines.
type Packed struct {
	Function string // of the entry
	Opts     Options
	ReadOnly bool // as the handle declares it
	Again    bool // the handle is Idempotent
	Comes    bool // and Reentrant
	Keyed    bool // a Key may be given: each call is a transaction
	Arg      []byte
}
