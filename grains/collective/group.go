package collective

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
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

// Patience is how long a rank waits for the others in one operation, and in Join, where its ctx allows more: 30 s
// unless set.
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

	participants grains.Kind[participant[T]]
	enter        grains.Func[participant[T], entry, raysys.Handle[RoundError]]
	begin        grains.Act[participant[T], beginning]
	start        grains.Func[participant[T], request[T], outcome[T]]
	take         grains.Act[participant[T], part[T]]
	hand         grains.Act[participant[T], handed[T]]
	hold         grains.Func[participant[T], part[T], reply[T]]
	ask          grains.Func[participant[T], part[T], reply[T]] // hold, for a Member
	hear         grains.Act[participant[T], event]

	coordinators grains.Kind[coordinator[T]]
	join         grains.Func[coordinator[T], application, admission]
	withdraw     grains.Act[coordinator[T], string]
	notice       grains.Act[coordinator[T], string]
}

// Define makes a kind of group under name, in the process-wide table. A bad definition is reported by system.New.
func Define[T Number](name string, opts ...Option) Group[T] {
	return define[T](core.DefaultTable, name, opts)
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
	kind := []grains.Option{grains.IdleAfter(longIdle), grains.Placement(raysys.PreferLocal), grains.Unfiltered()}
	d := &definition[T]{name: name, patience: o.patience}
	d.participants = grains.DefineIn[participant[T]](t, name+".participant", kind...)
	d.enter = grains.Method(d.participants, "enter", func(s *participant[T], ctx context.Context, e entry) (raysys.Handle[RoundError], error) {
		return s.enter(ctx, d, e)
	})
	d.begin = grains.Action(d.participants, "begin", (*participant[T]).begin)
	forever := raysys.NoDeadline() // the patience of the ranks bounds a round
	d.start = grains.LaterMethod(d.participants, "start", (*participant[T]).start).With(forever)
	d.take = grains.Action(d.participants, "take", (*participant[T]).take).Idempotent().With(forever)
	d.hand = grains.Action(d.participants, "hand", (*participant[T]).hand).Idempotent().With(forever)
	d.hold = grains.LaterMethod(d.participants, "hold", (*participant[T]).hold).Idempotent().With(forever)
	d.ask = d.hold.With(raysys.Deadline(o.patience))
	d.hear = grains.Action(d.participants, "hear", (*participant[T]).hear).With(forever)

	d.coordinators = grains.DefineIn[coordinator[T]](t, name, kind...)
	d.join = grains.LaterMethod(d.coordinators, "join", func(r *coordinator[T], ctx context.Context, a application, l *grains.Later[admission]) error {
		return r.join(ctx, d, a, l)
	}).With(forever)
	d.withdraw = grains.Action(d.coordinators, "withdraw", (*coordinator[T]).withdraw)
	d.notice = grains.Action(d.coordinators, "notice", (*coordinator[T]).notice).With(forever)
	return Group[T]{d}
}
