package lineage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/taskengine"
)

// Detached tasks with names: their start, their next submitters and their ends. See registry.NamedTask for the record.
//
//	Start ── entered ──▶ held ── settles ──▶ outcome in the record, or as an object of two nodes ──▶ no more held
//	                      ✝
//	the leader ─────────▶ Take ── claim ──▶ held, begun
//
// Who waits reads the record until that has an outcome or a submitter that lives: it never claims.

// start is a task that is being started.
type start struct {
	lineage *Lineage
	ctx     context.Context
	rec     *taskengine.Recipe
	r       taskengine.Recording
	key     registry.TaskKey
	entry   registry.TaskRecord
	before  registry.TaskRecord // what the name has had
	recipe  []byte
	large   *largeRecipe // the recipe, where that is an object
	tries   int
	done    func(core.Source, error)
}

// Start implements taskengine.Starter.
func (l *Lineage) Start(ctx context.Context, rec *taskengine.Recipe, name string, done func(core.Source, error)) {
	r, err := rec.Recording()
	if err != nil {
		done(nil, err)
		return
	}
	s := &start{lineage: l, ctx: ctx, rec: rec, r: r, done: done, key: registry.NamedTask(rec.Namespace(), name)}
	s.key.ID = r.ID
	l.recordInputs(&r, func(err error) {
		if err != nil {
			done(nil, err)
			return
		}
		s.entry = registry.TaskRecord{
			Digest: r.Digest, Detached: true, Name: name,
			Start: registry.TaskKey{Run: r.Run, ID: r.ID}, Namespace: rec.Namespace(), Function: "task " + rec.Name(),
		}
		s.recipe = l.recipe(&r)
		s.look()
	})
}

// look reads what the name has, for the object that its outcome may be.
func (s *start) look() {
	k := s.key
	k.ID = raysys.TaskID{}
	s.lineage.cfg.Tasks.Change(registry.FindTask(k), func(e registry.TaskEntry, err error) {
		if err != nil {
			s.again(err, s.look)
			return
		}
		s.before = e.Record
		s.fit()
	})
}

// fit makes an object of a recipe that is too large for the record.
func (s *start) fit() {
	if s.entry.Recipe != nil {
		s.enter()
		return
	}
	s.lineage.fit(s.rec.Name(), s.recipe, true, func(recipe []byte, large *largeRecipe, err error) {
		if err != nil {
			s.again(err, s.fit)
			return
		}
		s.entry.Recipe, s.large = recipe, large
		s.enter()
	})
}

// enter enters the record.
func (s *start) enter() {
	l := s.lineage
	l.cfg.Tasks.Change(registry.EnterTask(s.key, s.entry), func(e registry.TaskEntry, err error) {
		t := &e.Record
		switch {
		case err != nil:
			s.again(err, s.enter)
		case !e.Exists:
			s.done(nil, fmt.Errorf("%w: the cluster holds this node for dead", raysys.ErrFenced))
		case t.Name != s.entry.Name || t.Digest != s.entry.Digest:
			s.large.drop()
			s.done(nil, fmt.Errorf("%w: %q is the name of a task of function %q, which was submitted with another function or argument and has not settled: Lookup finds it, Forget frees the name",
				raysys.ErrNameTaken, s.entry.Name, t.Function))
		case e.Refused || len(t.Outcome) > 0 || !l.start(s, t.Attempt):
			l.Succeed(s.key.Run, t.Start.ID, nil, func(src core.Source, err error) {
				if errors.Is(err, errUnrecorded) { // it has settled since, and another has its name, or none
					s.look()
					return
				}
				s.large.drop()
				s.done(src, err)
			})
		default:
			s.done(nil, nil)
			l.dropObjects(&s.before)
		}
	})
}

// again tries once more while the store is away.
func (s *start) again(err error, try func()) {
	if s.ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(s.ctx), err)
	} else if away(err) {
		s.lineage.pause(&s.tries, try)
		return
	}
	s.done(nil, err)
}

// away reports whether err may pass: the store, or the leader of a shard, does not answer for now.
func away(err error) bool {
	return errors.Is(err, raysys.ErrUnreachable) || errors.Is(err, raysys.ErrSuspended) || errors.Is(err, raysys.ErrOutcomeUnknown)
}

// untilAgain is the longest pause between two questions about the task of a name.
const untilAgain = time.Second

// pause calls try after a pause that grows with the number of tries.
func (l *Lineage) pause(tries *int, try func()) {
	*tries++ // before the pause: try may be called on another goroutine
	l.cfg.Runner.After(min(10*time.Millisecond<<min(*tries, 10), untilAgain), try)
}

