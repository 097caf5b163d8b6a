package taskengine

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
	"weak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// Where the lineage of tasks is durable, a recipe is recorded before a reference to its task leaves the node (package
// lineage). So a recipe can be asked for while its task runs, and is more than a value's: it is the task's.
//
//	RecipeOf(c) ──► recipe ──► Recording: the bytes, and the inputs ──► the record of the task, in its shard
//	                                                                          │ the submitter is dead
//	the record, adopted ◄── Adopt ◄── the bytes, and futures of the inputs ◄──┘

// Recipe is what it takes to run a task again: see recipe.
type Recipe = recipe

// recordable is the Work of a future whose recipe can be asked for at any time.
type recordable interface {
	// recipeNow returns the recipe, made now where the task has not settled; nil for a value that travels along. settling
	// says that the task is about to settle.
	recipeNow() (rec *recipe, settling bool)
}

// RecipeOf returns the recipe of a task of this node; nil for other work, and for a task that has settled with a value that
// travels along. settling says that the task is about to settle: the recipe is asked for again then.
func RecipeOf(c *core.Future) (rec *Recipe, settling bool) {
	if w, ok := c.Work().(recordable); ok {
		return w.recipeNow()
	}
	return nil, false
}

// argLocks guard the arguments of tasks whose recipes may be asked for: one goroutine encodes an argument while another
// settles the task and drops it.
var argLocks [256]sync.Mutex

func argLock(c *core.Future) *sync.Mutex {
	return &argLocks[uintptr(unsafe.Pointer(c))/64%uintptr(len(argLocks))]
}

// emptyArg drops the argument. One without pointers has nothing to free and can be encoded at any time, and a task of another
// node is recorded by that.
func (r *record) emptyArg() {
	_, inbound := r.Future.Work().(*inboundTask)
	plain, recorded := !r.spec.argType.Gated(), r.Future.Up().Job().Gate != nil && !inbound
	switch {
	case plain && recorded:
		r.Future.SetEmptied()
		return
	case plain:
		return
	case !recorded:
		r.spec.empty(r)
		return
	}
	mu := argLock(&r.Future)
	mu.Lock()
	r.spec.empty(r)
	r.Future.SetEmptied()
	mu.Unlock()
}

// recipeNow implements recordable.
func (r *record) recipeNow() (*recipe, bool) {
	if rec := recipeOf(&r.Future); rec != nil || r.Future.Settled() || !r.keepsRecipes() {
		return rec, false
	}
	t := r.Future.TurnFor()
	mu := argLock(&r.Future)
	mu.Lock()
	if r.Future.Emptied() {
		mu.Unlock()
		return recipeOf(&r.Future), !r.Future.Settled()
	}
	rec, futures := r.recipeOfArgument(t)
	mu.Unlock() // before the recipes of the inputs are asked for, which takes the locks of others
	size := rec.refersTo(futures)
	known := r.setRecipe(t, rec)
	if known == rec {
		rec.weight.of.enter(rec, size)
	}
	return known, false
}

// setRecipe gives the task its recipe, unless it has one, and returns the one that it has.
func (r *record) setRecipe(t *core.Turn, rec *recipe) *recipe {
	mu := argLock(&r.Future)
	mu.Lock()
	defer mu.Unlock()
	if known, ok := t.Recipe().(*recipe); ok {
		rec.weight.give()
		return known
	}
	t.SetRecipe(rec)
	return rec
}

// recipeNow implements recordable: the node that submitted the task has its recipe.
func (t *inboundTask) recipeNow() (*recipe, bool) { return nil, false }

// recordedTask is how a recipe is encoded.
type recordedTask struct {
	Function string
	Turn     []byte // that submitted it: see wire.AppendTurn
	Seq      uint64
	Attempt  int
	ByRef    bool
	Arg      []byte
	Options  recordedOptions
}

// recordedOptions are the options of a task without RetryIf, which is a function of the program. Most tasks have few.
type recordedOptions struct {
	CPU        float64
	GPU        float64            `raysys:"omitzero"`
	GPUMemory  int64              `raysys:"omitzero"`
	GPUModel   string             `raysys:"omitzero"`
	Memory     int64              `raysys:"omitzero"`
	Custom     map[string]float64 `raysys:"omitzero"`
	Retries    int
	BackoffLo  int64               `raysys:"omitzero"` // nanoseconds
	BackoffHi  int64               `raysys:"omitzero"`
	Deadline   int64               `raysys:"omitzero"`
	Detached   bool                `raysys:"omitzero"`
	Strategy   string              `raysys:"omitzero"`
	Labels     map[string]string   `raysys:"omitzero"`
	Conditions []recordedCondition `raysys:"omitzero"`
	Waits      bool                `raysys:"omitzero"`
	Classed    bool                `raysys:"omitzero"`
	Class      int8                `raysys:"omitzero"`
	Group      string              `raysys:"omitzero"`
	Bundle     int                 `raysys:"omitzero"`
	Captures   bool                `raysys:"omitzero"`
}

