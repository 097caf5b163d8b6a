package registry

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/wire"
)

// askingFrom is a node whose requests go over a connection to the leader of e.
func askingFrom(t *testing.T, e *elsewhere) (*elsewhere, *Tasks) {
	t.Helper()
	asker, _ := newElsewhere(t, nil)
	asker.asked = func(q request) {
		q.who().reg = e.reg
		e.reg.received(q)
	}
	return asker, NewTasks(asker.reg)
}

// change makes one change and waits.
func change(t *testing.T, tasks *Tasks, ch TaskChange) (TaskEntry, error) {
	t.Helper()
	return runner.Wait(t.Context(), func(done func(TaskEntry, error)) { tasks.Change(ch, done) })
}

// taskNumber is the key of one of many tasks.
func taskNumber(n int) TaskKey { return TaskKey{Run: 9, ID: raysys.TaskID{Lo: uint64(n)}} }

// TestTaskSizes: what does not fit is refused at the asker, or by the leader that has the rest of the record, with
// ErrTooLarge; nothing else is.
func TestTaskSizes(t *testing.T) {
	e := served(t)
	_, tasks := askingFrom(t, e)
	large := bytes.Repeat([]byte{1}, MaxTask+1)
	for name, ch := range map[string]TaskChange{
		"recipe":             EnterTask(taskOne, TaskRecord{Recipe: large}),
		"recipe and outcome": EnterTask(taskOne, TaskRecord{Recipe: large[:MaxTask], Outcome: []byte("v")}),
		"name":               EnterTask(taskOne, TaskRecord{Detached: true, Name: strings.Repeat("n", maxTaskName+1)}),
		"outcome":            SettleTask(taskOne, 1, large),
	} {
		if a, err := change(t, tasks, ch); !errors.Is(err, raysys.ErrTooLarge) {
			t.Errorf("a large %s: %+v, %v; want ErrTooLarge", name, a, err)
		}
	}
	if a, err := change(t, tasks, SettleTask(taskOne, 1, nil)); err == nil {
		t.Errorf("no outcome: %+v; want an error", a)
	}
	if a, err := change(t, tasks, EnterTask(taskOne, TaskRecord{Recipe: large[:MaxTask-10], Name: strings.Repeat("n", maxTaskName)})); err != nil || a.Refused {
		t.Fatalf("the largest recipe: refused %v, %v", a.Refused, err)
	}
	if _, err := change(t, tasks, SettleTask(taskOne, 1, large[:11])); !errors.Is(err, raysys.ErrTooLarge) {
		t.Errorf("an outcome for which the recipe has left no room: %v, want ErrTooLarge", err)
	}
	if a, err := change(t, tasks, SettleTask(taskOne, 1, large[:10])); err != nil || a.Refused || len(a.Record.Outcome) != 10 {
		t.Errorf("an outcome for which there is room: %+v, %v", a, err)
	}
}

// TestManyLargeTasks: records of any size are entered and claimed in any number at once, though a request, a batch of
// the shard and an answer have only so much room.
func TestManyLargeTasks(t *testing.T) {
	e := served(t)
	asker, tasks := askingFrom(t, e)
	const many = 40
	recipe := func(n int) []byte { return bytes.Repeat([]byte{byte(n)}, 1+n*3000) }
	all := func(from *Tasks, of func(n int) TaskChange) []TaskEntry {
		t.Helper()
		entries := make([]TaskEntry, many)
		var wait sync.WaitGroup
		for n := range many {
			wait.Add(1)
			from.Change(of(n), func(a TaskEntry, err error) {
				if err != nil || a.Refused || a.Exists && a.Record.Submitter != asker.Self() {
					t.Errorf("task %d: refused %v, of %s, %v", n, a.Refused, a.Record.Submitter, err)
				}
				entries[n] = a
				wait.Done()
			})
		}
		wait.Wait()
		return entries
	}
	for i := range many {
		made(t, e, deadNode, EnterTask(taskNumber(i), TaskRecord{Recipe: recipe(i)}))
	}
	e.dead.Store(deadNode, true)
	for round := range 2 { // the second claim finds them claimed
		for n, a := range all(tasks, func(n int) TaskChange { return ClaimTask(taskNumber(n)) }) {
			if !bytes.Equal(a.Record.Recipe, recipe(n)) || a.Record.Attempt != 2 {
				t.Errorf("round %d: the recipe of task %d came as %d bytes, attempt %d", round, n, len(a.Record.Recipe), a.Record.Attempt)
			}
		}
	}
	all(tasks, func(n int) TaskChange { return SettleTask(taskNumber(n), 2, []byte("v")) })
	for n, a := range all(tasks, func(n int) TaskChange { return EnterTask(taskNumber(n), TaskRecord{Recipe: recipe(n)}) }) {
		if !bytes.Equal(a.Record.Recipe, recipe(n)) || string(a.Record.Outcome) != "v" {
			t.Errorf("task %d, entered again: %d bytes and outcome %q", n, len(a.Record.Recipe), a.Record.Outcome)
		}
	}
	all(tasks, func(n int) TaskChange { return ForgetTask(taskNumber(n)) })
	if n := e.reg.Led()[0].Len(); n > 0 {
		t.Errorf("%d records are left", n)
	}
}