// start holds a task that this node has entered; false if it has that task already.
func (l *Lineage) start(s *start, attempt uint32) bool {
	c := s.rec.Future()
	if c == nil || l.Find(s.key.Run, s.key.ID) != nil {
		return false
	}
	l.hold(s.key, s.rec, attempt, c, s.large)
	return true
}

// holding is a task with a name whose submitter this node is. It is held until its outcome is recorded.
type holding struct {
	core.Waiter
	lineage *Lineage
	key     registry.TaskKey
	rec     *taskengine.Recipe
	future  *core.Future
}

// hold makes this node the submitter of a task with a name.
func (l *Lineage) hold(k registry.TaskKey, rec *taskengine.Recipe, attempt uint32, c *core.Future, large *largeRecipe) {
	_ = c.Pin() // the program may release it
	h := &holding{lineage: l, key: k, rec: rec, future: c}
	l.owns(k, rec, attempt, c, large)
	l.mu.Lock()
	l.held[k] = h
	l.mu.Unlock()
	if !c.Subscribe(&h.Waiter, h) {
		h.Resolved(nil)
	}
}

// Resolved implements core.Resolved.
func (h *holding) Resolved(*core.Waiter) {
	l, c := h.lineage, h.future
	switch {
	case l.ends(): // the next submitter runs it again
	case c.Object() && !c.Failed():
		refs.WhenHere(c, func(_ any, err error) { l.cfg.Runner.Run(func() { h.publish(err) }) })
	default:
		l.tell(h.rec, c, h.settled)
	}
}

// ends reports whether this node ends. What fails by that has no outcome: a task with a name outlives the node.
func (l *Lineage) ends() bool { return l.cfg.Job.Top.Cancelled() != nil || l.cfg.Runner.Err() != nil }

// settled is called when the outcome is in the record, or when the record is another submitter's.
func (h *holding) settled(err error) {
	l := h.lineage
	l.mu.Lock()
	delete(l.held, h.key)
	if t := h.future.OwnTurn(); err == nil && t != nil {
		t.Finish() // whoever submits it again gets the outcome
	}
	if err != nil {
		delete(l.own, h.key) // and the next submitter needs what the recipe lies in
	}
	l.mu.Unlock()
	l.disown(h.key) // who asks from now on reads the record
	h.future.Unpin()
}

// publish gives an outcome that is an object, and that is here, a name, by which it is found as long as a node has it. err
// is why it did not come.
func (h *holding) publish(err error) {
	l, c := h.lineage, h.future
	names, ctx := l.cfg.Job.Objects.(core.Names), l.cfg.Runner.Context()
	out := recorded{form: inputNamed, id: c.ID(), name: fmt.Sprintf("\x00task %s %d", c.ID(), h.rec.Submission())}
	if err == nil {
		err = l.publish(c, out.name)
	}
	switch {
	case l.ends():
		return
	case away(err):
		l.cfg.Runner.After(untilAgain, func() { l.cfg.Runner.Run(func() { h.publish(nil) }) })
		return
	}
	l.mu.Lock()
	t := l.own[h.key]
	t.waiting = append(t.waiting, func(err error) {
		if err != nil { // another node is the submitter
			l.cfg.Runner.Run(func() { _ = names.Forget(ctx, out.name) })
		}
		h.settled(err)
	})
	l.mu.Unlock()
	if err != nil {
		l.settle(t, h.key, h.rec, appendFailure(nil, c.ID(), fmt.Errorf("keep the result of task %s: %w", h.rec.Name(), err)))
		return
	}
	l.settle(t, h.key, h.rec, out.appendNamed(nil))
}

// publish gives an object a name: in files if nodes have directories for that, and on two nodes, a driver not counted, if there are two.
func (l *Lineage) publish(c *core.Future, name string) (err error) {
	names, ctx := l.cfg.Job.Objects.(core.Names), l.cfg.Runner.Context()
	for replicas := 2; replicas > 0; replicas-- {
		for _, onDisk := range []bool{true, false} {
			err = names.Publish(ctx, c, core.PutSpec{Name: name, Replicas: replicas, OnDisk: onDisk, Others: l.cfg.Driver})
			if err == nil || ctx.Err() != nil || away(err) {
				return err
			}
		}
	}
	return err
}

// Take implements refs.Lineage.
func (l *Lineage) Take(run uint64, id raysys.TaskID) {
	k := registry.TaskKey{Run: run, ID: id}
	l.mu.Lock()
	busy := l.taking[k] || l.findLocked(k) != nil
	l.taking[k] = l.taking[k] || !busy
	l.mu.Unlock()
	if busy {
		return
	}
	over := func() {
		l.mu.Lock()
		delete(l.taking, k)
		l.mu.Unlock()
	}
	l.cfg.Tasks.Change(registry.FindTask(k), func(e registry.TaskEntry, err error) {
		if err == nil && e.Exists && !l.readable(&e.Record) || err != nil || !e.Exists {
			over()
			return
		}
		if !k.Named() {
			l.Succeed(run, id, nil, func(core.Source, error) { over() })
			return
		}
		l.take(k, over)
	})
}

