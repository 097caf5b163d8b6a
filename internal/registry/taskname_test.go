package registry

import (
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/placement"
)

// named is what a node enters for the start with that number.
func named(start uint64) TaskRecord {
	return TaskRecord{
		Digest: 1, Recipe: []byte("r"), Detached: true, Name: "nightly", Namespace: "test", Function: "task work",
		Start: TaskKey{Run: 7, ID: raysys.TaskID{Lo: start}},
	}
}

// nightly is the key of the start with that number; 0 is whichever has the name.
func nightly(start uint64) TaskKey {
	k := NamedTask("test", "nightly")
	k.ID.Lo = start
	return k
}

// TestNameOfOneTask: a name is of one task while that runs, its outcome stays under the name, and then the next start has it.
func TestNameOfOneTask(t *testing.T) {
	e := served(t)
	step := func(what string, from core.NodeKey, ch TaskChange, refused bool, start uint64, outcome string) {
		t.Helper()
		a := made(t, e, from, ch)[0]
		if a.err != nil || a.Refused != refused || a.Exists != (start > 0) || a.Record.Start.ID.Lo != start || string(a.Record.Outcome) != outcome {
			t.Errorf("%s is answered with %+v; want refused %v, start %d, outcome %q", what, a, refused, start, outcome)
		}
	}
	other2 := named(2)
	other2.Digest = 2
	step("a name that is free", aliveNode, FindTask(nightly(0)), false, 0, "")
	step("the first start", deadNode, EnterTask(nightly(1), named(1)), false, 1, "")
	step("the first start again", deadNode, EnterTask(nightly(1), named(1)), false, 1, "")
	step("a start while the first runs", aliveNode, EnterTask(nightly(2), named(2)), true, 1, "")
	step("a start of other content", aliveNode, EnterTask(nightly(2), other2), true, 1, "")
	e.dead.Store(deadNode, true)
	step("a start after the submitter's death", aliveNode, EnterTask(nightly(2), named(2)), true, 1, "")
	step("a claim", aliveNode, ClaimTask(nightly(1)), false, 1, "")
	step("the first start again, which another node has claimed", other, EnterTask(nightly(1), named(1)), true, 1, "")
	step("the outcome", aliveNode, SettleTask(nightly(1), 2, []byte("v")), false, 1, "v")
	step("the first start again, by the node that has claimed it", aliveNode, EnterTask(nightly(1), named(1)), true, 1, "v")
	forGood := named(2)
	forGood.Digest, forGood.Attempt = 2, 1
	step("a start for good of other content", other, EnterTask(nightly(2), forGood), true, 1, "v")
	step("a claim of what has settled", other, ClaimTask(nightly(1)), true, 1, "v")
	step("the name", other, FindTask(nightly(0)), false, 1, "v")
	if rec, ok := e.reg.Led()[0].Get(nightly(0).key()); !ok || len(rec.Value) == 0 {
		t.Error("the record of a name has another key than that of whichever task has it")
	} else if task, err := readTaskRecord(rec.Value); err != nil || len(task.Recipe) > 0 {
		t.Errorf("the record of a task that has settled still has its recipe: %+v, %v", task, err)
	}
	step("the next start, of other content", other, EnterTask(nightly(2), other2), false, 2, "")
	step("the first one's outcome, which comes too late", aliveNode, SettleTask(nightly(1), 2, []byte("w")), true, 0, "")
	step("the first one, which has the name no more", other, FindTask(nightly(1)), false, 0, "")
	step("removal of the first one", other, RemoveTask(nightly(1)), false, 0, "")
	step("the name of the second", other, FindTask(nightly(0)), false, 2, "")
	step("removal", aliveNode, RemoveTask(nightly(2)), false, 0, "")
	step("the name that was removed", other, FindTask(nightly(0)), false, 0, "")
	if ch := EnterTask(taskOne, named(1)); ch.check() == nil {
		t.Error("a task with a name is entered under a key without one")
	}
	if ch := EnterTask(nightly(1), TaskRecord{Name: "nightly"}); ch.check() == nil {
		t.Error("a task with a name is entered without a start")
	}
}

// TestNamedTasksAreHandedOver: the leader asks a worker that has the function to claim a task with a name after its
// submitter's death, and again until one has claimed it; a new leader does too.
func TestNamedTasksAreHandedOver(t *testing.T) {
	g := newGraves(t)
	var mu sync.Mutex // guards asked
	var asked []core.NodeKey
	g.reg.cfg.HandOver = func(to core.NodeKey, k TaskKey) {
		mu.Lock()
		defer mu.Unlock()
		if k != nightly(1) {
			t.Errorf("%+v is handed over", k)
		}
		asked = append(asked, to)
	}
	was := func(when string, least, most int) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if len(asked) < least || len(asked) > most {
			t.Errorf("%s: %d workers were asked, want %d to %d", when, len(asked), least, most)
		}
		for _, k := range asked {
			if k != aliveNode {
				t.Errorf("%s: %s is asked, which is no worker with the function", when, k)
			}
		}
		asked = nil
	}
	runs := func(string) bool { return true }
	nodes := []placement.Node{
		{ID: "self", Incarnation: 1, Namespace: "test", Runs: runs}, // a driver, which leads
		{ID: "driver", Incarnation: 1, Namespace: "test", Runs: runs},
		{ID: "of another program", Incarnation: 1, Namespace: "other", Worker: true, Runs: runs},
		{ID: "without the function", Incarnation: 1, Namespace: "test", Worker: true, Runs: func(string) bool { return false }},
	}
	g.hosts.Store(&nodes)
	settled := named(9)
	settled.Name = "settled"
	made(t, g.elsewhere, deadNode, EnterTask(nightly(1), named(1)), EnterTask(NamedTask("test", "settled"), settled),
		SettleTask(NamedTask("test", "settled"), 1, []byte("v")))
	g.pass(5 * time.Second)
	was("while the submitter lives", 0, 0)
	g.die(deadNode)
	g.pass(5 * time.Second)
	was("without a worker", 0, 0)
	with := append(nodes, placement.Node{ID: aliveNode.Node, Incarnation: aliveNode.Incarnation, Namespace: "test", Worker: true, Runs: runs})
	g.hosts.Store(&with)
	g.pass(5 * time.Second)
	was("with a worker, which does not answer", 2, 6)
	g.reg.StepDown(0, g.shard)
	if err := g.shard.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.clock.advance(time.Minute)
	was("without a leader", 0, 0)
	g.shard = lead(t, g.elsewhere)
	g.settle()
	was("with a new leader", 1, 1)
	if a := made(t, g.elsewhere, aliveNode, ClaimTask(nightly(1)))[0]; a.Refused || a.Record.Attempt != 2 {
		t.Errorf("the claim is answered with %+v", a)
	}
	g.pass(2 * time.Second)
	was("after the claim", 0, 0)
	g.pass(time.Hour)
	if n := g.clock.pending(); n > 0 {
		t.Errorf("%d alarms are set, though no task waits for a worker", n)
	}
}