// TestAnswersFitAFrame: the answers to a request that has many large records leave some out, which are asked for again.
func TestAnswersFitAFrame(t *testing.T) {
	var asked taskChanges
	var answers []taskAnswer
	for n := range maxChanges {
		asked.list = append(asked.list, ClaimTask(taskNumber(n)))
		answers = append(answers, taskAnswer{TaskEntry: TaskEntry{Exists: true, Record: TaskRecord{Recipe: make([]byte, MaxTask)}}})
	}
	frame := asked.appendAnswer(nil, answers)
	if len(frame) > 1<<20-1<<10 {
		t.Errorf("an answer has %d bytes", len(frame))
	}
	r := wire.NewReader(frame)
	read, err := asked.readAnswer(&r)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range read {
		if whole := len(a.Record.Recipe) == MaxTask; whole == a.again || i < 2 && !whole || i == maxChanges-1 && whole {
			t.Errorf("answer %d: %d bytes, again %v; want the first ones whole, and the others to be asked for again", i, len(a.Record.Recipe), a.again)
		}
	}
}

// TestAnswerBehindAllBatches: a request whose changes take several batches is answered when all are committed.
func TestAnswerBehindAllBatches(t *testing.T) {
	g := newGraves(t)
	const many = 6
	var list []TaskChange
	for n := range many {
		list = append(list, EnterTask(taskNumber(n), TaskRecord{Recipe: make([]byte, 100<<10)}))
	}
	var writes atomic.Int64
	hold := make(chan struct{})
	g.store.Hook(func(c flaky.Call) flaky.Fault {
		if c.Writes() && writes.Add(1) > 1 {
			<-hold
		}
		return flaky.None
	})
	got := make(chan answer[[]taskAnswer], 1)
	askFrom(g.elsewhere, aliveNode, &taskChanges{list}, func(a []taskAnswer, err error) { got <- answer[[]taskAnswer]{a, err} })
	soon(t, "the first batch is committed", func() bool { return g.shard.Len() > 0 })
	says(g.elsewhere, bystander, &find{key: "o/none"}) // is answered behind what was sent before
	if n := g.shard.Len(); len(got) > 0 || n == many {
		t.Errorf("%d answers while %d of %d records are committed", len(got), n, many)
	}
	close(hold)
	if a := <-got; a.err != nil || len(a.value) != many {
		t.Error(a.err)
	}
	if n := g.shard.Len(); n != many {
		t.Errorf("the changes are answered when %d of %d records are committed", n, many)
	}
}