// recordedCondition is a condition on the node, but for those on where a value is: the reference is the program's.
type recordedCondition struct {
	Label     string
	Values    []string
	Nodes     []core.NodeID
	Kind, Key string // of a grain
	Not, Soft bool
}

var recordedPlan = sync.OnceValues(func() (*codec.Plan, error) { return codec.PlanOf(reflect.TypeFor[recordedTask]()) })

// Recording is a recipe, encoded.
type Recording struct {
	ID     raysys.TaskID
	Run    uint64
	Body   []byte
	Digest uint64  // of function, argument and Key
	Key    string  // see GoPacked
	Inputs []Input // in the order of the recipe
}

// Input is one reference of a recorded argument.
type Input struct {
	Future *core.Future // nil where only the recipe is left, or nothing is
	Recipe *Recipe      // of a task of this node
	Name   string       // of what is gone
}

// What the encodings take beside names, values and arguments.
const aboutTurn, aboutTask = 128, 160

// Recording encodes the recipe.
func (rec *Recipe) Recording() (r Recording, err error) {
	rec.mu.Lock()
	t := recordedTask{Function: rec.spec.function(), Seq: rec.seq, Attempt: rec.attempt, ByRef: rec.byRef, Arg: rec.arg, Options: recordOptions(&rec.spec.opts)}
	list, why := rec.inputs, rec.why
	rec.mu.Unlock()
	r.ID, r.Run = rec.id(), rec.up.Job.Run
	if why != nil {
		return r, unmade(t.Function, why)
	}
	if t.Turn, err = wire.AppendRemote(make([]byte, 0, aboutTurn), &rec.up); err != nil {
		return r, err
	}
	plan, err := recordedPlan()
	if err != nil {
		return r, err
	}
	if r.Body, err = plan.Append(make([]byte, 0, aboutTask+len(t.Turn)+len(t.Arg)), reflect.ValueOf(&t).Elem(), nil); err != nil {
		return r, fmt.Errorf("record task %s: %w", t.Function, err)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.Function + "\x00"))
	_, _ = h.Write(t.Arg)
	if r.Key = rec.spec.opts.Key; r.Key != "" {
		_, _ = h.Write([]byte("\x00" + r.Key))
	}
	r.Digest = h.Sum64()
	r.Inputs = make([]Input, len(list))
	for i, in := range list {
		r.Inputs[i] = Input{Future: in.held, Recipe: in.recipe, Name: in.name}
		switch {
		case in.held != nil:
		case in.recipe == nil:
			r.Inputs[i].Future = in.loose.Value()
		case in.recipe.unusable(): // there is no record to find it by, unless it has one already
			r.Inputs[i].Future = in.recipe.Future()
		}
	}
	return r, nil
}

// unusable reports whether the recipe is cut.
func (rec *recipe) unusable() bool {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.why != nil
}

// ID is that of the submission.
func (rec *recipe) ID() raysys.TaskID { return rec.id() }

// Future has the value, or shall have it; nil when nothing refers to it any more.
func (rec *recipe) Future() *core.Future { return rec.Loose().Value() }

// Loose is Future, which it does not keep.
func (rec *recipe) Loose() weak.Pointer[core.Future] {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.future
}

// Namespace is that of the function.
func (rec *recipe) Namespace() string { return rec.up.Job.Namespace }

// Name is the task's function.
func (rec *recipe) Name() string { return rec.spec.function() }

// GivenName is the name of a detached task; "" without.
func (rec *recipe) GivenName() string { return rec.spec.opts.Name }

// Run implements core.Recorded.
func (rec *recipe) Run() uint64 { return rec.recorded.Load() }

// Key is the run under which the task is recorded, by whichever node; 0 for one that never is.
func (rec *recipe) Key() uint64 { return cmp.Or(rec.Run(), rec.up.Job.Run) }

// Told implements core.Recorded, and SetTold notes it.
func (rec *recipe) Told() bool { return rec.told.Load() }

// SetTold notes that the outcome of the task is in its record. The task does not run again while the record stays.
func (rec *recipe) SetTold() {
	rec.told.Store(true)
	if c := rec.Future(); c != nil && c.OwnTurn() != nil {
		if r, ok := c.Work().(interface{ handUp(*core.Turn) }); ok {
			r.handUp(c.OwnTurn())
		}
	}
}

