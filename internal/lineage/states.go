package lineage

import (
	"errors"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/taskengine"
)

// Recorded tasks to which States refer. No node may hold a reference then: the grain is not active.
//
//	RetainTask ── the submitter? ──▶ RetainHere ── the State's key ──▶ the task's record
//	                                     │ pins the future, and watches the State's record until that does not list the task
//	                                     ✝
//	the leader of the task's shard ──▶ Take, at a worker ── claim ──▶ the same there
//
// A State lists a task by its id, among the objects that it retains.

// StateRecords are the records of States. Package registry implements it.
type StateRecords interface {
	Find(key string, done func(registry.Entry, error))
	// FindLast is Find behind all changes that the leader was asked for before.
	FindLast(key string, done func(registry.Entry, error))
	// Next is Find once the record has another version than before.
	Next(key string, before registry.Entry, done func(registry.Entry, error))
}

// retained is a task of this node to which States refer. Lineage.mu guards it.
type retained struct {
	future *core.Future           // pinned
	states map[string]*stateWatch // by key: the last retention of each State
	turns  []func(over func())    // changes of the record that wait; the first is being made
	listed map[string]bool        // the States in the task's record
	rec    *taskengine.Recipe     // of the task
}

// stateWatch watches the record of a State from one retention on.
type stateWatch struct {
	lineage *Lineage
	key     registry.TaskKey
	state   string
	looked  bool // at the State as it was at the retention
	written bool // the State lists the task
	late    bool // grace is over
}

const (
	// grace is how long a State may take to be written after its tasks were retained.
	grace = 2 * time.Minute
	// watchPause is the time until the record of a State is asked for again after an error.
	watchPause = time.Second
	// retainTries bounds the search for a submitter that retains a task.
	retainTries = 20
)

var errNotSubmitter = errors.New("this node does not have the task")

// stateTasks are the tasks of this node to which States refer.
type stateTasks struct {
	l        *Lineage
	retained map[registry.TaskKey]*retained // Lineage.mu guards it
}

// retaining is the search for the submitter of a task that shall retain it.
type retaining struct {
	lineage *Lineage
	key     registry.TaskKey
	state   string
	tries   int
	done    func(core.RetainedTask, error)
}

// look reads the record of the task.
func (s *retaining) look() {
	l, k := s.lineage, s.key
	if l.Find(k.Run, k.ID) != nil {
		l.RetainHere(k.Run, k.ID, s.state, s.answered)
		return
	}
	l.cfg.Tasks.Change(registry.FindTask(k), func(e registry.TaskEntry, err error) {
		at := e.Record.Submitter
		switch {
		case err != nil:
			s.answered(err)
		case !e.Exists || e.Refused:
			s.end(errUnrecorded)
		case at != l.cfg.Self() && l.cfg.Alive(at):
			s.ask(at)
		default:
			l.Succeed(k.Run, k.ID, nil, func(_ core.Source, err error) {
				if err == nil {
					err = errNotSubmitter // it may be another node
				}
				s.answered(err)
			})
		}
	})
}

func (s *retaining) ask(at core.NodeKey) {
	s.lineage.cfg.Refs.RetainAt(at, s.key.Run, s.key.ID, s.state, s.answered)
}

func (s *retaining) answered(err error) {
	switch {
	case err == nil, errors.Is(err, raysys.ErrTooLarge), s.tries == retainTries, s.lineage.cfg.Runner.Err() != nil:
		s.end(err)
	default:
		s.lineage.pause(&s.tries, s.look)
	}
}

func (s *retaining) end(err error) {
	if err != nil {
		s.lineage.cfg.Log("a State refers to a task that does not stay for it", "task", s.key.ID, "error", err)
	}
	s.done(core.RetainedTask{Run: s.key.Run, ID: s.key.ID, Retained: err == nil}, nil)
}

// enterState enters a State in the record of a task that this node retains.
func (st *stateTasks) enterState(k registry.TaskKey, r *retained, w *stateWatch, over func(), done func(error)) {
	st.l.cfg.Tasks.Change(registry.RetainTask(k, r.rec.Namespace(), "task "+r.rec.Name(), w.state), func(e registry.TaskEntry, err error) {
		if err == nil && (e.Refused || !e.Exists) {
			err = errNotSubmitter
		}
		st.l.mu.Lock()
		r.listed[w.state] = err == nil || r.listed[w.state]
		st.l.mu.Unlock()
		over()
		if err != nil {
			w.end()
		} else {
			w.begin()
		}
		done(err)
	})
}

