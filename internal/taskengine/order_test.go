package taskengine

import (
	"context"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/ledger"
)

// TestAboveLine: of work of the line and tasks of the queue that goes first whose job has less use, whatever their classes; of one job, or
// beside work of none, the class decides. The queue is mixed once jobs meet, and not before.
func TestAboveLine(t *testing.T) {
	now := int64(time.Second)
	queued, other := &core.Job{}, &core.Job{}
	task := core.NewRoot(queued, context.Background(), nil, core.TaskID{})
	for _, c := range []struct {
		name         string
		less         *core.Job // has less use than the other one
		work         ledger.Standing
		class        core.Class // of the task of the queue
		above, byUse bool
		mixed        bool
	}{
		{name: "the task's job has less", less: queued, work: ledger.Standing{Job: other, Class: core.High}, above: true, byUse: true, mixed: true},
		{name: "the work's job has less", less: other, work: ledger.Standing{Job: other, Class: core.Low}, byUse: true, mixed: true},
		{name: "one job", less: other, work: ledger.Standing{Job: queued}},
		{name: "one job, a higher class", work: ledger.Standing{Job: queued}, class: core.High, above: true, mixed: true},
		{name: "work of none", less: other, work: ledger.Standing{}},
		{name: "work of none, a higher class", work: ledger.Standing{Level: -1}, class: core.High, above: true, mixed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := NewEngine(Config{})
			shares := e.line.Shares()
			e.order.Init(func() int64 { return now }, shares)
			for _, j := range []*core.Job{queued, other} {
				shares.Used(j, now, now)
				if c.less != nil && j != c.less {
					shares.Count(j, oneCPU, now)
				}
			}
			f := &core.Future{}
			f.Init(nil, task, 0, false)
			if c.class != core.Normal {
				f.SetOwn(core.NewTurn(core.TurnSpec{Up: task, Class: &c.class}))
			}
			e.queue.Push(f)
			above, byUse := e.above(c.work)
			if above != c.above || byUse != c.byUse || e.order.Mixed() != c.mixed {
				t.Errorf("a task goes first: %v, by use: %v, mixed: %v; want %v, %v, %v", above, byUse, e.order.Mixed(), c.above, c.byUse, c.mixed)
			}
		})
	}
}
