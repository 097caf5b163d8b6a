package taskengine

import (
	"fmt"
	"reflect"
	"weak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// Adopted is a task that this node has taken over from a submitter that is dead. It is held: see Recipe.Begin.
type Adopted struct {
	Future *core.Future
	Recipe *Recipe
	settle func(value []byte, inputs []*core.Future) error
}

// Has reports whether the program has the task.
func (e *Engine) Has(function string) bool { return e.cfg.Table.Lookup("task", function) != nil }

// Adoption says what the record of a task tells beside the recording.
type Adoption struct {
	Submission uint32         // number of this node among the submitters
	Name       string         // of a detached task; "" without
	Early      int            // submitters of a named task in a row that died soon after they had become it: attempts, which Retries counts
	Inputs     []*core.Future // futures for the inputs
}

// Adopt makes the task of a recording. job is as in wire.Turns.
func (e *Engine) Adopt(body []byte, with Adoption, job func(wire.JobKey) *core.Job) (a Adopted, err error) {
	plan, err := recordedPlan()
	if err != nil {
		return a, err
	}
	var t recordedTask
	if err := plan.Decode(body, reflect.ValueOf(&t).Elem(), nil); err != nil {
		return a, fmt.Errorf("the record of a task: %w", err)
	}
	entry := e.cfg.Table.Lookup("task", t.Function)
	var impl *spec
	if entry != nil {
		impl, _ = entry.Impl.(*spec)
	}
	if impl == nil {
		return a, fmt.Errorf("%w: task %s, which a recording asks for, is not in this program", raysys.ErrUnknownFunc, t.Function)
	}
	r := wire.NewReader(t.Turn)
	up, err := wire.ReadTurn(&r, job)
	if err != nil {
		return a, fmt.Errorf("the record of task %s: %w", t.Function, err)
	}
	up.Deadline = 0 // of a submitter that is dead
	if with.Early > t.Options.Retries {
		return a, &raysys.TaskError{Function: t.Function, Attempt: with.Early, Err: &worksDeath{with.Early}}
	}
	return impl.adopt(e, &t, up, with), nil
}

// worksDeath says that a task with a name has ended its nodes as often as it may. It matches raysys.ErrNodeDead.
type worksDeath struct{ nodes int }

func (e *worksDeath) Error() string {
	return fmt.Sprintf("each of the last %d nodes that had it ended within a minute (raysys.Retries allows more): os.Exit, a fatal error or out of memory in it?", e.nodes)
}

func (e *worksDeath) Unwrap() []error { return []error{raysys.ErrNodeDead, raysys.ErrOutcomeUnknown} }

func (s *spec) adopt(e *Engine, t *recordedTask, up core.RemoteSpec, with Adoption) Adopted {
	again, attempt, inputs := *s, t.Attempt+int(with.Submission), with.Inputs
	t.Options.set(&again.opts)
	again.opts.Name = with.Name
	n := newSpec(&again, nil)
	rec := &recipe{spec: n, up: up, seq: t.Seq, byRef: t.ByRef, attempt: attempt, arg: t.Arg, excused: -with.Early, weight: &weight{of: e.lineage}}
	size := recipeSize + int64(len(t.Arg))
	for _, c := range inputs {
		rec.inputs = append(rec.inputs, input{held: c})
	}
	m := rec.blankLocked()
	r := m.record
	rec.future = weak.Make(&r.Future)
	rec.weight.of.enter(rec, size)
	rec.dormancy.begin.Store(m.later())
	return Adopted{Future: &r.Future, Recipe: rec, settle: r.settleRecorded}
}

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

func (r *record) settleRecorded(value []byte, inputs []*core.Future) error {
	if err := r.spec.res.DecodeAt(value, r.Future.ValueAt(), inputs); err != nil {
		return fmt.Errorf("the recorded result of task %s: %w", r.Name(), err)
	}
	r.Future.Resolve()
	return nil
}
