package taskengine

import (
	"errors"
	"fmt"
	"strings"
	"weak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
)

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

// Remake implements core.Remaker.
func (r *record) Remake(c *core.Future, lost error, done func(core.Source, error)) {
	e := engineOf(r.Future.Up())
	rec := recipeOf(c)
	if rec == nil {
		why := errOff
		if e.lineage != nil {
			why = errNone
		}
		done(nil, unmade(r.Name(), fmt.Errorf("%w; %w", lost, why)))
		return
	}
	e.remake(rec, lost, done)
}

// remake makes a value again. Not on this goroutine: it may be one that fetches the values of another record, and so on.
func (e *Engine) remake(rec *recipe, lost error, done func(core.Source, error)) {
	e.cfg.Pool.Go(goroutines.Func(func() { rec.remake(lost, done) }))
}

// Remake implements core.Remaker: the node that submitted the task makes its value again. The source that has lost it may
// know that node; where it is this one by now, the future has its recipe.
func (t *inboundTask) Remake(c *core.Future, lost error, done func(core.Source, error)) {
	if rec := recipeOf(c); rec != nil {
		engineOf(c.Up()).remake(rec, lost, done)
		return
	}
	if by, ok := core.SourceOf(c).(core.Remaker); ok {
		by.Remake(c, lost, done)
		return
	}
	done(nil, lost)
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

// blank makes a held record without argument.
func (s *spec) blank(rec *recipe, up *core.Turn, attempt int) *record {
	again := *s
	again.before = attempt - 1
	again.remakes = true
	r := again.record()
	r.Future.Init(r, up, rec.seq, s.value.Gated())
	t := core.TurnSpec{Kind: core.TurnTask, Name: r.Name(), ID: r.Future.ID(), Up: up, Attempt: attempt, Redraws: rec.redraws, Limit: s.opts.Deadline, Class: s.class()}
	if t.Limit != 0 {
		t.Deadline = core.After(up.Runtime().Now(), t.Limit)
	}
	r.Future.SetOwn(core.NewTurn(t))
	r.Future.OwnTurn().SetRecipe(rec)
	r.Future.Hold()
	return r
}

// fill gives the record its argument, made of the inputs, and submits it.
func (r *record) fill(arg []byte, byRef bool, inputs []*core.Future) error {
	t := r.Future.OwnTurn()
	t.Pin(inputs) // which lets it read what the program has released
	d := &deps{remakes: true}
	if byRef {
		params := r.spec.params(r.argAt())
		for i, p := range params {
			err := p.set(inputs[i])
			if err == nil {
				err = p.future.Borrow(t)
			}
			inputs[i] = p.future // its type may not have been known before
			if err != nil {
				for _, b := range params[:i] {
					b.future.Return()
				}
				return err
			}
		}
		d.futures, d.byRef = inputs, inputs
		d.params.Store(&params)
		r.inner(d, r)
	} else {
		if err := r.spec.arg.DecodeAt(arg, r.argAt(), inputs); err != nil {
			return err
		}
		if r.spec.refs {
			d.futures = r.dependencies()
		}
	}
	r.attach(t, d)
	d.wait()
	return nil
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
