package taskengine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/tasks"
)

// heard is what waits for a turn.
type heard chan string

func (h heard) Final()   { h <- "final" }
func (h heard) Dropped() { h <- "dropped" }

// TestKeptTurnsGo: the node that ran a task keeps its turn no longer than the submitter may say that it is final, whatever
// becomes of the turn above.
func TestKeptTurnsGo(t *testing.T) {
	for name, c := range map[string]struct {
		up   func(d *tasksRuntime) *core.Turn
		then func(up *core.Turn, l *link)
		want string
	}{
		"a grain's turn ends":      {grainTurn, func(up *core.Turn, _ *link) { up.End() }, "final"},
		"a grain's turn cancelled": {grainTurn, func(up *core.Turn, _ *link) { up.Cancel(errBoom) }, "dropped"},
		"a task's node dies":       {grainTurn, func(_ *core.Turn, l *link) { l.cut(errors.New("cut")) }, "dropped"},
		"another node's turn": {func(d *tasksRuntime) *core.Turn {
			return core.NewRemote(core.RemoteSpec{Job: d.job, ID: core.TaskID{Hi: 1}})
		}, func(*core.Turn, *link) {}, "dropped"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table, h := raysys.NewTable(), make(heard, 10)
				task := tasks.DefineIn(table, "task", func(ctx context.Context, n int) (int, error) {
					turn, _, err := core.TurnOf(ctx)
					if err == nil {
						turn.WhenFinal(h)
					}
					return n, err
				})
				lineage := func(c *taskengine.Config) { c.Lineage, c.LineageMemory = true, 1<<20 }
				d, w := newHost(t, "driver", table, 0, lineage), newHost(t, "worker", table, 2)
				l := join(t, d, w)
				up := c.up(d)
				if n, err := nodetest.Get(t, d.ctx(), task.Go(core.HookContext(up), 1)); n != 1 || err != nil {
					t.Fatal(n, err)
				}
				c.then(up, l)
				<-time.After(10 * time.Second) // of the bubble
				synctest.Wait()
				if len(h) != 1 {
					t.Fatalf("%d calls", len(h))
				}
				if got := <-h; got != c.want {
					t.Errorf("what waits is %s, want %s", got, c.want)
				}
				if n := w.engine.Kept(); n != 0 {
					t.Errorf("%d turns are kept", n)
				}
			})
		})
	}
}

// grainTurn is a turn of a grain of d.
func grainTurn(d *tasksRuntime) *core.Turn {
	return core.NewTurn(core.TurnSpec{Kind: core.TurnGrain, Name: "clerk/x.add", ID: core.TaskID{Hi: 2}, Up: d.top, Attempt: 1})
}
