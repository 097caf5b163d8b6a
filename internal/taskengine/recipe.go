package taskengine

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"
	"weak"

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

// large reports whether the value, which the task has computed, is an object.
func (r *record) large() bool {
	at := r.Future.ValueAt()
	return core.MayBeLarge(r.spec.value.At(at)) && wire.Exceeds(r.spec.res, at, core.ObjectSize)
}

// keepRecipe is called before a task of this node settles with an object, while it has its argument. One that makes a
// value again has the recipe already.
func (r *record) keepRecipe() {
	t := r.Future.Turn()
	rec := recipeOf(&r.Future)
	if rec == nil {
		var size int64
		rec, size = r.newRecipe(t)
		if known := r.setRecipe(t, rec); known == rec {
			rec.weight.of.enter(rec, size)
		} else {
			rec = known
		}
	}
	if by := t.Effects(); by != nil { // asked after the recipe was set: see passEffects
		rec.cut(&effectsError{by})
	}
}

// keepsRecipes reports whether the node keeps recipes. Where it has no store for objects none is lost.
func (r *record) keepsRecipes() bool {
	up := r.Future.Up()
	return up.Job().Objects != nil && engineOf(up).lineage != nil
}

// newRecipe returns the recipe, and how many bytes it keeps.
func (r *record) newRecipe(t *core.Turn) (rec *recipe, size int64) {
	rec, futures := r.recipeOfArgument(t)
	return rec, rec.refersTo(futures)
}

// recipeOfArgument returns the recipe without its inputs, which are made of futures.
func (r *record) recipeOfArgument(t *core.Turn) (rec *recipe, futures []*core.Future) {
	up := r.Future.Up()
	rec = &recipe{
		spec: r.spec, seq: r.Future.Seq(), attempt: t.Attempt(), redraws: t.Redraws(), future: weak.Make(&r.Future), weight: &weight{of: engineOf(up).lineage},
		up: core.RemoteSpec{Job: up.Job(), Name: up.Name(), ID: up.ID(), Attempt: up.Attempt(), Values: up.Values(), Class: up.Class()},
	}
	if d := r.deps(); d != nil && d.byRef != nil {
		rec.byRef, futures = true, d.byRef
	} else {
		var err error
		if rec.arg, err = r.spec.arg.AppendAt(nil, r.argAt(), &futures); err != nil {
			rec.why = fmt.Errorf("its argument cannot be encoded: %w", err)
			return rec, nil
		}
	}
	return rec, futures
}

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

func (s *spec) function() string { return s.entry.Name }
