package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/tasks"
)

// MaxName is the most bytes that the name of a schedule has.
const MaxName = 512

// Info is a schedule as Get and List show it.
type Info inspect.Schedule

// Call has the method f of the grain g called with arg at each time of w, under a name of the namespace. Setting the same again changes nothing, so
// each start of a program may. Other content takes the place of what is there. A pause, the missed times and, with the same w,
// the next time stay; another w is due first after the change. What was due before is still made, with the new content.
//
// A firing is made at least once, and in a Durable kind it counts once, within KeepReplies. An error of the method is
// its outcome: Get shows it, and the schedule waits for its next time. In a Durable kind the error takes back what the
// firing did with its Firing.Missed, and no later firing makes up for that. A fault of the system, such as a dead
// node, is no outcome: the firing is tried again. It has no deadline unless f has one (raysys.Deadline). A firing
// carries no ContextKey values of who set it.
//
// What is wrong with f, arg, w or opts is ErrBadOption or ErrTooLarge.
//
// In a turn of a Durable grain, also in a tick of a timer, the schedule is set when the turn is stored, or not at all:
// the edit is stored with the turn as a message (grains.Durable). Call returns nil then, and Get shows the schedule as
// it was. Edits of one schedule by one grain arrive in their order, at least once; what the schedule's record has
// against one is logged. One that arrives again changes nothing, unless the schedule was deleted or has ended since,
// or 8 other grains have edited it: then it counts again. A ReadOnly method and a hook set the schedule at
// once. All this holds for Task, Pause, Resume, Run and Delete too.
func Call[G, A, R any](ctx context.Context, name string, w When, f grains.Func[G, A, R], g grains.Grain[G], arg A, opts ...Option) error {
	p, err := grainengine.Pack(*(*grainengine.Func)(core.HandleIn(&f)), graindir.ID(g.ID()), unsafe.Pointer(&arg))
	return set(ctx, name, w, p, err, g.ID(), opts)
}

// Call0 is Call for a method without argument.
func Call0[G, R any](ctx context.Context, name string, w When, f grains.Func0[G, R], g grains.Grain[G], opts ...Option) error {
	return Call(ctx, name, w, grains.Func[G, struct{}, R](f), g, struct{}{}, opts...)
}

// Task has the task t submitted with arg at each time of w: see Call. It runs as raysys.Detached(name), so that raysys.Lookup finds its newest outcome;
// with Allow as Detached(), where a firing that is tried again may run twice. While another task, or another firing, has the
// name, the firing is tried again, and Info.Why says so. Cancel and Forget of a run end its firing. A task's Retries are made
// within one firing. In a cluster the lineage must be durable.
func Task[A, R any](ctx context.Context, name string, w When, t tasks.Task[A, R], arg A, opts ...Option) error {
	p, err := taskengine.Pack(*(*taskengine.Task)(core.HandleIn(&t)), unsafe.Pointer(&arg))
	if turn, _, none := core.TurnOf(ctx); none == nil && err == nil && !taskengine.CanName(turn.Job()) {
		err = fmt.Errorf("%w: in a cluster a task with a name is recorded in the store, and this node records none: set system.Config.Lineage to durable", raysys.ErrBadOption)
	}
	return set(ctx, name, w, p, err, grains.ID{}, opts)
}

// Task0 is Task for a function without parameters.
func Task0[R any](ctx context.Context, name string, w When, t tasks.Task0[R], opts ...Option) error {
	return Task(ctx, name, w, tasks.Task[struct{}, R](t), struct{}{}, opts...)
}

// checkName says what is wrong with a name.
func checkName(name string) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("%w: schedule: a name of %d bytes: give 1 to %d", raysys.ErrBadOption, len(name), MaxName)
	}
	return nil
}

// set stores what a program says of a schedule; err is what is wrong with the work p.
func set(ctx context.Context, name string, w When, p core.Packed, err error, g grains.ID, opts []Option) error {
	if bad := checkName(name); bad != nil {
		return bad
	}
	s, bad := settingOf(w, opts)
	if err = cmp.Or(err, bad); err == nil {
		s.Work, err = workOf(p, g)
	}
	if err != nil {
		return fmt.Errorf("schedule %q: %w", name, err)
	}
	return change(ctx, name, &posted{Spec: &s.spec, Paused: s.paused})
}

// put is the change by which a record is as a program says; by is nil unless a message says it.
func (s *setting) put(i due.Item, by *author) (c due.Change, err error) {
	w := s.When.when()
	r := &record{Set: i.Now, Spec: s.spec, Paused: s.paused, when: w, From: i.Now, Next: w.first(i.Now)}
	if i.Exists() {
		if r, err = decode(i.Record.Data); err != nil {
			return c, err
		}
		same := r.Spec.same(&s.spec)
		if r.Authors.heard(by) || same && by == nil {
			return due.Change{Read: true}, nil
		}
		if !same {
			r.replace(s.spec, i.Now, r.Spec.jitter(i.Name.Name))
		}
	}
	r.Authors.hear(by)
	return changed(i, r)
}

// changed is the change of a record that becomes r.
func changed(i due.Item, r *record) (c due.Change, err error) {
	next := i.Record
	next.Due = r.due(nil, r.Spec.jitter(i.Name.Name))
	c.Next, err = r.encode(next)
	return c, err
}

// edit changes a record, by the time of day of its leader. A change that is Read leaves it.
func edit(ctx context.Context, name string, f func(due.Item) (due.Change, error)) error {
	of, store, err := nodeOf(ctx)
	if err != nil {
		return err
	}
	return editIn(ctx, store, due.Name{Namespace: of.Namespace(), Name: name}, f)
}

