package taskengine

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// Adopted is a task that this node has taken over from a submitter that is dead. It is held: see Recipe.Begin.
type Adopted struct {
	Future *core.Future
	Recipe *Recipe
	settle func(value []byte, inputs []*core.Future) error
}

// Adoption says what the record of a task tells beside the recording.
type Adoption struct {
	Submission uint32         // number of this node among the submitters
	Name       string         // of a detached task; "" without
	Early      int            // submitters of a named task in a row that died soon after they had become it: attempts, which Retries counts
	Inputs     []*core.Future // futures for the inputs
}

// worksDeath says that a task with a name has ended its nodes as often as it may. It matches raysys.ErrNodeDead.
type worksDeath struct{ nodes int }

func (e *worksDeath) Error() string {
	return fmt.Sprintf("each of the last %d nodes that had it ended within a minute (raysys.Retries allows more): os.Exit, a fatal error or out of memory in it?", e.nodes)
}

func (e *worksDeath) Unwrap() []error { return []error{raysys.ErrNodeDead, raysys.ErrOutcomeUnknown} }

// Settle settles the task with a value that was recorded.
func (a *Adopted) Settle(value []byte, inputs []*core.Future) error {
	a.Recipe.dormancy.begin.Store(nil)
	return a.settle(value, inputs)
}

// Forward settles the task with an object, which src brings.
func (a *Adopted) Forward(src core.Source) {
	a.Recipe.dormancy.begin.Store(nil)
	a.Recipe.share(src)
	a.Future.Forward(src)
}

// Fail settles the task with a failure that was recorded.
func (a *Adopted) Fail(err error) {
	a.Recipe.dormancy.begin.Store(nil)
	a.Future.Fail(err)
}

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

// TypesOf are the types of the argument and the result of k, which is not zero.
func TypesOf(k Task) (arg, res *core.ValueType) { return k.spec.argType, k.spec.value }

// ForGood is the Key of a task that has its name for good, also once it has settled: until the name is forgotten, another
// task is ErrNameTaken, and the same one has its outcome.
const ForGood = "for good"

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

// A turn that runs again, in a further attempt, submits its tasks again, under the same ids. Where lineage is durable it
// joins those that are recorded: other nodes may know them.
//
//	submit ──► held ──► Join ──┬── it is this node's ──────────► its dependencies, and so on, as any task
//	                           ├── another node has it ────────► it settles when that one has, with the Source there
//	                           └── its outcome is recorded ────► it settles with that

// Joiner is a core.Gate that knows the recorded tasks.
type Joiner interface {
	// Join has the task of rec recorded. done is called once, on any goroutine: with nil when it is to run here, with the
	// Source of its outcome, or with why it must not run.
	Join(rec *Recipe, done func(core.Source, error))
}

// joinerOf returns what tells whether a task that t submits is to be joined; nil where it is not asked.
func joinerOf(t *core.Turn) Joiner {
	if t.Attempt() < 2 {
		return nil
	}
	j, _ := t.Job().Gate.(Joiner)
	return j
}
