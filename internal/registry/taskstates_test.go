package registry

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/placement"
)

// ofState is the key of one of many States.
func ofState(n int) string {
	return StateKey("test", graindir.ID{Kind: "kind", Key: fmt.Sprint(n)}, "s")
}

// retained is a task to which States refer.
func retained(states ...int) TaskRecord {
	t := TaskRecord{Submitter: other, Attempt: 1, Digest: 1, Recipe: []byte("r"), Namespace: "test", Function: "task f"}
	for _, n := range states {
		t.States = append(t.States, ofState(n))
	}
	return t
}

// TestTaskOfStates: only the submitter has a task stay for a State, and no longer stay; twice is once. What does not fit, or is
// no State, is refused.
func TestTaskOfStates(t *testing.T) {
	e := served(t)
	retain := func(n int) TaskChange { return RetainTask(taskOne, "test", "task f", ofState(n)) }
	if a := made(t, e, other, retain(1))[0]; !a.Refused {
		t.Errorf("a task that is not recorded: %+v, want refused", a)
	}
	made(t, e, other, EnterTask(taskOne, TaskRecord{Recipe: []byte("r")}))
	for i, a := range made(t, e, aliveNode, retain(1), RetainTaskEnd(taskOne, ofState(1))) {
		if !a.Refused {
			t.Errorf("change %d by another node: %+v, want refused", i, a)
		}
	}
	made(t, e, other, retain(1), retain(2), retain(1), RetainTaskEnd(taskOne, ofState(3)))
	if now, _ := stored(t, e); len(now.States) != 2 || now.Namespace != "test" || now.Function != "task f" || string(now.Recipe) != "r" {
		t.Errorf("the record is %+v, want that of two States", now)
	}
	made(t, e, other, RetainTaskEnd(taskOne, ofState(1)), RetainTaskEnd(taskOne, ofState(1)))
	if now, _ := stored(t, e); len(now.States) != 1 || now.States[0] != ofState(2) {
		t.Errorf("the record is %+v, want that of the second State", now)
	}
	for n := range maxTaskStates - 1 {
		made(t, e, other, retain(100+n))
	}
	if a := made(t, e, other, retain(99))[0]; !errors.Is(a.err, raysys.ErrTooLarge) {
		t.Errorf("one State too many: %+v, want ErrTooLarge", a)
	}
	for _, ch := range []TaskChange{
		RetainTask(taskOne, "test", "task f", "s/"), RetainTask(taskOne, "test", "task f", NameKey("test", "n")),
		RetainTask(nightly(1), "test", "task f", ofState(1)), RetainTaskEnd(taskOne, ""),
	} {
		ch.bad = ch.check() // as where it is read
		if a := made(t, e, other, ch)[0]; !errors.Is(a.err, raysys.ErrInvalidRef) {
			t.Errorf("a bad key: %+v, want ErrInvalidRef", a)
		}
	}
	long := RetainTask(taskOne, "test", "task f", "s/"+strings.Repeat("\x00", 3)+strings.Repeat("x", MaxTask))
	if a := made(t, e, other, RetainTaskEnd(taskOne, ofState(2)), long)[1]; !errors.Is(a.err, raysys.ErrTooLarge) {
		t.Errorf("a key for which there is no room: %+v, want ErrTooLarge", a)
	}
}

// TestTasksOfStatesAreHandedOver: after the death of its submitter a task to which a State refers is not reaped: the leader asks
// a worker to claim it, also one that had an outcome, until one has.
func TestTasksOfStatesAreHandedOver(t *testing.T) {
	g := newGraves(t)
	var asked atomic.Int64
	g.reg.cfg.HandOver = func(to core.NodeKey, k TaskKey) {
		if to != aliveNode || k != taskNumber(1) {
			t.Errorf("%s is asked to claim %+v", to, k)
		}
		asked.Add(1)
	}
	g.hosts.Store(&[]placement.Node{{
		ID: aliveNode.Node, Incarnation: aliveNode.Incarnation, Namespace: "test", Worker: true, Runs: func(f string) bool { return f == "task f" },
	}})
	made(t, g.elsewhere, deadNode, EnterTask(taskNumber(1), TaskRecord{Recipe: []byte("r")}), RetainTask(taskNumber(1), "test", "task f", ofState(1)),
		SettleTask(taskNumber(1), 1, []byte("v")))
	g.pass(2 * time.Minute)
	if n := asked.Load(); n > 0 {
		t.Errorf("%d workers are asked while the submitter lives", n)
	}
	g.die(deadNode)
	g.pass(2 * time.Minute)
	g.has("nobody has claimed it", 1)
	if n := asked.Load(); n < 2 {
		t.Errorf("%d workers are asked in two minutes", n)
	}
	if a := made(t, g.elsewhere, aliveNode, ClaimTask(taskNumber(1)))[0]; a.Refused || a.Record.Attempt != 2 || len(a.Record.States) != 1 || string(a.Record.Recipe) != "r" {
		t.Errorf("the claim is answered with %+v", a)
	}
	g.pass(2 * time.Second)
	asked.Store(0)
	g.pass(time.Hour)
	if n := asked.Load(); n > 0 {
		t.Errorf("%d workers are asked after the claim", n)
	}
	g.has("it is claimed", 1)
}
