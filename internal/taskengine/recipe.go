package taskengine

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"strings"
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

// A recipe is what it takes to make the value of a task again: its function and options, its argument, encoded, and the
// recipes of what the argument refers to. The node that submitted the task makes one when the task settles with an
// object; a smaller value is with its future, and cannot be lost alone. The future has the recipe, and so have the
// recipes of the tasks that used its value: what neither needs any more the collector finds.
//
//	future T3 ──► recipe T3 ──► recipe T2 ──► recipe T1      for objects that tasks of this node computed
//	                   │             └ ─ ─ ► future T2       weakly: while it lives, its value is used
//	                   └──► future                           what is small, or borrowed from another node
//
// A recipe that cannot be used says why.
type recipe struct {
	spec   *spec
	up     core.RemoteSpec // the turn that submitted
	seq    uint64
	byRef  bool    // the parameters are the inputs
	weight *weight // what it counts for in the budget
	dormancy

	mu      sync.Mutex // guards the rest
	attempt int        // the last
	redraws uint32     // of the last
	arg     []byte
	inputs  []input
	future  weak.Pointer[core.Future] // that has the value, or shall have it
	why     error                     // it cannot be used; nil while it can
	effects *core.Effect              // of the task, or of a child of it; nil for none
	ran     int                       // the last attempt of a task with a name that has run for a while
	excused int                       // attempts of a task with a name that Retries does not count
}

// input is one reference of an argument.
type input struct {
	held   *core.Future              // a small value, or one of another node
	recipe *recipe                   // of a task's object
	loose  weak.Pointer[core.Future] // another object, which the program alone keeps
	name   string                    // of loose
}

// Why there is no recipe, or none any more.
var (
	errOff           = errors.New("this node keeps no recipes (system.Config.Lineage is off)")
	errNone          = errors.New("there is no recipe for it")
	errEffects error = &effectsError{&core.Effect{}}
	errBudget        = errors.New("its recipe was dropped to make room for newer ones (system.Config.LineageMemory)")
)

// effectsError says that a task has done what must not be done twice. It is errEffects.
type effectsError struct{ by *core.Effect }

func (e *effectsError) Error() string        { return e.by.String() }
func (e *effectsError) Is(target error) bool { return target == errEffects }

// recipeSize is about what a recipe takes beside argument and inputs.
const recipeSize = 512

// refersTo makes the inputs, and returns how many bytes the recipe keeps.
func (rec *recipe) refersTo(futures []*core.Future) (size int64) {
	size = recipeSize + int64(cap(rec.arg)) + int64(len(futures))*int64(unsafe.Sizeof(input{}))
	rec.inputs = make([]input, len(futures))
	var pins []*core.Future
	for i, c := range futures {
		var held int64
		rec.inputs[i], held = inputOf(c)
		if size += held; rec.inputs[i].held != nil && c.Pin() == nil {
			pins = append(pins, c)
		}
	}
	if pins != nil {
		rec.weight.pins.Store(&pins)
	}
	return size
}

// inputOf says how a recipe refers to c, and how many bytes it keeps by that.
func inputOf(c *core.Future) (in input, size int64) {
	_, inbound := c.Work().(*inboundTask)
	rec := recipeOf(c)
	if rec == nil && c.Up() != nil && c.Up().Job().Gate != nil { // a task that runs may be recorded
		rec, _ = RecipeOf(c)
	}
	switch {
	case rec != nil:
		return input{recipe: rec}, 0
	case c.Object() && !c.Borrowed() && !inbound: // what another node submitted is made again there
		return input{loose: weak.Make(c), name: c.Work().Name()}, 0
	}
	if w, ok := core.WhereaboutsOf(c); ok {
		return input{held: c}, w.Size
	}
	return input{held: c}, sizeHere(c)
}

func recipeOf(c *core.Future) *recipe {
	rec, _ := c.Recipe().(*recipe)
	return rec
}

// began notes that an attempt has begun which a task had left.
func (rec *recipe) began(attempt int, redraws uint32) {
	rec.mu.Lock()
	rec.attempt, rec.redraws = max(rec.attempt, attempt), max(rec.redraws, redraws)
	rec.mu.Unlock()
}

// cut drops what the recipe has. The record of the task stays: it says where the value is, and the next submitter of a task
// that has not settled has the recipe from there.
func (rec *recipe) cut(why error) {
	rec.mu.Lock()
	if rec.why == nil {
		rec.why = why
	}
	if e, ok := why.(*effectsError); ok && rec.effects == nil {
		rec.effects = e.by
	}
	rec.arg, rec.inputs = nil, nil
	rec.mu.Unlock()
	rec.weight.give()
	if r := rec.weight.record.Load(); r != nil && errors.Is(why, errEffects) {
		(*r).Spent()
	}
}