// Needs are the recipes of what the argument refers to, where this node has them.
func (rec *recipe) Needs() (list []*Recipe) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, in := range rec.inputs {
		if in.recipe != nil {
			list = append(list, in.recipe)
		}
	}
	return list
}

// Inputs are what the argument refers to of what no task makes again, where this node has it.
func (rec *recipe) Inputs() (list []*core.Future) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, in := range rec.inputs {
		if c := cmp.Or(in.held, in.loose.Value()); c != nil {
			list = append(list, c)
		}
	}
	return list
}

// Record is the record of a task of which this node is the submitter.
type Record interface {
	// Forget is called, on the collector's goroutine, when nothing here can ask for the task any more.
	Forget()
	// Spent is called, on any goroutine, when the task must not run again.
	Spent()
}

// SetRecorded notes that the recipe is recorded.
func (rec *recipe) SetRecorded(run uint64, attempt uint32, r Record) {
	rec.weight.record.Store(&r)
	rec.submission.Store(attempt)
	rec.recorded.Store(run)
}

// Submission is the number of this node among the submitters of the task, in its record.
func (rec *recipe) Submission() uint32 { return rec.submission.Load() }

// Revive returns a future for a recorded task that has failed, in its next attempt, which begins when its outcome is wanted;
// nil where the task must not run again.
func (rec *Recipe) Revive() *core.Future {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.why != nil {
		return nil
	}
	m := rec.blankLocked()
	c := &m.record.Future
	rec.future = weak.Make(c)
	rec.dormancy.begin.Store(m.later())
	return c
}

// later returns what has the task begin.
func (m remaking) later() *func() {
	begin := func() {
		if _, err := m.submit(); err != nil {
			m.record.settleFailed(err)
		}
	}
	return &begin
}

// Begin has a task that was adopted begin: its outcome is wanted.
func (rec *recipe) Begin() {
	if begin := rec.begin.Swap(nil); begin != nil {
		(*begin)()
	}
}

// dormancy is what a recipe has from the record of its task.
type dormancy struct {
	recorded   atomic.Uint64          // the run under which it is recorded, 0 while it is not
	submission atomic.Uint32          // of this node, in the record
	told       atomic.Bool            // the outcome is in the record
	begin      atomic.Pointer[func()] // of a task that was adopted and that nothing has waited for
}

// Begin implements refs.Dormant.
func (r *record) Begin() {
	if rec := recipeOf(&r.Future); rec != nil {
		rec.Begin()
	}
}

func recordOptions(o *core.Options) recordedOptions {
	var conditions []recordedCondition
	for _, c := range o.Conditions {
		if c.Value == nil {
			conditions = append(conditions, recordedCondition{c.Label, c.Values, c.Nodes, c.Grain.Kind, c.Grain.Key, c.Not, c.Soft})
		}
	}
	return recordedOptions{
		CPU: o.Resources.CPU, GPU: o.Resources.GPU, GPUMemory: o.Resources.GPUMemory, GPUModel: o.Resources.GPUModel, Memory: o.Resources.Memory, Custom: o.Resources.Custom,
		Retries: o.Retries, BackoffLo: int64(o.BackoffLo), BackoffHi: int64(o.BackoffHi), Deadline: int64(o.Deadline),
		Detached: o.Detached, Strategy: o.Strategy, Labels: o.Labels, Conditions: conditions, Waits: o.Waits, Classed: o.Classed, Class: int8(o.Class),
		Group: o.Bundle.Group, Bundle: o.Bundle.Index, Captures: o.Bundle.Captures,
	}
}

// set changes options to those that were recorded.
func (r *recordedOptions) set(o *core.Options) {
	o.Resources = core.Resources{CPU: r.CPU, GPU: r.GPU, GPUMemory: r.GPUMemory, GPUModel: r.GPUModel, Memory: r.Memory, Custom: r.Custom}
	o.Retries, o.BackoffLo, o.BackoffHi = r.Retries, time.Duration(r.BackoffLo), time.Duration(r.BackoffHi)
	o.Deadline, o.Detached, o.Strategy, o.Labels, o.Waits = time.Duration(r.Deadline), r.Detached, r.Strategy, r.Labels, r.Waits
	o.Classed, o.Class = r.Classed, core.Class(r.Class)
	o.Conditions = nil
	for _, c := range r.Conditions {
		o.Conditions = append(o.Conditions, core.Condition{
			NodeCondition: core.NodeCondition{Label: c.Label, Values: c.Values, Nodes: c.Nodes, Not: c.Not, Soft: c.Soft},
			Grain:         core.GrainName{Kind: c.Kind, Key: c.Key},
		})
	}
	o.Bundle = core.Bundle{Group: r.Group, Index: r.Bundle, Captures: r.Captures}
}