// readable reports whether this node can run the task of a record.
func (l *Lineage) readable(t *registry.TaskRecord) bool {
	err := error(nil)
	switch {
	case len(t.Recipe) == 0: // it has settled
		return false
	case t.Recipe[0] > largeVersion:
		err = errVersion
	case !l.cfg.Engine.Has(functionOf(t)):
		err = fmt.Errorf("%w: %s", raysys.ErrUnknownFunc, t.Function)
	default:
		return true
	}
	l.cfg.Log("a task waits for another worker", "task", t.Name, "function", t.Function, "error", err)
	return false
}

func functionOf(t *registry.TaskRecord) string {
	return t.Function[min(len("task "), len(t.Function)):]
}

// take claims a task, and runs it.
func (l *Lineage) take(k registry.TaskKey, over func()) {
	l.cfg.Tasks.Change(registry.ClaimTask(k), func(e registry.TaskEntry, err error) {
		switch {
		case err != nil && l.cfg.Runner.Err() == nil: // the claim may have been made
			l.cfg.Runner.After(untilAgain, func() { l.take(k, over) })
			return
		case err == nil && e.Exists && !e.Refused && l.Find(k.Run, k.ID) == nil:
			l.run(k, &e.Record, over)
			return
		}
		over()
	})
}

// run runs a task that this node has claimed.
func (l *Lineage) run(k registry.TaskKey, rec *registry.TaskRecord, over func()) {
	l.open(k, rec.Recipe, func(recipe []byte, large *largeRecipe, err error) {
		switch {
		case l.ends(): // the next submitter runs it
			over()
			return
		case err != nil && !errors.Is(err, raysys.ErrObjectLost): // a node that has the recipe is away
			l.cfg.Runner.After(untilAgain, func() { l.run(k, rec, over) })
			return
		}
		made := *rec
		made.Recipe = recipe
		l.begin(k, &made, large, err)
		over()
	})
}

// begin runs a task whose recipe has come.
func (l *Lineage) begin(k registry.TaskKey, rec *registry.TaskRecord, large *largeRecipe, err error) {
	var t taskengine.Adopted
	if err == nil {
		t, err = l.remade(rec)
	}
	if err != nil { // its record is damaged: no node can
		err = fmt.Errorf("%w: %w", raysys.ErrObjectLost, err)
		large.drop()
		l.cfg.Log("a detached task cannot be run", "task", rec.Name, "error", err)
		l.cfg.Tasks.Change(registry.SettleTask(k, rec.Attempt, appendFailure(nil, k.ID, err)), func(registry.TaskEntry, error) {})
		return
	}
	l.hold(k, t.Recipe, rec.Attempt, t.Future, large)
	t.Recipe.Begin()
}

// find reads the record of a name, until it has an outcome or a submitter that lives.
func (a *adoption) find() {
	l := a.lineage
	l.cfg.Tasks.Change(registry.FindTask(a.key), func(e registry.TaskEntry, err error) {
		c := l.Find(a.key.Run, a.key.ID)
		switch {
		case l.cfg.Runner.Err() != nil:
			a.end(core.NodeKey{}, nil, fmt.Errorf("%w: %w", raysys.ErrClosed, l.cfg.Runner.Err()))
		case c != nil:
			a.end(l.cfg.Self(), refs.Here(c), nil)
		case away(err):
			a.again(err, a.claim)
		case err != nil:
			a.end(core.NodeKey{}, nil, fmt.Errorf("%w: its record: %w", raysys.ErrObjectLost, err))
		case e.Refused:
			a.end(core.NodeKey{}, nil, fmt.Errorf("%w: the cluster holds this node for dead", raysys.ErrFenced))
		case !e.Exists:
			a.end(core.NodeKey{}, nil, fmt.Errorf("%w: another task has its name by now, or none: %w", raysys.ErrObjectLost, errUnrecorded))
		case len(e.Record.Outcome) > 0:
			src, err := l.outcome(&e.Record)
			a.end(l.cfg.Self(), src, err)
		case e.Record.Submitter != l.cfg.Self() && l.cfg.Alive(e.Record.Submitter):
			a.ask(e.Record.Submitter)
		default: // the leader hands it to a worker
			a.again(raysys.ErrNodeDead, a.claim)
		}
	})
}