// TestRequestsAreBounded: a request has at most so many changes, and bytes.
func TestRequestsAreBounded(t *testing.T) {
	var mu sync.Mutex // guards the rest
	var most, largest int
	e, _ := newElsewhere(t, nil)
	e.asked = func(q request) {
		frame := appendRequest(nil, q)
		list := q.(*asked[[]taskAnswer]).operation.(*taskChanges).list
		mu.Lock()
		most, largest = max(most, len(list)), max(largest, len(frame))
		mu.Unlock()
		q.(*asked[[]taskAnswer]).answer(make([]taskAnswer, len(list)), nil)
	}
	tasks := NewTasks(e.reg)
	const many = 1000
	var wait sync.WaitGroup
	for i := range many {
		wait.Add(1)
		recipe := make([]byte, 10)
		if i%2 == 0 && i < 200 || i == 500 {
			recipe = make([]byte, 1000*(i/2))
		}
		if i == 500 {
			recipe = make([]byte, MaxTask)
		}
		tasks.Change(EnterTask(taskNumber(i), TaskRecord{Recipe: recipe}), func(_ TaskEntry, err error) {
			if err != nil {
				t.Errorf("change %d: %v", i, err)
			}
			wait.Done()
		})
	}
	wait.Wait()
	if most != maxChanges || largest > maxRequestBytes || largest < MaxTask {
		t.Errorf("the requests had up to %d changes and %d bytes, want up to %d and %d", most, largest, maxChanges, maxRequestBytes)
	}
}

// TestLeaderHearsOfADeathLater: a node that knows of the submitter's death before the leader does becomes the submitter
// all the same.
func TestLeaderHearsOfADeathLater(t *testing.T) {
	for name, ch := range map[string]TaskChange{"claim": ClaimTask(taskOne), "enter": EnterTask(taskOne, TaskRecord{Digest: 1})} {
		t.Run(name, func(t *testing.T) {
			e := served(t)
			asker, tasks := askingFrom(t, e)
			made(t, e, deadNode, EnterTask(taskOne, TaskRecord{Digest: 1}))
			asker.dead.Store(deadNode, true)
			got := make(chan answer[TaskEntry], 1)
			before := asker.pauses.Load()
			tasks.Change(ch, func(a TaskEntry, err error) { got <- answer[TaskEntry]{a, err} })
			soon(t, "the leader has refused twice", func() bool { return asker.pauses.Load() > before+3 })
			e.dead.Store(deadNode, true)
			if a := <-got; a.err != nil || a.value.Refused || a.value.Record.Submitter != asker.Self() {
				t.Errorf("%s after the leader has heard of the death: %+v", name, a)
			}
			if a, err := change(t, tasks, EnterTask(taskOne, TaskRecord{Digest: 2})); err != nil || !a.Refused {
				t.Errorf("other content: %+v, %v, want it refused", a, err)
			}
		})
	}
}

// TestTheDeadSubmitNothing: a node that the cluster holds for dead, and that does not know it, is refused and not kept
// waiting.
func TestTheDeadSubmitNothing(t *testing.T) {
	e := served(t)
	asker, tasks := askingFrom(t, e)
	e.dead.Store(asker.Self(), true)
	asker.dead.Store(core.NodeKey{}, true) // which no member is
	for name, ch := range map[string]TaskChange{"claim": ClaimTask(taskOne), "enter": EnterTask(taskOne, TaskRecord{})} {
		got := make(chan answer[TaskEntry], 1)
		before := asker.pauses.Load()
		tasks.Change(ch, func(a TaskEntry, err error) { got <- answer[TaskEntry]{a, err} })
		soon(t, "the change is answered, or asked for again and again", func() bool { return len(got) > 0 || asker.pauses.Load() > before+5 })
		if len(got) == 0 {
			t.Fatalf("%s by a dead node is asked for again and again", name)
		}
		if a := <-got; a.err != nil || !a.value.Refused || a.value.Exists {
			t.Errorf("%s by a dead node: %+v; want it refused, and no record", name, a)
		}
	}
}

// TestDeposedLeaderSaysNothingOfTasks: what a leader read is answered only if it still led then, also where nothing
// changes: a claim that finds no record would lose the task.
func TestDeposedLeaderSaysNothingOfTasks(t *testing.T) {
	for name, ch := range map[string]TaskChange{
		"claim without record": ClaimTask(taskNumber(1)), "claim": ClaimTask(taskOne), "enter again": EnterTask(taskOne, TaskRecord{}),
		"settle otherwise": SettleTask(taskOne, 3, []byte("w")),
	} {
		e := served(t)
		made(t, e, aliveNode, EnterTask(taskOne, TaskRecord{}))
		depose(t, e)
		for _, from := range []core.NodeKey{aliveNode, other} {
			if a := says(e, from, &taskChanges{[]TaskChange{ch}}); a.err != errNotLeader {
				t.Errorf("%s at a leader that was deposed: %+v, want that the next one is asked", name, a)
			}
		}
	}
}
