package taskengine

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// Names are the detached tasks with names of a process that is in no cluster: in its memory, and for as long as it lives. Package lineage
// has them in a cluster. The rules are the same:
//
//	Start ──► the name is free, or its task has settled ──► the task runs, and has the name until Forget
//	      ──► the same content runs under the name ───────► the task settles when that one has
type Names struct {
	job *core.Job

	mu   sync.Mutex // guards list
	list map[string]namedTask
}

// namedTask is the last task that was started under a name.
type namedTask struct {
	future   *core.Future // pinned
	id       raysys.TaskID
	digest   uint64
	function string
}

var (
	_ Starter        = (*Names)(nil)
	_ core.TaskNames = (*Names)(nil)
)

// NewNames makes the names of a node that is in no cluster.
func NewNames(job *core.Job) *Names { return &Names{job: job, list: map[string]namedTask{}} }

// Start implements Starter.
func (n *Names) Start(_ context.Context, rec *Recipe, name string, done func(core.Source, error)) {
	r, err := rec.Recording()
	c := rec.Future()
	if err == nil {
		err = c.Pin()
	}
	if err != nil {
		done(nil, err)
		return
	}
	n.mu.Lock()
	last, had := n.list[name]
	again := had && last.id == r.ID // by the next attempt of what had submitted it
	next := r.Key == "" || r.Key != ForGood && last.digest != r.Digest
	if had && !again && last.future.Settled() && next { // else it is the same one
		last.future.Unpin()
		had = false
	}
	if !had {
		n.list[name] = namedTask{c, r.ID, r.Digest, rec.Name()}
	}
	n.mu.Unlock()
	switch {
	case !had:
		done(nil, nil)
		return
	case last.digest != r.Digest:
		err = NameTaken(name, last.function)
	}
	c.Unpin()
	if err != nil {
		done(nil, err)
		return
	}
	done(core.Through(last.future), nil)
}

// find returns the task that has the name.
func (n *Names) find(name string) (namedTask, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t, ok := n.list[name]
	if !ok {
		return t, fmt.Errorf("%w: no object and no task of this process has it", raysys.ErrNotFound)
	}
	return t, nil
}

// LookupTask implements core.TaskNames.
func (n *Names) LookupTask(_ context.Context, name string) (f core.FoundTask, err error) {
	t, err := n.find(name)
	if err != nil {
		return f, err
	}
	return core.FoundTask{Future: &core.NewUntyped(n.job, core.Through(t.future)).Future, Digest: t.digest, Over: t.future.Settled()}, nil
}

// ForgetTask implements core.TaskNames.
func (n *Names) ForgetTask(_ context.Context, name string) error {
	t, err := n.find(name)
	if err != nil {
		return err
	}
	n.mu.Lock()
	if n.list[name] == t {
		delete(n.list, name)
		defer t.future.Unpin()
	}
	n.mu.Unlock()
	t.future.Cancel(raysys.ErrCancelled)
	return nil
}

// EndTask implements core.TaskNames.
func (n *Names) EndTask(c *core.Future) func() {
	c = core.HeldBy(cmp.Or(core.SourceOf(c), JoinedOf(c)))
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range n.list {
		if t.future == c {
			return func() { c.Cancel(raysys.ErrCancelled) }
		}
	}
	return nil
}

// ListTasks implements core.TaskNames.
func (n *Names) ListTasks() (list []core.NamedTask) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, t := range n.list {
		if !t.future.Settled() {
			list = append(list, core.NamedTaskOf(t.future, name, t.function))
		}
	}
	slices.SortFunc(list, func(a, b core.NamedTask) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// lineage bounds what the recipes of a node take: beyond the budget the oldest are cut. It keeps none of them alive. A
// recipe that the collector finds gives back what it counted for.
type lineage struct {
	max  int64
	used atomic.Int64
	live atomic.Int64 // recipes that have not been collected

	mu    sync.Mutex             // guards order
	order []weak.Pointer[recipe] // the oldest first, with some that are gone
}

// weight is what one recipe counts for. It outlives the recipe by a moment.
type weight struct {
	of     *lineage
	bytes  atomic.Int64
	pins   atomic.Pointer[[]*core.Future] // inputs that the recipe keeps by value, also where the program releases them
	record atomic.Pointer[Record]         // of one that is recorded
}

// give gives back, once, what the recipe has taken.
func (w *weight) give() {
	w.of.used.Add(-w.bytes.Swap(0))
	if pins := w.pins.Swap(nil); pins != nil {
		for _, c := range *pins {
			c.Unpin()
		}
	}
}

// collected is called when the collector has found the recipe: nobody can ask for the task here.
func (w *weight) collected() {
	w.give()
	if r := w.record.Load(); r != nil {
		(*r).Forget()
	}
	w.of.live.Add(-1)
}

// enter counts a recipe of size bytes, and cuts the oldest while there are too many.
func (l *lineage) enter(rec *recipe, size int64) {
	w := rec.weight
	w.bytes.Store(size)
	runtime.AddCleanup(rec, (*weight).collected, w)
	live := l.live.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.order = append(l.order, weak.Make(rec))
	if int64(len(l.order)) > 2*live+64 {
		l.compactLocked()
	}
	for used := l.used.Add(size); used > l.max && len(l.order) > 0; used = l.used.Load() {
		if oldest := l.order[0].Value(); oldest != nil {
			oldest.cut(errBudget)
		}
		l.order = l.order[1:]
	}
}

// close lets go of what the recipes lead to: nothing runs again once the node has closed. What a cleanup is given stays until
// the recipe is collected, so that a closed node, to which records and inputs lead, would stay for ever.
func (l *lineage) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.order {
		if rec := p.Value(); rec != nil {
			rec.weight.give()
			rec.weight.record.Store(nil)
		}
	}
}

// compactLocked forgets the recipes that were collected; the caller holds mu.
func (l *lineage) compactLocked() {
	kept := l.order[:0]
	for _, w := range l.order {
		if w.Value() != nil {
			kept = append(kept, w)
		}
	}
	clear(l.order[len(kept):])
	l.order = kept
}
