package lineage_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/lineage"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run is the run of the work of these tests.
const run = 7

var (
	self   = core.NodeKey{Node: "self", Incarnation: run}
	other  = core.NodeKey{Node: "other", Incarnation: 8}
	fallen = core.NodeKey{Node: "fallen", Incarnation: 9}
)

// objectNumber is the number of the objects that other has.
const objectNumber = 3

// bed is the Lineage of a node whose store and other nodes the test plays, as it does the clock.
type bed struct {
	*lineage.Lineage
	t    *testing.T
	ctx  context.Context
	open chan struct{} // lets the tasks end
	held tasks.Task[string, string]
	bulk tasks.Task[string, []byte] // gives an object
	job  *core.Job

	mu     sync.Mutex // guards the rest
	now    int64
	alarms []*core.Alarm
	asked  []func(registry.TaskEntry, error) // of the store
	found  []func(core.Source, error)        // of another node
	// borrowed is what the node has asked owners to count it for.
	borrowed []string
}

func newBed(t *testing.T) *bed {
	b := &bed{t: t, open: make(chan struct{}), now: 1}
	tb := raysys.NewTable()
	b.held = tasks.DefineIn(tb, "held", func(_ context.Context, s string) (string, error) {
		<-b.open
		return s + "!", nil
	})
	b.bulk = tasks.DefineIn(tb, "bulk", func(_ context.Context, s string) ([]byte, error) {
		<-b.open
		return bytes.Repeat([]byte(s), raysys.ObjectSize+1), nil
	})
	_, b.ctx = nodetest.Start(t, system.Config{Table: tb, Resources: raysys.Resources{CPU: 4}})
	turn, _, err := core.TurnOf(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	b.job = turn.Job()
	r := runner.New(b)
	t.Cleanup(func() { r.End(raysys.ErrClosed) })
	b.Lineage = lineage.New(lineage.Config{
		Tasks: b, Refs: b, Engine: taskengine.Of(b.ctx), Runner: r, Job: turn.Job(), JobOf: func(wire.JobKey) *core.Job { return turn.Job() },
		Self: func() core.NodeKey { return self }, Alive: func(k core.NodeKey) bool { return k != fallen }, Log: func(string, ...any) {},
	})
	turn.Job().Gate, turn.Job().Run = b.Lineage, run // no task has been submitted
	return b
}

// The clock.

func (b *bed) Now() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bed) SetAlarm(a *core.Alarm) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alarms = append(b.alarms, a)
}

func (b *bed) ClearAlarm(*core.Alarm) bool { return false }

// pass has the time pass.
func (b *bed) pass(d int64) {
	b.mu.Lock()
	b.now += d
	var due, rest []*core.Alarm
	for _, a := range b.alarms {
		if a.At <= b.now {
			due = append(due, a)
		} else {
			rest = append(rest, a)
		}
	}
	b.alarms = rest
	b.mu.Unlock()
	for _, a := range due {
		a.Ring()
	}
}

// The store.

func (b *bed) Change(_ registry.TaskChange, done func(registry.TaskEntry, error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, done)
}

// questions is how many were asked of the store and not answered.
func (b *bed) questions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.asked)
}

// answer answers the oldest question.
func (b *bed) answer(e registry.TaskEntry, err error) {
	b.t.Helper()
	b.mu.Lock()
	if len(b.asked) == 0 {
		b.mu.Unlock()
		b.t.Fatal("the store was not asked")
	}
	done := b.asked[0]
	b.asked = b.asked[1:]
	b.mu.Unlock()
	done(e, err)
}

// The other nodes.

func (b *bed) AtTick(f func()) { go f() }

func (b *bed) RetainAt(_ core.NodeKey, _ uint64, _ raysys.TaskID, _ string, done func(error)) {
	done(raysys.ErrNodeDead)
}

func (b *bed) TakeAt(core.NodeKey, uint64, raysys.TaskID) {}

func (b *bed) Uncounted(core.NodeKey, raysys.TaskID) *refs.RemoteSource { return nil }

func (b *bed) Borrow(owner core.NodeKey, number uint64, _ raysys.TaskID) core.Source {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.borrowed = append(b.borrowed, fmt.Sprint(owner, " ", number))
	return core.Through(core.Own(b.job, number, "the crate"))
}

func (b *bed) FindObject(owner core.NodeKey, number uint64, _ raysys.TaskID, done func(core.Source, error)) {
	if owner != other || number != objectNumber {
		b.t.Errorf("%s is asked for object %d", owner, number)
	}
	b.FindAt(owner, 0, raysys.TaskID{}, done)
}

func (b *bed) FindAt(k core.NodeKey, _ uint64, _ raysys.TaskID, done func(core.Source, error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k != other {
		b.t.Errorf("%s is asked for a task of %s", k, other)
	}
	b.found = append(b.found, done)
}

// reply answers the only question to another node.
func (b *bed) reply(src core.Source, err error) {
	b.t.Helper()
	b.mu.Lock()
	if len(b.found) != 1 {
		b.mu.Unlock()
		b.t.Fatalf("%d questions to another node, want 1", len(b.found))
	}
	done := b.found[0]
	b.found = nil
	b.mu.Unlock()
	done(src, err)
}

// submitted is the record of a task, as another node has entered it.
func (b *bed) submitted(c *core.Future, by core.NodeKey) registry.TaskRecord {
	b.t.Helper()
	rec, _ := taskengine.RecipeOf(c)
	r, err := rec.Recording()
	if err != nil {
		b.t.Fatal(err)
	}
	const version, inputs = 1, 0
	return registry.TaskRecord{Submitter: by, Attempt: 1, Digest: r.Digest, Recipe: wire.AppendBytes([]byte{version, inputs}, r.Body)}
}

// calls collects the calls of a callback.
type calls struct {
	mu   sync.Mutex
	errs []error
}

func (c *calls) called(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, err)
}

func (c *calls) list() []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]error(nil), c.errs...)
}