func editIn(ctx context.Context, store due.Store, name due.Name, f func(due.Item) (due.Change, error)) error {
	type answer struct {
		due.Item
		made bool
	}
	c := due.Change{Name: name, Read: true}
	for {
		a, err := wait(ctx, func(done func(answer, error)) {
			store.Change(c, func(i due.Item, made bool, err error) { done(answer{i, made}, err) })
		})
		if err != nil || a.made {
			return typed(name.Name, err)
		}
		a.Name = c.Name
		next, err := f(a.Item)
		if err != nil || next.Read {
			return typed(name.Name, err)
		}
		next.Name, next.Was = c.Name, a.Version
		c = next
	}
}

func typed(name string, err error) error {
	if err != nil {
		return fmt.Errorf("schedule %q: %w", name, err)
	}
	return nil
}

// do does what an operator asks for, or a program; by is nil unless a message does.
func do(verb string, i due.Item, by *author) (due.Change, error) {
	if !i.Exists() {
		return due.Change{}, fmt.Errorf("%w: no schedule has the name: raysys list schedules shows those that there are", raysys.ErrNotFound)
	}
	r, err := decode(i.Record.Data)
	if err != nil && verb != verbDelete {
		return due.Change{}, err
	}
	if r.Authors.heard(by) {
		return due.Change{Read: true}, nil
	}
	c := due.Change{}
	stays, err := r.doAsked(verb, i.Now, r.Spec.jitter(i.Name.Name))
	if err == nil && stays {
		r.Authors.hear(by)
		c, err = changed(i, r)
	}
	c.Name, c.Was, c.Asked = i.Name, i.Version, verb
	return c, err
}

func askOperator(ctx context.Context, name, verb string) error {
	if err := checkName(name); err != nil {
		return err
	}
	return change(ctx, name, &posted{Verb: verb})
}

// Pause stops a schedule until Resume: nothing is due meanwhile. What runs goes on, and what was due before is made after
// Resume. A worker may begin for a moment what it was given before. The error matches raysys.ErrNotFound where no schedule
// has the name. In a turn of a Durable grain see Call; so do Resume, Run and Delete.
func Pause(ctx context.Context, name string) error { return askOperator(ctx, name, verbPause) }

// Resume ends a pause. What was due before it is made now. The times in it are neither made up for nor missed.
func Resume(ctx context.Context, name string) error { return askOperator(ctx, name, verbResume) }

// Run adds one firing, which is due now, to those of a schedule's times, in a pause too. While a firing runs this one waits
// for its end, unless the schedule has Allow. A firing that is tried again is tried at once.
func Run(ctx context.Context, name string) error { return askOperator(ctx, name, verbRun) }

// Delete removes a schedule. What runs goes on, and a worker may begin for a moment what it was given before.
func Delete(ctx context.Context, name string) error { return askOperator(ctx, name, verbDelete) }

// Get says how a schedule is. The error matches raysys.ErrNotFound where none has the name.
func Get(ctx context.Context, name string) (info Info, err error) {
	if err := checkName(name); err != nil {
		return info, err
	}
	err = edit(ctx, name, func(i due.Item) (due.Change, error) {
		if !i.Exists() {
			return due.Change{}, raysys.ErrNotFound
		}
		info = Info(describe(i))
		return due.Change{Read: true}, nil
	})
	return info, err
}

// List shows the schedules of the namespace whose names begin with a prefix, in no order. It ends with the first error.
func List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		of, store, err := nodeOf(ctx)
		if err != nil {
			yield(Info{}, err)
			return
		}
		for shard := range store.Shards() {
			q := due.Query{Shard: shard, Prefix: due.Name{Namespace: of.Namespace(), Name: prefix}.Key(), Limit: listed}
			for more := true; more; more = q.From != "" {
				p, err := wait(ctx, func(done func(due.Page, error)) { store.List(q, done) })
				if err != nil {
					yield(Info{}, fmt.Errorf("list schedules: %w", err))
					return
				}
				for _, i := range p.Items {
					if !yield(Info(describe(i)), nil) {
						return
					}
				}
				q.From = p.Next
			}
		}
	}
}

// listed is how many schedules a leader is asked for at a time.
const listed = 500

// describe is what is known of a schedule.
func describe(i due.Item) inspect.Schedule {
	s := inspect.Schedule{Name: i.Name.Name, Namespace: i.Namespace, Node: i.Record.At.Node, Why: i.Why}
	r, err := decode(i.Record.Data)
	if err != nil {
		s.Why = errors.Join(err, errors.New(i.Why)).Error()
		return s
	}
	at := func(t int64) time.Time {
		if t == 0 {
			return time.Time{}
		}
		return time.Unix(0, t).UTC()
	}
	s.When, s.Work, s.Overlap, s.CatchUp, s.Jitter = r.when.String(), r.Spec.Work.String(), r.Spec.Overlap.String(), r.Spec.CatchUp, r.Spec.Jitter.String()
	s.Paused, s.Next, s.Last, s.Ended, s.LastError = r.Paused, at(r.Next), at(r.Last), at(r.Ended), r.LastError
	s.Missed, s.Left, s.Why = r.Missed, r.Left, cmp.Or(s.Why, r.Why)
	for _, f := range r.Running {
		s.Running = append(s.Running, at(f.Due))
	}
	return s
}