// retainTask enters a retention of a task of this node; nil where it is none. listed says that the task's record has the State.
func (st *stateTasks) retainTask(k registry.TaskKey, state string, listed bool) (*stateWatch, *retained) {
	st.l.mu.Lock()
	defer st.l.mu.Unlock()
	r := st.retained[k]
	if st.l.own[k] == nil { // its recipe is of no use any more
		return nil, nil
	}
	if r == nil {
		c := st.l.findLocked(k)
		if c == nil || c.Pin() != nil {
			return nil, nil
		}
		rec, _ := taskengine.RecipeOf(c)
		if rec == nil {
			c.Unpin()
			return nil, nil
		}
		r = &retained{future: c, rec: rec, states: map[string]*stateWatch{}, listed: map[string]bool{}}
		st.retained[k] = r
	}
	w := &stateWatch{lineage: st.l, key: k, state: state}
	r.states[state] = w
	r.listed[state] = r.listed[state] || listed
	return w, r
}

// retainAll keeps a task for the States that its record names. This node has become the submitter of the task.
func (st *stateTasks) retainAll(k registry.TaskKey, states []string) {
	for _, s := range states {
		if w, r := st.retainTask(k, s, true); w != nil {
			w.begin()
			st.l.large.makeStay(r.rec, func() {})
		}
	}
}

// changeInTurn makes one change of the record of a retained task at a time, in their order.
func (st *stateTasks) changeInTurn(k registry.TaskKey, r *retained, change func(over func())) {
	st.l.mu.Lock()
	r.turns = append(r.turns, change)
	first := len(r.turns) == 1
	st.l.mu.Unlock()
	if first {
		change(func() { st.endChange(k, r) })
	}
}

// endChange makes the next change of the record. After the last one a task to which no State refers is let go of.
func (st *stateTasks) endChange(k registry.TaskKey, r *retained) {
	st.l.mu.Lock()
	r.turns = r.turns[1:]
	var next func(func())
	if len(r.turns) > 0 {
		next = r.turns[0]
	}
	unused := next == nil && len(r.states) == 0 && st.retained[k] == r
	if unused {
		delete(st.retained, k)
	}
	st.l.mu.Unlock()
	switch {
	case next != nil:
		next(func() { st.endChange(k, r) })
	case unused:
		r.future.Unpin()
	}
}

// begin begins the watch.
func (w *stateWatch) begin() {
	w.lineage.cfg.States.Find(w.state, w.seen)
	w.lineage.cfg.Runner.After(grace, w.unwritten)
}

// currentLocked reports whether w is the last retention for its State. Lineage.mu is held.
func (w *stateWatch) currentLocked() bool {
	r := w.lineage.states.retained[w.key]
	return r != nil && r.states[w.state] == w && w.lineage.cfg.Runner.Err() == nil
}

// seen takes an answer about the State's record: the record as it is at first, then each change of it. The first version
// after the retention decides: one activation at a time writes a State, and it writes after its retentions are made.
func (w *stateWatch) seen(e registry.Entry, err error) {
	l := w.lineage
	listed := slices.Contains(e.Held, w.key.ID)
	l.mu.Lock()
	current, first := w.currentLocked(), !w.looked
	if err == nil {
		w.looked, w.written = true, w.written || listed
	}
	l.mu.Unlock()
	switch {
	case !current:
	case err != nil:
		l.cfg.Runner.After(watchPause, func() { l.cfg.States.Find(w.state, w.seen) })
	case listed || first:
		l.cfg.States.Next(w.state, e, w.seen)
	default:
		w.end()
	}
}

// unwritten ends a retention whose State was never written. The leader answers in order, so a read comes after the writes that were asked for before it: where
// two reads, a grace apart, do not list the task, no write will.
func (w *stateWatch) unwritten() {
	l := w.lineage
	l.mu.Lock()
	over := !w.currentLocked() || w.written
	l.mu.Unlock()
	if over {
		return
	}
	l.cfg.States.FindLast(w.state, func(e registry.Entry, err error) {
		l.mu.Lock()
		pause, late := grace, w.late
		if err != nil {
			pause = watchPause
		} else {
			w.late, w.written = true, w.written || slices.Contains(e.Held, w.key.ID)
		}
		over := !w.currentLocked() || w.written
		l.mu.Unlock()
		switch {
		case over:
		case err == nil && late:
			w.end()
		default:
			l.cfg.Runner.After(pause, w.unwritten)
		}
	})
}

// end ends the retention, unless a later one of the State has taken its place.
func (w *stateWatch) end() {
	l := w.lineage
	l.mu.Lock()
	r := l.states.retained[w.key]
	if r == nil || r.states[w.state] != w {
		l.mu.Unlock()
		return
	}
	delete(r.states, w.state)
	l.mu.Unlock()
	l.states.changeInTurn(w.key, r, func(over func()) {
		l.mu.Lock()
		keep := r.states[w.state] != nil || !r.listed[w.state]
		if !keep {
			delete(r.listed, w.state)
		}
		l.mu.Unlock()
		if keep {
			over()
			return
		}
		l.cfg.Tasks.Change(registry.RetainTaskEnd(w.key, w.state), func(registry.TaskEntry, error) { over() })
	})
}
