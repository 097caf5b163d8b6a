package taskengine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

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
	again := had && last.id == r.ID                                                         // by the next attempt of what had submitted it
	if had && !again && last.future.Settled() && (r.Key == "" || last.digest != r.Digest) { // else it is the same one
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
func (n *Names) LookupTask(_ context.Context, name string) (*core.Future, error) {
	t, err := n.find(name)
	if err != nil {
		return nil, err
	}
	return &core.NewUntyped(n.job, core.Through(t.future)).Future, nil
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
