package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
)

// Overlap says what becomes of a time that is due while the last firing runs: it is an Option.
type Overlap uint8

const (
	// Skip leaves it out, and counts it. It is the default.
	Skip Overlap = iota
	// Queue has one wait until the last has ended; others are left out.
	Queue
	// Allow fires it beside the last, up to 1,000 at a time.
	Allow
)

func (o Overlap) String() string { return [...]string{"skip", "queue", "allow"}[min(o, Allow)] }

// Option changes a schedule: Call and Task take it.
type Option interface{ apply(*setting) }

// spec is what a program says of a schedule.
type spec struct {
	When    stored
	Overlap Overlap       `json:",omitzero"`
	CatchUp int           `json:",omitzero"`
	Jitter  time.Duration `json:",omitzero"`
	Work    work
}

type setting struct {
	spec
	paused bool
}

func (o Overlap) apply(s *setting) { s.Overlap = o }

type optionFunc func(*setting)

func (f optionFunc) apply(s *setting) { f(s) }

// CatchUp says how many times of an outage are made. The time that was due first always is, since it may have begun. Of the
// others the newest n are made, in their order; the rest is missed ("late"). n is 1 unless set: the first and the newest.
// With Allow and CatchUp(1000) every due time of an outage is made, up to 1,000. CatchUp(0) is the one exception: it misses
// each time that is a minute late, also one that may have run: Firing.Missed then
// counts what was made. A bill needs 1 or more.
func CatchUp(n int) Option { return optionFunc(func(s *setting) { s.CatchUp = n }) }

// Jitter has a schedule fire up to d later, by a hash of its name, so that many that are due at one time do not fire at once.
func Jitter(d time.Duration) Option { return optionFunc(func(s *setting) { s.Jitter = d }) }

// Paused has a schedule begin with a pause. It changes none that is there.
func Paused() Option { return optionFunc(func(s *setting) { s.paused = true }) }

// settingOf is what a program says of a schedule.
func settingOf(w When, opts []Option) (s setting, err error) {
	s.When, s.CatchUp = w.stored(), 1
	for _, o := range opts {
		if o == nil {
			err = errors.Join(err, errors.New("nil Option"))
			continue
		}
		o.apply(&s)
	}
	if err = errors.Join(err, s.check(w)); err != nil && !errors.Is(err, raysys.ErrBadOption) {
		err = fmt.Errorf("%w: %w", raysys.ErrBadOption, err)
	}
	return s, err
}

// check says what is wrong with a specification, beside its work.
func (s *spec) check(w When) error {
	_, err := w.Next(time.Time{})
	bad := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(format, args...)) }
	if s.Overlap > Allow {
		bad("Overlap %d: give Skip, Queue or Allow", s.Overlap)
	}
	if s.CatchUp < 0 || s.CatchUp > maxRunning {
		bad("CatchUp(%d): give 0 to %d", s.CatchUp, maxRunning)
	}
	if s.Jitter < 0 {
		bad("Jitter(%v): give a positive duration", s.Jitter)
	}
	return err
}

// same reports whether two specifications are one.
func (s *spec) same(o *spec) bool {
	a, errA := json.Marshal(s)
	b, errB := json.Marshal(o)
	return errA == nil && errB == nil && string(a) == string(b)
}

// work is what a schedule does: a call of a grain, or a task.
type work struct {
	Kind     string `json:",omitzero"` // of the grain; "" for a task
	Key      text   `json:",omitzero"`
	Function string
	ReadOnly bool            `json:",omitzero"`
	Again    bool            `json:",omitzero"`
	Comes    bool            `json:",omitzero"`
	Keyed    bool            `json:",omitzero"`
	Opts     json.RawMessage `json:",omitempty"` // nil: the default
	Arg      []byte          `json:",omitempty"`
}

// text is bytes that a program chose. A string of JSON holds those alone that are UTF-8: others are written in base64.
type text string

// MarshalJSON implements json.Marshaler.
func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(struct{ Base64 []byte }{[]byte(t)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var b struct{ Base64 []byte }
		err := json.Unmarshal(data, &b)
		*t = text(b.Base64)
		return err
	}
	return json.Unmarshal(data, (*string)(t))
}

// MaxArgument is the most bytes that the argument of a schedule has.
const MaxArgument = 16 << 10

// maxOptions bounds options: with them, the longest argument and a thousand firings that are tried again a record fits its 128 KiB.
const maxOptions = 3 << 10

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
	case o.Key != "" || o.FirstMade != 0:
		return bad("Key and FirstMade: a schedule gives each firing a key of its own")
	case o.Detached:
		return bad("Detached: a schedule is detached, and names its tasks")
	}
	w = work{Kind: g.Kind, Key: text(g.Key), Function: p.Function, ReadOnly: p.ReadOnly, Again: p.Again, Comes: p.Comes, Keyed: p.Keyed, Arg: p.Arg}
	if w.Opts, err = core.PackOptions(o); err != nil {
		return bad(err.Error())
	}
	if len(w.Opts) > maxOptions {
		return w, fmt.Errorf("%w: %s: options of %d bytes encoded: a schedule has %d at most", raysys.ErrTooLarge, p.Function, len(w.Opts), maxOptions)
	}
	return w, nil
}

// check says what is wrong with stored work.
func (w *work) check() error {
	switch {
	case w.Function == "":
		return errors.New("the work has no function")
	case w.Kind != "" && !strings.HasPrefix(w.Function, w.Kind+"."):
		return fmt.Errorf("the function %.100q is no method of the kind %.100q", w.Function, w.Kind)
	case len(w.Key) > grainengine.MaxKey:
		return fmt.Errorf("the key of the grain has %d bytes, at most %d are allowed", len(w.Key), grainengine.MaxKey)
	}
	return nil
}

// packed is the reverse.
func (w *work) packed() (*core.Packed, error) {
	o, err := core.UnpackOptions(w.Opts)
	if err != nil {
		return nil, fmt.Errorf("the options of %s: %w", w.Function, err)
	}
	return &core.Packed{Function: w.Function, Opts: o, ReadOnly: w.ReadOnly, Again: w.Again, Comes: w.Comes, Keyed: w.Keyed, Arg: w.Arg}, nil
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
	return grains.ID{Kind: w.Kind, Key: string(w.Key)}.String() + w.Function[len(w.Kind):]
}
