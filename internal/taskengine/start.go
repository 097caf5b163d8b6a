package taskengine

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// A detached task with a name is recorded under the name before it runs. The submission waits for that.
//
//	submit ──► held ──► Start ──┬── the name is free, or its task has settled ──► its dependencies, and so on, as any task
//	                            ├── the same content runs under the name ──────► it settles when that one has
//	                            └── other content does ────────────────────────► it fails

// Starter is a core.TaskNames that starts detached tasks under names.
type Starter interface {
	// Start has the task of rec recorded under the name. done is called once, on any goroutine: with nil when the task is to
	// run here, with the Source of the outcome of the task that has the name, or with why it must not run. While the store is
	// away Start waits until ctx ends.
	Start(ctx context.Context, rec *Recipe, name string, done func(core.Source, error))
}

// startable returns why a task of t cannot have a name.
func (s *spec) startable(ctx context.Context, t *core.Turn) error {
	name := s.opts.Name
	if _, ok := t.Job().Tasks.(Starter); !ok {
		return fmt.Errorf("%w: Detached(%q): in a cluster a task with a name is recorded in the store, and this node records none: set system.Config.Lineage to durable, or give Detached() without a name", raysys.ErrBadOption, name)
	}
	taken, err := core.ObjectHasName(ctx, t, name)
	switch {
	case taken:
		return fmt.Errorf("%w: an object has the name %q: Forget it, or give another name", raysys.ErrNameTaken, name)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: whether the name %q is free was not answered: %w", raysys.ErrUnreachable, name, errors.Join(context.Cause(ctx), err))
	}
	return nil
}

// start waits until r, which is held by d, is recorded under its name.
func (s *spec) start(ctx context.Context, t *core.Turn, r *record, d *deps) core.Link {
	rec, _ := r.recipeNow()
	if rec == nil {
		err := fmt.Errorf("submit %s: Detached(%q): %w", s.entry, s.opts.Name, errOff)
		r.refuse(d, err)
		return s.failed(err)
	}
	told := make(chan error, 1)
	t.Job().Tasks.(Starter).Start(ctx, rec, s.opts.Name, func(src core.Source, err error) {
		switch {
		case err != nil:
			err = fmt.Errorf("submit %s: %w", s.entry, err)
			r.refuse(d, err)
		case src == nil:
			d.wait()
		default:
			rec.cut(errJoined)
			d.joined.Store(&src)
			r.fetch(src)
		}
		told <- err
	})
	t.Runtime().Block(t.Base())
	defer t.Runtime().Unblock(t.Base())
	var closed <-chan struct{}
	if t.Kind() == core.TurnRoot {
		closed = t.Job().Closed
	}
	select {
	case err := <-told:
		if err != nil {
			return s.failed(err)
		}
		return core.LinkTo(&r.Future)
	case <-ctx.Done():
		return s.failed(fmt.Errorf("submit %s: %w: the store has not answered, and the task %q runs if it is recorded yet: %w",
			s.entry, raysys.ErrOutcomeUnknown, s.opts.Name, context.Cause(ctx)))
	case <-closed:
		return s.failed(fmt.Errorf("submit %s: %w", s.entry, raysys.ErrClosed))
	}
}

// refuse settles a task that was held, and does not run.
func (r *record) refuse(d *deps, err error) {
	d.returnParams()
	r.settleFailed(err)
}

// JoinedOf returns the Source of the outcome that c waits for, a task which was submitted under the name of one that runs; else nil.
func JoinedOf(c *core.Future) core.Source {
	if r := taskOf(c); r != nil && r.spec.opts.Name != "" {
		if d := r.deps(); d != nil {
			if src := d.joined.Load(); src != nil {
				return *src
			}
		}
	}
	return nil
}

// NameTaken is why a task cannot have a name: another one of the function has it.
func NameTaken(name, function string) error {
	return fmt.Errorf("%w: %q is the name of a task of function %q, which was submitted with another function or argument and has not settled: Lookup finds it, Forget ends it and frees the name",
		raysys.ErrNameTaken, name, function)
}

var errJoined = errors.New("its task runs under a name, which another submission has: look it up")

// CanName reports whether tasks of the job can have names.
func CanName(j *core.Job) bool {
	_, ok := j.Tasks.(Starter)
	return ok
}

// Pack returns a task of k with the argument at arg. The error says why it cannot be submitted later, by another node.
func Pack(k Task, arg unsafe.Pointer) (p core.Packed, err error) {
	s := k.spec
	switch {
	case s == nil:
		return p, fmt.Errorf("%w: the handle of the task is the zero value", raysys.ErrBadDefinition)
	case s.opts.Err != nil:
		return p, fmt.Errorf("submit %s: %w", s.entry, s.opts.Err)
	case s.arg.HasRefs():
		return p, fmt.Errorf("submit %s: %w: its argument, %s, may hold references, which end with their owner: give the values", s.entry, raysys.ErrBadOption, s.argType.Type)
	}
	p = core.Packed{Function: s.entry.Name, Opts: s.opts}
	p.Arg, err = s.arg.AppendAt(nil, arg, nil)
	return p, err
}

// GoPacked submits the task. A Key beside its name says which of the tasks with that name and content it is: another one is ErrNameTaken while this
// runs, and the same one has its outcome.
func GoPacked(ctx context.Context, p *core.Packed) core.Link {
	none := core.TypeOf[none]()
	e := Of(ctx)
	if e == nil {
		return core.LinkTo(core.FailedOf(none, raysys.ErrNoRuntime))
	}
	entry := e.cfg.Table.Lookup("task", p.Function)
	if entry == nil {
		return core.LinkTo(core.FailedOf(none, fmt.Errorf("%w: task %s is not in this program", raysys.ErrUnknownFunc, p.Function)))
	}
	k := *entry.Impl.(*spec)
	k.opts = p.Opts
	k.opts.Key = ""
	s := newSpec(&k, nil)
	s.opts.Key = p.Opts.Key
	r := s.record()
	if err := s.arg.DecodeAt(p.Arg, r.argAt(), nil); err != nil {
		return s.failed(fmt.Errorf("submit %s: argument: %w", s.entry, err))
	}
	return s.submit(ctx, r)
}
