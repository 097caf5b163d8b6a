package collective

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
)

// Group is a kind of group, whose ranks work on vectors of T. Make it once, in a package variable.
type Group[T Number] struct{ d *definition[T] }

// Option changes a kind of group.
type Option func(*options) error

type options struct{ patience time.Duration }

// defaultPatience is that of a grain call.
const defaultPatience = 30 * time.Second

// longIdle keeps the grains of a group in memory between two rounds, however long these take: what they know is not
// stored. They go when the group does.
const longIdle = 365 * 24 * time.Hour

// Patience is how long a rank waits for the others in one operation, and in Join, where its ctx allows more: 30 s unless
// set.
func Patience(d time.Duration) Option {
	return func(o *options) error {
		if d <= 0 {
			return fmt.Errorf("Patience(%v): give a positive duration", d)
		}
		o.patience = d
		return nil
	}
}

// definition is what all handles of a kind of group share: its two kinds of grains and their methods.
type definition[T Number] struct {
	name     string
	patience time.Duration

	seats grains.Kind[seat[T]]
	enter grains.Func[seat[T], entry, raysys.Handle[RoundError]]
	begin grains.Act[seat[T], beginning]
	start grains.Func[seat[T], request[T], raysys.Handle[outcome[T]]]
	take  grains.Act[seat[T], part[T]]
	hand  grains.Act[seat[T], handed[T]]
	hold  grains.Func[seat[T], part[T], reply[T]]
	knock grains.Func[seat[T], part[T], reply[T]] // hold, for a Member
	hear  grains.Act[seat[T], rumour]

	rosters  grains.Kind[roster[T]]
	join     grains.Func[roster[T], application, raysys.Handle[admission]]
	withdraw grains.Act[roster[T], string]
	notice   grains.Act[roster[T], string]
}

// Define makes a kind of group under name, in the process-wide table. A bad definition is reported by system.New.
func Define[T Number](name string, opts ...Option) Group[T] {
	return define[T](raysys.DefaultTable, name, opts)
}

// DefineIn is Define in a table of your own, for tests.
func DefineIn[T Number](t *raysys.Table, name string, opts ...Option) Group[T] {
	return define[T](t, name, opts)
}

func define[T Number](t *raysys.Table, name string, opts []Option) Group[T] {
	o := options{patience: defaultPatience}
	var bad error
	for _, opt := range opts {
		if opt == nil {
			bad = errors.Join(bad, errors.New("nil Option"))
			continue
		}
		bad = errors.Join(bad, opt(&o))
	}
	if bad != nil {
		t.Add("group", name, 0, bad, 2)
	}
	kind := []grains.Option{grains.IdleAfter(longIdle), grains.PlaceBy(raysys.PreferLocal)}
	d := &definition[T]{name: name, patience: o.patience}
	d.seats = grains.DefineIn[seat[T]](t, name+".seat", kind...)
	d.enter = grains.Method(d.seats, "enter", func(s *seat[T], ctx context.Context, e entry) (raysys.Handle[RoundError], error) {
		return s.enter(ctx, d, e)
	})
	d.begin = grains.Action(d.seats, "begin", (*seat[T]).begin)
	d.start = grains.Method(d.seats, "start", (*seat[T]).start)
	forever := raysys.NoDeadline() // the patience of the ranks bounds a round
	d.take = grains.Action(d.seats, "take", (*seat[T]).take).Idempotent().With(forever)
	d.hand = grains.Action(d.seats, "hand", (*seat[T]).hand).Idempotent().With(forever)
	d.hold = grains.Method(d.seats, "hold", (*seat[T]).hold).Idempotent().With(forever)
	d.knock = d.hold.With(raysys.Deadline(o.patience))
	d.hear = grains.Action(d.seats, "hear", (*seat[T]).hear).With(forever)

	d.rosters = grains.DefineIn[roster[T]](t, name, kind...)
	d.join = grains.Method(d.rosters, "join", func(r *roster[T], ctx context.Context, a application) (raysys.Handle[admission], error) {
		return r.join(ctx, d, a)
	})
	d.withdraw = grains.Action(d.rosters, "withdraw", (*roster[T]).withdraw)
	d.notice = grains.Action(d.rosters, "notice", (*roster[T]).notice).With(forever)
	return Group[T]{d}
}
