package raysys

import (
	"fmt"
	"math"
	"time"
)

// Options are how one submission differs from the default; With on a task or a method fills them. For runtimes.
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
	Strategy  Strategy          // "" leaves the default, Balanced
	Labels    map[string]string // a node must have them all
	Err       error             // the first option that cannot be meant
}

// Option changes one submission. Options are shared by tasks and grains; With(options...) of a handle returns a
// handle to keep and reuse, which has these options beside those of the handle it came from.
type Option func(*Options)

// NewOptions applies opts to the defaults.
func NewOptions(opts []Option) Options {
	return Options{
		Resources: Resources{CPU: 1}, Retries: 3,
		BackoffLo: 10 * time.Millisecond, BackoffHi: time.Second,
	}.With(opts)
}

// With applies opts to a copy of o: what they do not name stays.
func (o Options) With(opts []Option) Options {
	for _, f := range opts {
		if f == nil {
			o.fail(fmt.Errorf("%w: nil Option", ErrBadOption))
			continue
		}
		f(&o)
	}
	if err := o.Resources.Validate(); err != nil {
		o.fail(err)
	}
	return o
}

func (o *Options) fail(err error) {
	if o.Err == nil {
		o.Err = err
	}
}

func (o *Options) sized() { o.Sized = true }

// CPU asks for n CPUs, 1 by default; 0 for work that only waits.
func CPU(n float64) Option { return func(o *Options) { o.sized(); o.Resources.CPU = n } }

// GPU asks for n accelerators, whole or a share of one.
func GPU(n float64) Option { return func(o *Options) { o.sized(); o.Resources.GPU = n } }

// Memory asks for bytes of memory.
func Memory(bytes int64) Option { return func(o *Options) { o.sized(); o.Resources.Memory = bytes } }

// Custom asks for n of the resource name, which some node must offer (system.Config.Resources).
func Custom(name string, n float64) Option {
	return func(o *Options) {
		o.sized()
		m := map[string]float64{name: n}
		for k, v := range o.Resources.Custom {
			if k != name {
				m[k] = v
			}
		}
		o.Resources.Custom = m
	}
}

// Retries sets how many attempts may follow the first: 3 unless set. Failures of the system are always retried;
// errors of the application only where RetryIf accepts them. Of grains, only calls of methods that are Idempotent take
// Retries, RetryIf and Backoff.
func Retries(n int) Option {
	return func(o *Options) {
		if n < 0 {
			o.fail(fmt.Errorf("%w: Retries(%d): give 0 or more", ErrBadOption, n))
			return
		}
		o.Retries, o.Retried = n, true
	}
}

// RetryIf makes application errors that accept returns true for count as worth another attempt. A panic reaches it
// as an error that matches ErrPanic.
func RetryIf(accept func(error) bool) Option {
	return func(o *Options) {
		if accept == nil {
			o.fail(fmt.Errorf("%w: RetryIf(nil): give a function", ErrBadOption))
			return
		}
		o.RetryIf, o.Retried = accept, true
	}
}

// Backoff sets the pause before retries: lo before the first, doubling up to hi, each with up to half of it taken off
// at random. The default is 10 ms to 1 s.
func Backoff(lo, hi time.Duration) Option {
	return func(o *Options) {
		if lo < 0 || hi < lo {
			o.fail(fmt.Errorf("%w: Backoff(%v, %v): give 0 <= lo <= hi", ErrBadOption, lo, hi))
			return
		}
		o.BackoffLo, o.BackoffHi, o.Retried = lo, hi, true
	}
}

// Deadline gives the work up d after its submission: its future fails with ErrDeadline, and its context ends. Tasks
// have none unless set, grain calls 30 s. NoDeadline takes a default away.
func Deadline(d time.Duration) Option {
	return func(o *Options) {
		if d <= 0 {
			o.fail(fmt.Errorf("%w: Deadline(%v): give a positive duration, or NoDeadline()", ErrBadOption, d))
			return
		}
		o.Deadline, o.NoLimit = d, false
	}
}

// NoDeadline lets a grain call take as long as it takes.
func NoDeadline() Option { return func(o *Options) { o.Deadline, o.NoLimit = 0, true } }

// Detached work is not cancelled with the context it was submitted under; it ends with the node, by Cancel or by its
// own deadline.
func Detached() Option { return func(o *Options) { o.Detached = true } }

// Pause returns the wait before the attempt that follows attempt number n (1 is the first), for a draw r in [0,1).
func (o *Options) Pause(n int, r float64) time.Duration {
	d := float64(o.BackoffLo) * math.Pow(2, float64(min(n-1, 40)))
	d = min(d, float64(o.BackoffHi))
	return time.Duration(d * (1 - r/2))
}