// Spent reports whether the task has done what must not be done twice: it does not run again for its value.
func (rec *recipe) Spent() bool {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.effects != nil
}

// SetSpent notes that the task, which ran for another submitter, is Spent. The error says why its value cannot be made again.
func (rec *recipe) SetSpent() error {
	rec.cut(errEffects)
	return unmade(rec.spec.function(), errEffects)
}

// hadEffects is called when the task has settled, and when a child of it had effects. An object is not made again then, and
// no small value whose future is gone. A task that has not settled may run again, by its next submitter too.
func (rec *recipe) hadEffects(by *core.Effect) {
	rec.mu.Lock()
	c := rec.future.Value()
	if rec.effects == nil {
		rec.effects = by
	}
	rec.mu.Unlock()
	if c == nil || c.Object() {
		rec.cut(&effectsError{by})
	}
}

// passEffects tells the turn that submitted the task that the task has done what must not be done twice. The value that
// the turn has computed already is not made again either: endLate looks for effects when its task has settled.
func passEffects(up *core.Turn, by *core.Effect) {
	up.SetEffects(by)
	if rec, ok := up.Base().Recipe().(*recipe); ok {
		rec.hadEffects(by)
	}
}

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

// DigestOf is the Digest of the Recording of p.
func DigestOf(p *core.Packed) uint64 { return digest(p.Function, p.Arg, p.Opts.Key) }

func digest(function string, arg []byte, key string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(function + "\x00"))
	_, _ = h.Write(arg)
	if key != "" {
		_, _ = h.Write([]byte("\x00" + key))
	}
	return h.Sum64()
}

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
	r.Key = rec.spec.opts.Key
	r.Digest = digest(t.Function, t.Arg, r.Key)
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

// A lost value is made again by a new record, with the id and the function of the one that is lost and the next attempt.
// It is submitted under a turn of its own, which ends with the node alone.
//
//	Remake ──► record, held ──► its inputs ──► deps ──► queued, placed, run as any task ──► the source of its value
//	                             │
//	                             ├─ the future lives: it is waited for; where its value is lost too, it is rebuilt itself
//	                             └─ it was collected: a record is made for it as well, and has its own inputs
//
// So an ancestor is made again once, however many wait, and only if its value is missing. All records are made by one
// loop, and each waits for its inputs without a goroutine: a chain may be long.

// remaking is a record that has no argument yet, and the recipe that it is made by.
type remaking struct {
	rec    *recipe
	record *record
}

// share gives the recipe to the future of this node that has the value which src brings, where there is one: the node computed it for an
// earlier submitter, and is the submitter now.
func (rec *recipe) share(src core.Source) {
	if c := core.HeldBy(src); c != nil {
		if t := c.OwnTurn(); t != nil && t.Recipe() == nil {
			t.SetRecipe(rec)
		}
	}
}

// remake makes the value again for a future that has the recipe.
func (rec *recipe) remake(lost error, done func(core.Source, error)) {
	rec.mu.Lock()
	if rec.why != nil {
		err := fmt.Errorf("%w; %w", lost, rec.why)
		rec.mu.Unlock()
		done(nil, unmade(rec.spec.function(), err))
		return
	}
	root := rec.blankLocked()
	rec.mu.Unlock()
	w := &remade{future: &root.record.Future, function: rec.spec.function(), done: done}
	w.future.Subscribe(&w.waiter, w) // it is held, and settles later
	for list := []remaking{root}; len(list) > 0; {
		next := list[len(list)-1]
		more, err := next.submit()
		if err != nil {
			next.record.settleFailed(err)
		}
		list = append(list[:len(list)-1], more...)
	}
}

// blankLocked makes a record; the caller holds mu.
func (rec *recipe) blankLocked() remaking {
	rec.attempt++
	return remaking{rec, rec.spec.blank(rec, core.NewRemote(rec.up), rec.attempt)}
}

// submit gives the record its inputs, and lets it wait for them. It returns the records that it had to make for some.
func (m remaking) submit() (more []remaking, err error) {
	rec := m.rec
	rec.mu.Lock()
	arg, list, why := rec.arg, rec.inputs, rec.why
	rec.mu.Unlock()
	if why != nil {
		return nil, why
	}
	inputs := make([]*core.Future, len(list))
	for i, in := range list {
		c, made, err := in.now()
		if err != nil {
			return more, err
		}
		defer c.Unpin()
		if inputs[i] = c; made.rec != nil {
			more = append(more, made)
		}
	}
	return more, m.record.fill(arg, rec.byRef, inputs)
}

