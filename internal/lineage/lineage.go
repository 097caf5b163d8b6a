package lineage

import (
	"errors"
	"sync"
	"weak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wire"
)

// Records are the records of tasks in the store. Package registry implements it.
type Records interface {
	Change(ch registry.TaskChange, done func(registry.TaskEntry, error))
}

// References are this node's references to other nodes. Package refs implements it.
type References interface {
	Uncounted(owner core.NodeKey, id raysys.TaskID) *refs.RemoteSource
	Borrow(owner core.NodeKey, number uint64, id raysys.TaskID) core.Source
	FindAt(k core.NodeKey, run uint64, id raysys.TaskID, done func(core.Source, error))
	FindObject(owner core.NodeKey, number uint64, id raysys.TaskID, done func(core.Source, error))
	TakeAt(k core.NodeKey, run uint64, id raysys.TaskID)
	AtTick(f func())
	RetainAt(k core.NodeKey, run uint64, id raysys.TaskID, state string, done func(error))
}

// Config says what New makes a Lineage of.
type Config struct {
	Tasks  Records
	States StateRecords
	Refs   References
	Engine *taskengine.Engine
	Runner *runner.Runner
	Job    *core.Job                   // the node's
	JobOf  func(wire.JobKey) *core.Job // of another node's work
	Self   func() core.NodeKey         // this node
	Alive  func(core.NodeKey) bool     // reports whether an incarnation is in the cluster
	Driver bool                        // this node keeps nothing for others
	Log    func(message string, args ...any)
}

// Lineage is one node's side of the durable lineage of tasks: a core.Gate, and a refs.Lineage.
type Lineage struct {
	cfg     Config
	mu      sync.Mutex // guards the maps of the parts, too, and the rest
	records recording
	states  stateTasks
	takes   taking
	large   largeRecipes

	own       map[registry.TaskKey]*task     // the recorded tasks whose submitter this node is
	adoptions map[registry.TaskKey]*adoption // for a while after a death
	held      map[registry.TaskKey]*holding  // the tasks with a name whose submitter this node is, until they have settled
	late      []*departure                   // departures that wait, the oldest first
}

// task is a recorded task.
type task struct {
	lineage *Lineage
	key     registry.TaskKey

	// Guarded by Lineage.mu:
	future  weak.Pointer[core.Future]
	attempt uint32              // of this node, in the record
	large   *largeRecipe        // its recipe, where that is an object
	stays   bool                // that outlives all nodes, as do those of what the task is made of
	gone    bool                // it is this node's no more
	waiting []func(error)       // for the outcome to be in the record; none while it is not on its way
	object  registry.TaskObject // which the record names
	noting  []func(error)       // for the record to say where the object is; none while that is not on its way
}

var (
	_ core.Gate    = (*Lineage)(nil)
	_ refs.Lineage = (*Lineage)(nil)

	_ taskengine.Starter = (*Lineage)(nil)
	_ core.TaskNames     = (*Lineage)(nil)
	_ core.StateGate     = (*Lineage)(nil)
)

// New makes the Lineage of a node; it does no I/O.
func New(cfg Config) *Lineage {
	l := &Lineage{
		cfg: cfg, own: map[registry.TaskKey]*task{}, adoptions: map[registry.TaskKey]*adoption{}, held: map[registry.TaskKey]*holding{},
	}
	l.records = recording{l, map[*taskengine.Recipe][]func(error){}}
	l.states = stateTasks{l, map[registry.TaskKey]*retained{}}
	l.takes = taking{l, map[registry.TaskKey]bool{}}
	l.large.l = l
	return l
}

// Find implements refs.Lineage.
func (l *Lineage) Find(run uint64, id raysys.TaskID) *core.Future {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.findLocked(registry.TaskKey{Run: run, ID: id})
}

func (l *Lineage) findLocked(k registry.TaskKey) *core.Future {
	t := l.own[k]
	if t == nil {
		return nil
	}
	c := t.future.Value()
	if c == nil || !orphaned(c) {
		return c
	}
	rec, _ := taskengine.RecipeOf(c)
	if rec == nil {
		return nil
	}
	if next := rec.Revive(); next != nil { // who asks is the next attempt of what submitted it, or another that needs it
		t.future = weak.Make(next)
		return next
	}
	return c
}

// orphaned reports whether c has failed below a turn whose submitter is gone, or has given it up. That is no outcome: the
// turn's next attempt submits the task again.
func orphaned(c *core.Future) bool {
	gone := (*core.Orphaned)(nil)
	return c.Failed() && errors.As(c.Up().Cancelled(), &gone)
}

// owns notes that this node is the submitter of a recorded task, until the recipe is of no use here.
func (l *Lineage) owns(k registry.TaskKey, rec *taskengine.Recipe, attempt uint32, large *largeRecipe) {
	t := &task{lineage: l, key: k, future: rec.Loose(), attempt: attempt, large: large}
	l.mu.Lock()
	l.own[k] = t
	l.mu.Unlock()
	rec.SetRecorded(k.Run, attempt, t)
}

// Forget implements taskengine.Record. The record of a name stays.
func (t *task) Forget() {
	if !t.key.Named() {
		t.lineage.cfg.Refs.AtTick(func() { t.lineage.forget(t.key) })
	}
}

// Spent implements taskengine.Record.
func (t *task) Spent() {
	t.lineage.cfg.Refs.AtTick(func() { t.lineage.noted(t.key, func(error) {}) })
}

// forget has the record of a task go.
func (l *Lineage) forget(k registry.TaskKey) {
	l.disown(k)
	l.cfg.Tasks.Change(registry.ForgetTask(k), func(registry.TaskEntry, error) {})
}

// disown forgets a task whose record goes, or has its outcome, and frees the object that its recipe may be.
func (l *Lineage) disown(k registry.TaskKey) {
	l.mu.Lock()
	t := l.own[k]
	if delete(l.own, k); t != nil {
		t.gone = true
	}
	l.mu.Unlock()
	if t != nil {
		t.large.drop()
	}
}

// Recorded is how many tasks are recorded whose submitter this node is.
func (l *Lineage) Recorded() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.own)
}
