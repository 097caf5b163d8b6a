package registry

import (
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/shardlog"
)

// handClock is moved by the test.
type handClock struct {
	mu     sync.Mutex // guards the rest
	now    int64
	alarms []*core.Alarm
}

func (c *handClock) Now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) SetAlarm(a *core.Alarm) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alarms = append(c.alarms, a)
}

// advance moves the clock, and rings what is due.
func (c *handClock) advance(d time.Duration) {
	c.mu.Lock()
	c.now += int64(d)
	var due, later []*core.Alarm
	for _, a := range c.alarms {
		if a.At <= c.now {
			due = append(due, a)
		} else {
			later = append(later, a)
		}
	}
	c.alarms = later
	c.mu.Unlock()
	for _, a := range due {
		a.Ring()
	}
}

// pending counts the alarms that are set.
func (c *handClock) pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.alarms)
}

// graves is a shard whose leader's clock is moved by the test.
type graves struct {
	*elsewhere
	t     *testing.T
	clock *handClock
	store *flaky.KV
	shard *shardlog.Shard
}

// bystander asks for what says nothing of the nodes that a test is about.
var bystander = core.NodeKey{Node: "bystander", Incarnation: 1}

func newGraves(t *testing.T) *graves {
	t.Helper()
	g := &graves{t: t, clock: &handClock{now: 1000}}
	g.elsewhere, _ = newElsewhere(t, nil)
	g.store = flaky.Wrap(g.kv)
	g.kv = g.store
	g.reg.cfg.Runner = runner.New(g.clock)
	g.shard = lead(t, g.elsewhere)
	return g
}

// die has a node die, of which the leader hears.
func (g *graves) die(k core.NodeKey) {
	g.elsewhere.dead.Store(k, true)
	g.reg.Reap()
	g.settle()
}

// settle waits until the leader has handled what was sent to it before, and that is committed.
func (g *graves) settle() {
	g.t.Helper()
	for range 3 { // a reaping, its outcome, and what the outcome leads to
		made(g.t, g.elsewhere, bystander, ClaimTask(taskNumber(1<<20)))
	}
}

// pass moves the clock in steps.
func (g *graves) pass(d time.Duration) {
	g.t.Helper()
	for range 10 {
		g.clock.advance(d / 10)
		g.settle()
	}
}

// has checks which of the tasks have a record.
func (g *graves) has(when string, numbers ...int) {
	g.t.Helper()
	want := map[string]int{}
	for _, n := range numbers {
		want[taskNumber(n).key()] = n
	}
	g.shard.Scan(taskPrefix, func(key string, rec shardlog.Record) bool {
		if _, ok := want[key]; !ok {
			task, err := readTaskRecord(rec.Value)
			g.t.Errorf("%s: there still is %x of %+v, %v", when, key, task, err)
		}
		delete(want, key)
		return true
	})
	for _, n := range want {
		g.t.Errorf("%s: the record of task %d is gone", when, n)
	}
}

// TestUnclaimedTasksAreReaped: the record of a dead submitter goes once the time to claim it is over; one that was
// claimed, one of a living node and a detached one stay.
func TestUnclaimedTasksAreReaped(t *testing.T) {
	g := newGraves(t)
	const unclaimed, settled, claimed, detached, living, ofOther = 1, 2, 3, 4, 5, 6
	for n := range 100 { // more than one batch removes
		made(t, g.elsewhere, deadNode, EnterTask(taskNumber(1000+n), TaskRecord{}))
	}
	for _, n := range []int{unclaimed, settled, claimed} {
		made(t, g.elsewhere, deadNode, EnterTask(taskNumber(n), TaskRecord{}))
	}
	made(t, g.elsewhere, deadNode, SettleTask(taskNumber(settled), 1, []byte("v")), EnterTask(taskNumber(detached), TaskRecord{Detached: true, Name: "nightly"}))
	made(t, g.elsewhere, aliveNode, EnterTask(taskNumber(living), TaskRecord{}))
	made(t, g.elsewhere, other, EnterTask(taskNumber(ofOther), TaskRecord{}))
	g.die(deadNode)
	g.pass(20 * time.Second)
	g.die(other)
	made(t, g.elsewhere, aliveNode, ClaimTask(taskNumber(claimed)))
	g.pass(9 * time.Second)
	if a := made(t, g.elsewhere, aliveNode, ClaimTask(taskNumber(1000)))[0]; a.Refused || !a.Exists {
		t.Errorf("a claim at the end of its time: %+v", a)
	}
	for n := range 100 {
		if _, ok := g.shard.Get(taskNumber(1000 + n).key()); !ok {
			t.Fatalf("task %d can be claimed no more, 29 s after its submitter's death", 1000+n)
		}
	}
	g.pass(2 * time.Second)
	g.has("31 s after the first death, 11 s after the second", claimed, detached, living, ofOther, 1000)
	g.pass(20 * time.Second)
	g.has("31 s after the second death", claimed, detached, living, 1000)
	g.die(aliveNode)
	g.die(core.NodeKey{Node: "without tasks", Incarnation: 1})
	g.pass(31 * time.Second)
	g.has("31 s after the last death", detached)
	if n := g.clock.pending(); n > 0 {
		t.Errorf("%d alarms are set, though no task waits to be reaped", n)
	}
}

// TestNewLeaderBeginsTheTimeAnew: nodes that could claim nothing while there was no leader have time enough.
func TestNewLeaderBeginsTheTimeAnew(t *testing.T) {
	g := newGraves(t)
	made(t, g.elsewhere, deadNode, EnterTask(taskOne, TaskRecord{}))
	g.die(deadNode)
	g.pass(29 * time.Second)
	g.reg.StepDown(0, g.shard)
	if err := g.shard.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.clock.advance(time.Minute)
	g.shard = lead(t, g.elsewhere)
	g.settle()
	g.pass(29 * time.Second)
	if _, ok := stored(t, g.elsewhere); !ok {
		t.Error("29 s after a new leader began, a task that can still be claimed is gone")
	}
	g.pass(2 * time.Second)
	g.has("31 s after a new leader began")
}

// TestClaimMeetsReaping: a claim that is on its way when the time is over wins, and one that comes behind the removal
// finds no record.
func TestClaimMeetsReaping(t *testing.T) {
	for name, first := range map[string]bool{"claim first": true, "removal first": false} {
		t.Run(name, func(t *testing.T) {
			g := newGraves(t)
			made(t, g.elsewhere, deadNode, EnterTask(taskOne, TaskRecord{}))
			g.die(deadNode)
			hold := make(chan struct{})
			holdWrites(g.store, hold)
			handled := func() { says(g.elsewhere, bystander, &find{key: "o/none"}) } // is answered behind what was sent before
			got := make(chan answer[[]taskAnswer], 1)
			claim := func() {
				ask := &taskChanges{[]TaskChange{ClaimTask(taskOne)}}
				askFrom(g.elsewhere, aliveNode, ask, func(a []taskAnswer, err error) { got <- answer[[]taskAnswer]{a, err} })
				handled()
			}
			if first {
				claim()
			}
			g.clock.advance(31 * time.Second)
			handled()
			if !first {
				claim()
			}
			close(hold)
			a := <-got
			if a.err != nil || a.value[0].Refused || a.value[0].Exists != first {
				t.Errorf("the claim is answered with %+v", a)
			}
			g.settle()
			if _, ok := stored(t, g.elsewhere); ok != first {
				t.Errorf("there is a record: %v", ok)
			}
		})
	}
}
