package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
)

// Overlap says what becomes of a time that is due while the last firing runs: it is an Option.
type Overlap uint8

const (
	// Skip leaves it out, and counts it. It is the default.
	Skip Overlap = iota
	// Queue has one wait until the last has ended; others are left out.
	Queue
	// Allow has it fire beside the last.
	Allow
)

func (o Overlap) String() string { return [...]string{"skip", "queue", "allow"}[min(o, Allow)] }

// Option changes a schedule: Call and Task take it.
type Option interface{ apply(*setting) error }

type setting struct {
	spec
	paused bool
}

func (o Overlap) apply(s *setting) error {
	if o > Allow {
		return fmt.Errorf("Overlap %d: give Skip, Queue or Allow", o)
	}
	s.Overlap = o
	return nil
}

type optionFunc func(*setting) error

func (f optionFunc) apply(s *setting) error { return f(s) }

// CatchUp is how many of the times that were missed while nothing ran are made up for: the newest n, in their order. It is 1 unless set. With 0 a
// time that is a minute late is left out.
func CatchUp(n int) Option {
	return optionFunc(func(s *setting) error {
		if n < 0 || n > maxRunning {
			return fmt.Errorf("CatchUp(%d): give 0 to %d", n, maxRunning)
		}
		s.CatchUp = n
		return nil
	})
}

// Jitter has a schedule fire up to d later, by a hash of its name, so that many that are due at one time do not fire at once.
func Jitter(d time.Duration) Option {
	return optionFunc(func(s *setting) error {
		if d < 0 {
			return fmt.Errorf("Jitter(%v): give a positive duration", d)
		}
		s.Jitter = d
		return nil
	})
}

// Paused has a schedule begin with a pause. It changes none that is there.
func Paused() Option {
	return optionFunc(func(s *setting) error { s.paused = true; return nil })
}

// settingOf is what a program says of a schedule.
func settingOf(w When, opts []Option) (s setting, err error) {
	if _, err := w.Next(time.Time{}); err != nil {
		return s, err
	}
	s.When, s.CatchUp = w.stored(), 1
	for _, o := range opts {
		if o == nil {
			err = errors.Join(err, errors.New("nil Option"))
			continue
		}
		err = errors.Join(err, o.apply(&s))
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", raysys.ErrBadOption, err)
	}
	return s, err
}

// work is what a schedule does: a call of a grain, or a task.
type work struct {
	Kind     string `json:",omitzero"` // of the grain; "" for a task
	Key      string `json:",omitzero"`
	Function string
	ReadOnly bool            `json:",omitzero"`
	Again    bool            `json:",omitzero"`
	Comes    bool            `json:",omitzero"`
	Keyed    bool            `json:",omitzero"`
	Opts     json.RawMessage `json:",omitempty"` // nil: the default
	Arg      []byte          `json:",omitempty"`
}

// MaxArgument is the most bytes that the argument of a schedule has.
const MaxArgument = 16 << 10

// portable are options as data. What cannot travel hides that of core.Options.
type portable struct {
	core.Options
	RetryIf, Err *struct{} `json:",omitempty"`
}

// workOf is what p does.
func workOf(p core.Packed, g grains.ID) (w work, err error) {
	o := &p.Opts
	bad := func(what string) (work, error) {
		return w, fmt.Errorf("%w: %s: %s", raysys.ErrBadOption, p.Function, what)
	}
	switch {
	case len(p.Arg) > MaxArgument:
		return w, fmt.Errorf("%w: %s: an argument of %d bytes encoded: a schedule has %d at most: store the value, and give its name", raysys.ErrTooLarge, p.Function, len(p.Arg), MaxArgument)
	case o.RetryIf != nil:
		return bad("RetryIf is a function of this process, and the schedule fires from others too: leave it out")
	case o.Key != "":
		return bad("Key: a schedule gives each firing a key of its own")
	case o.Detached:
		return bad("Detached: a schedule is detached, and names its tasks")
	}
	for _, c := range o.Conditions {
		if c.Value != nil {
			return bad("Near a value: the reference ends with its owner: give a grain, a label or nodes")
		}
	}
	w = work{Kind: g.Kind, Key: g.Key, Function: p.Function, ReadOnly: p.ReadOnly, Again: p.Again, Comes: p.Comes, Keyed: p.Keyed, Arg: p.Arg}
	usual, err := json.Marshal(portable{Options: core.NewOptions[core.Option](nil)})
	if err != nil {
		return w, err
	}
	if w.Opts, err = json.Marshal(portable{Options: *o}); string(w.Opts) == string(usual) {
		w.Opts = nil
	}
	return w, err
}

// packed is the reverse.
func (w *work) packed() (*core.Packed, error) {
	o := portable{Options: core.NewOptions[core.Option](nil)}
	if w.Opts != nil {
		if err := json.Unmarshal(w.Opts, &o); err != nil {
			return nil, fmt.Errorf("the options of %s: %w", w.Function, err)
		}
	}
	return &core.Packed{Function: w.Function, Opts: o.Options, ReadOnly: w.ReadOnly, Again: w.Again, Comes: w.Comes, Keyed: w.Keyed, Arg: w.Arg}, nil
}

// needs is the function that a worker must have, as placement names it.
func (w *work) needs() string {
	if w.Kind != "" {
		return "grain " + w.Kind
	}
	return "task " + w.Function
}

// String is the work as lists show it.
func (w *work) String() string {
	if w.Kind == "" {
		return w.Function
	}
	return grains.ID{Kind: w.Kind, Key: w.Key}.String() + w.Function[len(w.Kind):]
}