// now returns the future of the input, pinned, and the record that was made for it where it had none.
func (in input) now() (c *core.Future, made remaking, err error) {
	switch {
	case in.held != nil:
		return in.held, made, in.held.Pin()
	case in.recipe != nil:
		return in.recipe.now()
	}
	if c = in.loose.Value(); c == nil || c.Pin() != nil {
		return nil, made, fmt.Errorf("%s, which it needs, was released, and is not made again: it is no task's value", in.name)
	}
	return c, made, nil
}

// now returns the future that has the value, or will have it, pinned.
func (rec *recipe) now() (c *core.Future, made remaking, err error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if c = rec.future.Value(); c != nil && c.Pin() == nil {
		if !c.Failed() {
			return c, made, nil
		}
		c.Unpin()
	}
	why := rec.why
	if why == nil && rec.effects != nil && c == nil {
		why = &effectsError{rec.effects}
	}
	if why != nil {
		return nil, made, unmade(rec.spec.function(), why)
	}
	made = rec.blankLocked()
	c = &made.record.Future
	rec.future = weak.Make(c)
	return c, made, c.Pin()
}

// remade waits for a record that makes a value again.
type remade struct {
	waiter   core.Waiter
	future   *core.Future
	function string
	done     func(core.Source, error)
}

// Resolved implements core.Resolved.
func (w *remade) Resolved(*core.Waiter) {
	if !w.future.Failed() {
		w.done(core.Local(w.future), nil)
		return
	}
	err := w.future.Failure()
	if raysys.Retriable(err) && !errors.Is(err, raysys.ErrObjectLost) {
		// The node that ran it was suspended, say: a later rebuild may not meet that.
		w.done(nil, fmt.Errorf("make the result of %s again: %w", w.function, err))
		return
	}
	w.done(nil, unmade(w.function, err))
}

// unmadeError says that a value cannot be made again. It matches raysys.ErrObjectLost.
type unmadeError struct {
	functions []string // the first is that of the value, each needs the next
	more      int
	cause     error
}

// maxChain bounds the functions that an unmadeError names.
const maxChain = 8

// Unmade says why the value of a task cannot be made again: the error matches raysys.ErrObjectLost.
func Unmade(function string, cause error) error { return unmade(function, cause) }

// unmade says why the value of the function cannot be made again.
func unmade(function string, cause error) error {
	e := &unmadeError{functions: []string{function}, cause: cause}
	var inner *unmadeError
	if errors.As(cause, &inner) {
		e.functions, e.more, e.cause = append(e.functions, inner.functions...), inner.more, inner.cause
		if n := len(e.functions); n > maxChain {
			e.more += n - maxChain
			e.functions = e.functions[:maxChain]
		}
	}
	return e
}

func (e *unmadeError) Error() string {
	s := "object lost: the result of " + strings.Join(e.functions, ", which needs that of ")
	if e.more > 0 {
		s += fmt.Sprintf(" and of %d more", e.more)
	}
	if len(e.functions) > 1 {
		s += ","
	}
	return s + " cannot be made again: " + e.cause.Error()
}

func (e *unmadeError) Unwrap() []error { return []error{raysys.ErrObjectLost, e.cause} }

// Explain implements core.Explainer.
func (rec *recipe) Explain(e *core.Explanation, depth int) {
	rec.mu.Lock()
	inputs := append([]input(nil), rec.inputs...)
	e.Name, e.Attempt, e.Recipe = rec.spec.function(), rec.attempt, rec.why == nil
	if rec.why != nil {
		e.NoRecipe = rec.why.Error()
	}
	rec.mu.Unlock()
	if rec.Submission() > 1 {
		e.Adopter = rec.up.Job.Node
	}
	if depth == 0 {
		e.More = len(inputs)
		return
	}
	if n := core.ExplainInputs; len(inputs) > n {
		e.More, inputs = len(inputs)-n, inputs[:n]
	}
	for _, in := range inputs {
		e.Inputs = append(e.Inputs, in.explain(depth-1))
	}
}

// id is that of the submission.
func (rec *recipe) id() core.TaskID { return rec.up.ID.Child(rec.seq) }

// awaitsTelling reports whether the next submitter of the task would run it again.
func (rec *recipe) awaitsTelling() bool {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.Run() != 0 && !rec.Told() && !errors.Is(rec.why, errEffects)
}
