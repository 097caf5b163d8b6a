package lineage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/taskengine"
)

// A detached task with a name ends by Cancel and by Forget on any node, also when its submitter is dead:
//
//	Cancel ──▶ the record has the outcome ErrCancelled: no worker takes the task ──▶ the submitter is told, and cancels it
//	Forget ──▶ there is no record any more ─────────────────────────────────────────▶ the same
//
// What the submitter was told may be lost: it looks at the record now and then too.

const (
	// lookEvery is the time between two looks of a submitter at the record of a task with a name.
	lookEvery = 10 * time.Second
	// longRun is how long an attempt runs until the death of its node is not taken for the task's doing. It is found out at a look.
	longRun = time.Minute
	// cancelPatience is how long Cancel waits until the record has it. Then it goes on behind Cancel, while this node lives.
	cancelPatience = 5 * time.Second
)

// EndTask implements core.TaskNames.
func (l *Lineage) EndTask(c *core.Future) func() {
	k := l.nameOf(c)
	if !k.Named() {
		return nil
	}
	return func() { end(l, k) }
}

// EndNamed ends the detached task of a namespace that has a name, as EndTask does. The error matches raysys.ErrNotFound where there is none,
// or it has settled.
func EndNamed(ctx context.Context, l *Lineage, namespace, name string) error {
	k := registry.NamedTask(namespace, name)
	rec, err := l.find(ctx, k)
	switch {
	case err != nil:
		return err
	case rec == nil || rec.Name != name:
		return fmt.Errorf("%w: no task has the name", raysys.ErrNotFound)
	case len(rec.Outcome) > 0:
		return fmt.Errorf("%w: the task with the name has settled", raysys.ErrNotFound)
	}
	k.ID = rec.Start.ID
	end(l, k)
	return nil
}

// end has the record of a task say that it is cancelled, and its submitter look.
func end(l *Lineage, k registry.TaskKey) {
	there := make(chan struct{})
	tries := 0
	l.change(registry.CancelTask(k, appendFailure(nil, k.ID, raysys.ErrCancelled)), &tries, func(e registry.TaskEntry) {
		if e.Exists {
			l.cfg.Refs.TakeAt(e.Record.Submitter, k.Run, k.ID)
		}
		close(there)
	})
	late := make(chan struct{})
	l.cfg.Runner.After(cancelPatience, func() { close(late) })
	select {
	case <-there:
	case <-late:
	case <-l.cfg.Runner.Context().Done():
	}
}

// nameOf returns the key of the task with a name that c refers to; else one that is not Named.
func (l *Lineage) nameOf(c *core.Future) registry.TaskKey {
	if joined := taskengine.JoinedOf(c); joined != nil {
		c = &core.NewUntyped(l.cfg.Job, joined).Future
	}
	if s, ok := core.SourceOf(c).(*successor); ok { // from Lookup
		return registry.TaskKey{Run: s.run, ID: s.id}
	}
	run, id := refs.RecordedAs(c)
	return registry.TaskKey{Run: run, ID: id}
}

// change makes a change of a record, again while the store is away. then gets the record, or none after another error.
func (l *Lineage) change(ch registry.TaskChange, tries *int, then func(registry.TaskEntry)) {
	l.cfg.Tasks.Change(ch, func(e registry.TaskEntry, err error) {
		if away(err) && l.cfg.Runner.Err() == nil {
			l.tryAfterPause(tries, func() { l.change(ch, tries, then) })
			return
		}
		if err != nil {
			l.cfg.Log("the record of a detached task cannot be changed", "error", err)
		}
		then(e)
	})
}

// lookAtRecord looks at the record of the task: one that is gone, or has an outcome, ends the task. The holding is looked at again later until it has
// settled.
func (h *holding) lookAtRecord() {
	l := h.lineage
	if h.future.Settled() || l.ends() {
		return
	}
	h.noteRun()
	l.cfg.Tasks.Change(registry.FindTask(h.key), func(e registry.TaskEntry, err error) {
		if err == nil && !e.Refused && (!e.Exists || len(e.Record.Outcome) > 0) {
			h.future.Cancel(raysys.ErrCancelled)
		}
	})
}

func (h *holding) lookAgain() {
	h.lineage.cfg.Runner.After(lookEvery, func() {
		if h.lookAtRecord(); !h.future.Settled() {
			h.lookAgain()
		}
	})
}

// noteRun has the record say that the attempt has run for long.
func (h *holding) noteRun() {
	l, c, now := h.lineage, h.future, h.lineage.cfg.Runner.Now()
	l.mu.Lock()
	attempt := c.OwnTurn().Attempt() // its recipe hangs there
	switch {
	case c.Pending():
		h.attempt = 0
	case h.attempt != attempt:
		h.attempt, h.since, h.ran = attempt, now, false
	}
	long := h.attempt != 0 && !h.ran && time.Duration(now-h.since) >= longRun
	h.ran = h.ran || long
	l.mu.Unlock()
	if long {
		taskengine.Ran(c)
		l.cfg.Tasks.Change(registry.RanTask(h.key, h.rec.Submission()), func(registry.TaskEntry, error) {})
	}
}

// Excuse has the records of the tasks with names that this node submits say that its end is no fault of theirs, and
// returns their ids.
func Excuse(ctx context.Context, l *Lineage) (ids []raysys.TaskID) {
	l.mu.Lock()
	held := slices.Collect(maps.Values(l.held))
	l.mu.Unlock()
	for _, h := range held {
		if h.future.Settled() {
			continue
		}
		ids = append(ids, h.future.ID())
		_, _ = runner.Wait(ctx, func(done func(registry.TaskEntry, error)) { // without that it is an attempt
			l.cfg.Tasks.Change(registry.RanTask(h.key, h.rec.Submission()), done)
		})
	}
	return ids
}

// ListTasks implements core.TaskNames.
func (l *Lineage) ListTasks() (list []core.NamedTask) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.held {
		if !h.future.Settled() {
			list = append(list, core.NamedTaskOf(h.future, h.rec.GivenName(), h.rec.Name()))
		}
	}
	slices.SortFunc(list, func(a, b core.NamedTask) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
