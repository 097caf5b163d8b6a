package taskengine

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unsafe"
	"weak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/taskwire"
	"github.com/raysys/raysys/internal/wire"
)

// spec is what all submissions of one handle share.
type spec struct {
	*definition
	opts  core.Options
	need  ledger.Need
	plain bool // asks for one CPU, on any node: its tasks go through the run queue

	labels string // of opts, as they are sent

	before  int  // attempts that came before the first of these tasks, which Retries does not count
	remakes bool // these tasks make a lost value again
	stays   bool // they were placed by other things than room, by the node that sent them
}

func (s *spec) adopt(e *Engine, t *recordedTask, up core.RemoteSpec, with Adoption) Adopted {
	again, inputs := *s, with.Inputs
	attempt := t.Attempt + int(with.Submission) - 2 // the last one: each submitter before has had one at least
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

// oneCPU reports whether the task asks for no more and no less than one CPU.
func (s *spec) oneCPU() bool {
	return s.need.IsCPU(oneCPU)
}

// newInbound returns the memory of an inbound task. Inbound tasks that hold no other memory share an allocation with
// those that follow in the frame: sixteen small allocations cost more than all other work for a small task.
func (s *spec) newInbound(in *incoming) *inboundTask {
	if !s.fixed || s.value.Gated() {
		return (*inboundTask)(s.records(1, true))
	}
	if in.room.left == 0 || in.room.of != s.definition {
		n := min(1+in.Len()/leastTask/2, roomSize)
		in.room = room{of: s.definition, next: s.records(n, true), left: n}
	}
	t := (*inboundTask)(in.room.next)
	if in.room.left--; in.room.left == 0 { // a pointer must not be past the end
		in.room = room{}
	} else {
		in.room.next = unsafe.Add(in.room.next, s.inSize)
	}
	return t
}

// skip passes over an argument; false when that cannot be done without decoding it.
func (s *spec) skip(r *wire.Reader) bool {
	if s.refs {
		return false
	}
	ahead := *r
	if ahead.Large() {
		return false
	}
	r.Sized()
	return true
}

// receive reads an argument and makes the task. The error is the task's own. A corrupt frame shows as the error of in, which the
// caller checks.
func (s *spec) receive(x *exchange, p *peer, up *core.Turn, seq uint64, h taskwire.Head, in *incoming) (*inboundTask, error) {
	if h.Need != nil || h.Remakes || h.Stays || h.Labels != "" {
		special := *s
		if special.remakes, special.stays = h.Remakes, h.Stays; h.Need != nil {
			special.need, special.plain = *h.Need, false
		}
		if special.labels = h.Labels; h.Labels != "" {
			special.opts.Labels = taskwire.ReadLabels(h.Labels)
		}
		s = &special
	}
	t, r := s.newInbound(in), &in.Reader
	t.from, t.spec = p, s
	large := r.Large()
	if !large {
		if err := wire.ReadValue(r, s.arg, t.argAt(), p); err != nil {
			return nil, fmt.Errorf("read the argument: %w", err)
		}
	}
	t.Future.Init(t, up, seq, s.value.Gated())
	if up != nil && (h.Attempt > 1 || h.TimeLeft > 0 || h.Classed) { // without its turn it goes back
		spec := core.TurnSpec{Kind: core.TurnTask, Name: t.Name(), ID: t.Future.ID(), Up: up, Attempt: h.Attempt, Redraws: h.Redraws}
		if h.Classed {
			class := h.Class // of which alone this keeps a pointer: h stays on the stack
			spec.Class = &class
		}
		if h.TimeLeft > 0 {
			spec.Deadline = core.After(x.rt.Now(), time.Duration(h.TimeLeft))
		}
		t.Future.SetOwn(core.NewTurn(spec))
	}
	if large {
		if err := t.readParams(r, up, p); err != nil {
			return nil, fmt.Errorf("read the argument: %w", err)
		}
	}
	return t, nil
}

// oneByOne reports whether the tasks of a Map are submitted one by one, since each argument must be looked at.
func (s *spec) oneByOne(e *Engine, t *core.Turn) bool {
	return s.refs || !s.fixed || !s.plain || s.opts.Deadline != 0 || s.opts.Classed || t.Job().Inspect != nil || capturedBy(t) != nil || !e.hasRoom()
}

// submitAll submits the records of an array that begins with first, and puts references to them into links.
func (s *spec) submitAll(e *Engine, t *core.Turn, first *record, links []core.Link) {
	m := &bulk{entry: s.entry, first: first, n: int64(len(links)), size: s.recordSize}
	seq, gated := t.NextN(len(links)), s.value.Gated()
	for i := range links {
		r := m.at(int64(i))
		r.spec = s
		r.Future.Init(r, t, seq+uint64(i), gated)
		links[i] = core.LinkTo(&r.Future)
	}
	// One place in the queue per CPU: a worker that comes late finds its share, and a worker with a long task does
	// not keep others from the rest. On a node without CPUs one place serves the forwarder.
	for range min(len(links), max(int(e.line.Total()/oneCPU), 1)) {
		p := &bulkItem{bulk: m}
		p.place.Init(p, t, 0, false)
		e.push(&p.place)
	}
}

// checkMap is check for many tasks.
func (s *spec) checkMap(ctx context.Context) (*Engine, *core.Turn, error) {
	if s.opts.Name != "" {
		return nil, nil, fmt.Errorf("submit %s: %w: Detached(%q) with Map: a name is of one task, submit it with Go", s.entry, raysys.ErrBadOption, s.opts.Name)
	}
	return s.check(ctx)
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

func (s *spec) function() string { return s.entry.Name }

// within is s in a bundle, unless s is in one, or has conditions for its node.
func (s *spec) within(b *core.Bundle) *spec {
	if s.need.Bundle.Group != "" || s.opts.Conditional() {
		return s
	}
	in := *s
	in.opts.Bundle, in.need.Bundle, in.plain = *b, *b, false
	return &in
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
		return core.LinkTo(&r.Future)
	}
	told := make(chan struct{})
	t.Job().Tasks.(Starter).Start(ctx, rec, s.opts.Name, func(src core.Source, err error) {
		switch {
		case err != nil:
			err = fmt.Errorf("submit %s: %w", s.entry, err)
			r.refuse(d, err)
		case src == nil:
			d.waitForInputs()
		default:
			rec.cut(errJoined)
			d.joined.Store(&src)
			engineOf(t).checkDrained()
			r.fetch(src)
		}
		close(told)
	})
	t.Runtime().Block(t.Base())
	defer t.Runtime().Unblock(t.Base())
	var closed <-chan struct{}
	if t.Kind() == core.TurnRoot {
		closed = t.Job().Closed
	}
	select {
	case <-told:
		return core.LinkTo(&r.Future) // also of a task that is refused: who reads the error has looked at its failure
	case <-ctx.Done():
		return s.failed(fmt.Errorf("submit %s: %w: the store has not answered, and the task %q runs if it is recorded yet: %w",
			s.entry, raysys.ErrOutcomeUnknown, s.opts.Name, context.Cause(ctx)))
	case <-closed:
		return s.failed(fmt.Errorf("submit %s: %w", s.entry, raysys.ErrClosed))
	}
}

// check makes the checks of every submission and returns the engine and the turn to submit under.
func (s *spec) check(ctx context.Context) (*Engine, *core.Turn, error) {
	t, own, err := core.TurnOf(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("submit %s: %w", s.entry, err)
	}
	e := engineOf(t)
	switch {
	case !s.entry.In(e.cfg.Table):
		return nil, nil, fmt.Errorf("submit: %w", s.entry.Unknown())
	case s.opts.Err != nil:
		return nil, nil, fmt.Errorf("submit %s: %w", s.entry, s.opts.Err)
	case e.closed.Load():
		return nil, nil, fmt.Errorf("submit %s: %w", s.entry, raysys.ErrClosed)
	case !s.plain && s.opts.Bundle.Captures && s.opts.Bundle.Group == "": // not while the handle is made: a later option may give the group
		return nil, nil, fmt.Errorf("submit %s: %w", s.entry, core.ErrCapturesAlone)
	case !s.plain && e.cfg.Place == nil:
		if err := e.fits(s.need); err != nil {
			return nil, nil, fmt.Errorf("submit %s: %w", s.entry, err)
		}
	}
	if err := ended(ctx, t, own); err != nil {
		return nil, nil, fmt.Errorf("submit %s: %w", s.entry, err)
	}
	if s.opts.Name != "" {
		if err := s.startable(ctx, t); err != nil {
			return nil, nil, fmt.Errorf("submit %s: %w", s.entry, err)
		}
	}
	if s.opts.Detached {
		t = t.Detached()
	}
	return e, t, nil
}

// submit submits r, which has its argument.
func (s *spec) submit(ctx context.Context, r *record) core.Link {
	e, t, err := s.check(ctx)
	if err != nil {
		return s.failed(err)
	}
	if b := capturedBy(t); b != nil {
		s = s.within(b)
	}
	r.spec = s
	if j := t.Job(); j.Inspect != nil {
		if err := core.HandOver(j, "argument of "+s.entry.String()+core.CallSite(programsCaller), s.argType, r.argAt()); err != nil {
			return s.failed(err)
		}
	}
	r.Future.Init(r, t, t.Next(), s.value.Gated())
	if s.opts.Deadline != 0 || s.opts.Classed {
		s.ownTurn(r, t)
	}
	if s.refs {
		if futures := r.dependencies(); len(futures) > 0 {
			if err := s.roomForHeld(ctx, e, t); err != nil {
				return s.failed(err)
			}
			d := &deps{futures: futures}
			r.hold(t, d)
			r.Future.OwnTurn().Pin(futures)
			return s.release(ctx, t, r, d)
		}
	}
	if s.opts.Name != "" {
		d := &deps{}
		r.hold(t, d)
		return s.start(ctx, t, r, d)
	}
	if j := joinerOf(t); j != nil {
		d := &deps{}
		r.hold(t, d)
		r.join(j, d)
		return core.LinkTo(&r.Future)
	}
	if !e.hasRoom() {
		ran, err := s.overflow(ctx, e, t, r)
		if err != nil {
			return s.failed(err)
		}
		if ran { // it may have a further attempt before it, which comes by itself
			return core.LinkTo(&r.Future)
		}
	}
	r.count(e)
	r.queueOrPlace(e)
	return core.LinkTo(&r.Future)
}

// failed is a reference that has failed: submissions report everything through their reference.
func (s *spec) failed(err error) core.Link { return core.LinkTo(core.FailedOf(s.value, err)) }

// ownTurn gives the task a turn, with its deadline and its class.
func (s *spec) ownTurn(r *record, t *core.Turn) {
	spec := core.TurnSpec{Kind: core.TurnTask, Name: r.Name(), ID: r.Future.ID(), Up: t, Attempt: 1, Class: s.class()}
	if s.opts.Deadline != 0 {
		spec.Deadline, spec.Limit = core.After(t.Runtime().Now(), s.opts.Deadline), s.opts.Deadline
	}
	r.Future.SetOwn(core.NewTurn(spec))
}

// class is that which the handle gives; nil: that of the turn that submits.
func (s *spec) class() *core.Class {
	if !s.opts.Classed {
		return nil
	}
	return &s.opts.Class
}

// overflow is what happens when the queue is full (rule C6). A driver waits for room. A task or a grain's turn must
// not wait, or all CPUs could wait for each other: it runs the child in place, or gets ErrOverloaded.
func (s *spec) overflow(ctx context.Context, e *Engine, t *core.Turn, r *record) (ran bool, err error) {
	if t.Kind() == core.TurnRoot {
		if err := e.waitRoom(ctx); err != nil {
			return false, fmt.Errorf("submit %s: %w", s.entry, err)
		}
		return false, nil
	}
	bytes := r.count(e) // run takes it off
	if r.Help(t) {
		return true, nil
	}
	e.started(bytes)
	return false, s.full(e)
}

// roomForHeld is overflow for a task that waits for its arguments first, and so cannot run in place.
func (s *spec) roomForHeld(ctx context.Context, e *Engine, t *core.Turn) error {
	if e.hasRoom() {
		return nil
	}
	if t.Kind() != core.TurnRoot {
		return s.full(e)
	}
	if err := e.waitRoom(ctx); err != nil {
		return fmt.Errorf("submit %s: %w", s.entry, err)
	}
	return nil
}

func (s *spec) full(e *Engine) error {
	return fmt.Errorf("submit %s: %w: the task queue is full (%d tasks, %d bytes of arguments): submit fewer at a time, or raise system.Config.QueueTasks",
		s.entry, raysys.ErrOverloaded, e.Queued(), e.bytes.Load())
}

// record makes a record without argument.
func (s *spec) record() *record {
	r := (*record)(s.records(1, false))
	r.spec = s
	return r
}

// release lets a task that is held by d go on: at once, or when what is recorded of it is known.
func (s *spec) release(ctx context.Context, t *core.Turn, r *record, d *deps) core.Link {
	if s.opts.Name != "" {
		return s.start(ctx, t, r, d)
	}
	if j := joinerOf(t); j != nil {
		r.join(j, d)
	} else {
		d.waitForInputs()
	}
	return core.LinkTo(&r.Future)
}
