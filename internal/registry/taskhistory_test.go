package registry

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/long"
)

// taskCall is one thing that a client did: a change by its node, or the death of the node.
type taskCall struct {
	by   core.NodeKey
	dies bool
	ch   TaskChange
}

// taskWorld is the state of one task, with the nodes that are dead.
type taskWorld struct {
	rec  string // encoded; "" without
	dead uint64 // bits by node
}

const lives = 16 // incarnations of one client

func clientNode(client, life int) core.NodeKey {
	return core.NodeKey{Node: raysys.NodeID(fmt.Sprint(client)), Incarnation: uint64(client*lives + life)}
}

func (w taskWorld) alive(k core.NodeKey) bool { return w.dead&(1<<k.Incarnation) == 0 }

func (w taskWorld) step(call taskCall, out TaskEntry) (bool, taskWorld) {
	if call.dies {
		w.dead |= 1 << call.by.Incarnation
		return true, w
	}
	var before *TaskRecord
	if w.rec != "" {
		t, err := readTaskRecord([]byte(w.rec))
		if err != nil {
			panic(err)
		}
		before = &t
	}
	after, refused := spec(before, call.ch, call.by, w.alive)
	ok := answers(out, call.ch, after, refused)
	if call.ch.kind == taskForget && before != nil && after == nil {
		// It may be asked for again when a leader that did it could not say so, and meet a record that another node
		// has entered since.
		ok = ok || out.Refused
	}
	w.rec = ""
	if after != nil {
		w.rec = string(after.append(nil))
	}
	return ok, w
}

var taskHistory = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		byTask := map[TaskKey][]porcupine.Operation{}
		for _, op := range history {
			if c := op.Input.(taskCall); !c.dies {
				byTask[c.ch.key] = append(byTask[c.ch.key], op)
			}
		}
		for _, ops := range byTask {
			for _, op := range history {
				if op.Input.(taskCall).dies {
					ops = append(ops, op)
				}
			}
			parts = append(parts, ops)
		}
		return parts
	},
	Init: func() any { return taskWorld{} },
	Step: func(state, in, out any) (bool, any) {
		ok, next := state.(taskWorld).step(in.(taskCall), out.(TaskEntry))
		return ok, next
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
}

// TestTaskHistoryRefuses proves that the model can fail: two nodes that both become the submitter of one task are no
// history, nor is an outcome of the attempt before.
func TestTaskHistoryRefuses(t *testing.T) {
	one, two, three := clientNode(0, 0), clientNode(1, 0), clientNode(2, 0)
	has := func(k core.NodeKey, attempt uint32, outcome string) TaskEntry {
		return TaskEntry{Exists: true, Record: TaskRecord{Submitter: k, Attempt: attempt, Outcome: []byte(outcome)}}
	}
	type op = porcupine.Operation
	begin := []op{
		{Input: taskCall{by: one, ch: EnterTask(taskOne, TaskRecord{})}, Output: has(one, 1, ""), Call: 0, Return: 1},
		{Input: taskCall{by: one, dies: true}, Output: TaskEntry{}, Call: 2, Return: 3},
		{ClientId: 1, Input: taskCall{by: two, ch: ClaimTask(taskOne)}, Output: has(two, 2, ""), Call: 4, Return: 6},
	}
	if !porcupine.CheckOperations(taskHistory, begin) {
		t.Fatal("a claim after a death is refused")
	}
	for name, last := range map[string]op{
		"two claims with one attempt": {ClientId: 2, Input: taskCall{by: three, ch: ClaimTask(taskOne)}, Output: has(three, 2, ""), Call: 5, Return: 7},
		"two claims":                  {ClientId: 2, Input: taskCall{by: three, ch: ClaimTask(taskOne)}, Output: has(three, 3, ""), Call: 5, Return: 7},
		"an outcome of attempt 1": {
			ClientId: 2, Input: taskCall{by: two, ch: SettleTask(taskOne, 1, []byte("v"))}, Output: has(two, 2, "v"), Call: 7, Return: 8,
		},
	} {
		if porcupine.CheckOperations(taskHistory, append(begin[:3:3], last)) {
			t.Errorf("%s: passes", name)
		}
	}
}

// TestTasksAreLinearizable: changes by nodes that die and come back, asked at the same time of two leaders of which each
// takes the shard from the other, are what one leader would do one after the other.
func TestTasksAreLinearizable(t *testing.T) {
	for _, seed := range long.Seeds() {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { tasksLinearizable(t, seed) })
	}
}

func tasksLinearizable(t *testing.T, seed uint64) {
	p := newTwoLeaders(t)
	const clients, each = 4, 60
	var (
		mu      sync.Mutex // guards history
		history []porcupine.Operation
		tick    atomic.Int64
		asking  sync.WaitGroup
	)
	note := func(client int, in taskCall, do func() TaskEntry) {
		call := tick.Add(1)
		out := do()
		ret := tick.Add(1)
		mu.Lock()
		defer mu.Unlock()
		history = append(history, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: ret})
	}
	for client := range clients {
		asking.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(client)))
			n := func(_ string, limit int) int { return rnd.IntN(limit) }
			life := 0
			for range each {
				self := clientNode(client, life)
				ch := drawChange(n, 1)
				if ch.kind == taskClaimFrom { // of a node whose own claim was answered: here a leader may ask itself again for any change
					ch = ClaimTask(ch.key)
				}
				if life+1 < lives && rnd.IntN(8) == 0 {
					note(client, taskCall{by: self, dies: true}, func() TaskEntry { p.dead.Store(self, true); return TaskEntry{} })
					life++ // the change is still asked for by the dead
				}
				note(client, taskCall{by: self, ch: ch}, func() TaskEntry { return p.change(t, rnd.IntN(2), self, ch)[0] })
			}
		})
	}
	ended := make(chan bool)
	go func() {
		asking.Wait()
		close(ended)
	}()
	for over := false; !over; {
		p.takeOver(t)
		led := tick.Load()
		for !over && tick.Load() < led+50 {
			select {
			case <-ended:
				over = true
			case <-time.After(time.Millisecond):
			}
		}
	}
	if res := porcupine.CheckOperationsTimeout(taskHistory, history, time.Minute); res != porcupine.Ok {
		t.Fatalf("%d changes of 2 tasks by %d nodes that die: %s; seed %d", len(history), clients, res, seed)
	}
}
