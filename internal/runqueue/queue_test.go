package runqueue

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/ledger"
)

// bench is two queues of one order, on a clock that the test moves, and the tasks that it makes.
type bench struct {
	now      int64
	order    Order
	own, far *Queue
	unqueued atomic.Int64
	jobs     map[string]*core.Job
	names    map[*core.Future]string
}

func newBench() *bench {
	b := &bench{now: 1, jobs: map[string]*core.Job{"a": {}, "b": {}, "heavy": {Weight: 3}}, names: map[*core.Future]string{}}
	b.order.Init(func() int64 { return b.now }, &ledger.Shares{})
	b.own, b.far = New(&b.order, &b.unqueued), New(&b.order, nil)
	return b
}

// task makes a task of a job: "a1", or "a1+" of class High, or "a1-" of class Low.
func (b *bench) task(name string) *core.Future {
	class := core.Normal
	switch name[len(name)-1] {
	case '+':
		class = core.High
	case '-':
		class = core.Low
	}
	root := core.NewRoot(b.jobs[strings.TrimRight(name, "0123456789+-")], context.Background(), nil, core.TaskID{})
	c := &core.Future{}
	c.Init(nil, core.NewTurn(core.TurnSpec{Up: root, Class: &class}), 0, false)
	b.names[c] = name
	return c
}

func (b *bench) push(q *Queue, names string) {
	for _, name := range strings.Fields(names) {
		b.now++
		q.Push(b.task(name))
		b.order.Tick()
	}
}

// pops takes n tasks.
func (b *bench) pops(n int) string {
	var list []string
	for range n {
		if c, _ := b.order.Pop(b.own, b.far, nil); c != nil {
			list = append(list, b.names[c])
		}
	}
	return strings.Join(list, " ")
}

// TestNext: which task is next.
func TestNext(t *testing.T) {
	for _, c := range []struct {
		name, own, far string
		wait           int64 // between the two
		want           string
		mixed          bool
	}{
		{"one job", "a1 a2 a3", "", 0, "a1 a2 a3", false},
		{"classes of a job", "a1- a2 a3+ a4+", "", 0, "a3+ a4+ a2 a1-", true},
		{"jobs take turns", "a1+ a2+ a3+ b1+ b2+ b3+", "", 0, "a1+ b1+ a2+ b2+ a3+ b3+", true},
		{"one that weighs three", "heavy1 heavy2 heavy3 heavy4 heavy5 heavy6 b1 b2", "", 0, "heavy1 b1 heavy2 heavy3 heavy4 b2 heavy5 heavy6", true},
		{"use goes before class", "a1 a2 b1+ b2+", "", 0, "b1+ a1 b2+ a2", true},
		{"two queues", "a1 a2", "b1 b2", 0, "a1 b1 a2 b2", true},
		{"Low work that waited for a step is as Normal, and older", "a1-", "a2", int64(core.AgeStep), "a1- a2", true},
		{"Low work that waited for less", "a1-", "a2", int64(core.AgeStep) / 2, "a2 a1-", true},
	} {
		b := newBench()
		b.push(b.own, c.own)
		b.now += c.wait
		b.push(b.far, c.far)
		if got := b.order.Mixed(); got != c.mixed {
			t.Errorf("%s: mixed is %v", c.name, got)
		}
		if got := b.pops(len(b.names)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if !b.own.Empty() || !b.far.Empty() || b.own.Len()+b.far.Len() != 0 || b.unqueued.Load() != 0 {
			t.Errorf("%s: %d and %d tasks are left, %d in lanes", c.name, b.own.Len(), b.far.Len(), b.unqueued.Load())
		}
	}
}

// TestReturn: a task that is put back goes before those of its job and class, and not before a higher class. Where all tasks are alike it
// need not be.
func TestReturn(t *testing.T) {
	b := newBench()
	b.push(b.own, "a1 a2")
	if c := b.own.Pop(); b.own.Return(c) {
		t.Errorf("%s was put back, of tasks that are all alike", b.names[c])
	}
	b = newBench()
	b.push(b.own, "a1 a2 a3+")
	b.pops(1)
	c, _ := b.order.Pop(b.own, nil, nil)
	if !b.own.Return(c) {
		t.Fatalf("%s was not put back", b.names[c])
	}
	b.push(b.own, "a4+")
	if got := b.pops(3); got != "a4+ a1 a2" {
		t.Errorf("then %s, want a4+ a1 a2", got)
	}
	b = newBench()
	b.push(b.own, "a1+ a2+")
	c = b.own.Pop()
	b.now++
	b.own.Return(c)
	if got := b.pops(2); got != "a1+ a2+" {
		t.Errorf("of a lane then %s, want a1+ a2+", got)
	}
}

// TestPopLate: what begins late is the youngest task of the longest lane.
func TestPopLate(t *testing.T) {
	b := newBench()
	b.push(b.own, "a1 b1- b2- a2+")
	if got := b.names[b.own.PopLate()]; got != "b2-" {
		t.Errorf("%s, want b2-", got)
	}
	if b.own.Len() != 3 || b.unqueued.Load() != 2 {
		t.Errorf("%d tasks are left, %d in lanes; want 3 and 2", b.own.Len(), b.unqueued.Load())
	}
}

// TestUnmix: the order ends to decide a moment after the last task of another job or class has begun, and not before.
func TestUnmix(t *testing.T) {
	b := newBench()
	b.push(b.own, "a1 b1 a2 a3 a4")
	b.pops(2)
	if b.pops(1); !b.order.Mixed() {
		t.Error("the other job's task has begun just now, and may come back")
	}
	b.now += int64(ledger.SeenFor)
	if b.pops(1); b.order.Mixed() {
		t.Error("all tasks have been of one job for a moment, and the queues still take the lock")
	}
	if got := b.pops(1); got != "a4" {
		t.Errorf("then %q, want a4", got)
	}
}

// TestAbove: a lane of a higher class is above, one of the same or a lower is not.
func TestAbove(t *testing.T) {
	b := newBench()
	b.push(b.own, "a1 a2+")
	for class, want := range map[core.Class]bool{core.Low: true, core.Normal: true, core.High: false} {
		if got := b.order.Above(class); got != want {
			t.Errorf("a High task is above class %d: %v", class, got)
		}
	}
	if b.order.AboveIn(core.Low, b.far) {
		t.Error("the other queue has none")
	}
}
