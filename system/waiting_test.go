package system_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

type anywhereGrain struct{}

func (anywhereGrain) Answer(context.Context, int) (int, error) { return 42, nil }

var (
	anywheres    = grains.DefineIn[anywhereGrain](table, "anywhere", grains.StatelessWorker(2))
	answerThere  = grains.Method(anywheres, "answer", (*anywhereGrain).Answer)
	keyeds       = grains.DefineIn[anywhereGrain](table, "keyed somewhere")
	answerKeyed  = grains.Method(keyeds, "answer", (*anywhereGrain).Answer)
	anywhereTask = tasks.DefineIn(table, "anywhere task", func(_ context.Context, n int) (int, error) { return n, nil })
)

// TestNoWorkerYet: a task, a call of a grain and a stateless call all wait for the first worker; after 5 s the driver
// says so, once, and says it again only after growing pauses.
func TestNoWorkerYet(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		core, logs := observer.New(zapcore.WarnLevel)
		logging := func(c *system.Config) { c.Logger = zap.New(core) }
		_, ctx := b.join("d", system.Driver, logging)
		<-time.After(37 * time.Millisecond) // a call that is looked up again at the moment of the driver's look is not counted
		task := anywhereTask.With(raysys.Deadline(time.Hour)).Go(ctx, 42)
		call := answerThere.Call(ctx, anywheres.Get("x"), 1)
		keyed := answerKeyed.Call(ctx, keyeds.Get("x"), 1)
		<-time.After(12 * time.Second)
		lines := logs.FilterMessage("work waits").All()
		if len(lines) != 1 || !strings.Contains(lines[0].ContextMap()["for"].(string), "a worker (1 task, 2 calls): no node of cluster default runs work") {
			t.Errorf("after 12 s the driver has said %v: want one line that says what is waited for", lines)
		}
		b.join("w", system.Worker, logging)
		for name, r := range map[string]raysys.Ref[int]{"task": task, "stateless call": call, "keyed call": keyed} {
			if v, err := r.Get(ctx); v != 42 || err != nil {
				t.Errorf("the %s did not wait for the worker: %d, %v", name, v, err)
			}
		}
	})
}

// TestWhatIsWaitedFor: with workers there, the driver says which function none of them has.
func TestWhatIsWaitedFor(t *testing.T) {
	other := raysys.NewTable()
	tasks.DefineIn(other, "of another version", func(_ context.Context, n int) (int, error) { return n, nil })
	for name, c := range map[string]struct {
		table  *raysys.Table // of the worker
		submit tasks.Task[int, int]
		want   string
	}{
		"function": {other, anywhereTask, "a worker that has function anywhere task (2 wait for it): start one with this program"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				t := b.t
				core, logs := observer.New(zapcore.WarnLevel)
				b.join("w", system.Worker, func(cfg *system.Config) {
					cfg.Logger, cfg.Table, cfg.Resources.CPU = zap.New(core), c.table, 2
				})
				_, ctx := b.join("d", system.Driver, func(cfg *system.Config) { cfg.Logger = zap.New(core) })
				var refs []raysys.Ref[int]
				for i := range 2 {
					refs = append(refs, c.submit.Go(ctx, i))
				}
				<-time.After(12 * time.Second)
				lines := logs.FilterMessage("work waits").All()
				if len(lines) != 1 || lines[0].ContextMap()["for"] != c.want {
					t.Errorf("after 12 s the driver has said %v, want one line that it waits for %s", lines, c.want)
				}
				for _, r := range refs {
					r.Cancel()
				}
			})
		})
	}
}

// TestWorkDoesNotMove: a driver whose work stands still says what it waits for, where that is and what shows more: after a minute, and again
// after pauses that double; not while it goes on to submit, and from the begin once its work has moved. In a process of its own it says so too.
func TestWorkDoesNotMove(t *testing.T) {
	for name, cluster := range map[string]bool{"cluster": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				t := b.t
				core, logs := observer.New(zapcore.WarnLevel)
				cfg := system.Config{Name: "d", Table: table, Resources: raysys.Resources{CPU: 2}, Logger: zap.New(core)}
				at := "d"
				if cluster {
					at = "a"
					b.join("a", system.Worker, func(c *system.Config) { c.Resources.CPU, c.Cluster.Labels = 2, map[string]string{"node": "a"} })
					cfg.Cluster, cfg.Namespace, cfg.Resources = over(b.net.Transport("d"), system.ClusterConfig{Store: b.kv, Role: system.Driver}), "test", raysys.Resources{}
				}
				n, end := b.start(cfg)
				defer end()
				// said checks for how long the work had not moved in the first of the lines since it was last called, and what the last says.
				said := func(last, more string, want ...time.Duration) {
					t.Helper()
					lines := logs.FilterMessage("work does not move").All()
					logs.TakeAll()
					var since []time.Duration
					for _, l := range lines {
						since = append(since, l.ContextMap()["since"].(time.Duration))
					}
					if len(since) < len(want) || !slices.Equal(since[:len(want)], want) || len(since) > len(want)+1 {
						t.Fatalf("it has said that its work has not moved for %v, want %v", since, want)
					}
					if !cluster {
						more = "Node.Waits, Node.Get and Node.Stack of package system"
					}
					if fields := lines[len(lines)-1].ContextMap(); fields["for"] != last || fields["more"] != more || fields["open"] != int64(1) {
						t.Errorf("it says %v, want that it waits for %s", fields, last)
					}
				}
				ctx, cancel := context.WithCancel(n.Context(context.Background()))
				defer cancel()
				hangs := groupWaits.Go(ctx, 0)
				id := hangs.ID().String()
				for _, c := range []struct {
					wait time.Duration
					said int
				}{{59 * time.Second, 0}, {3 * time.Second, 1}} {
					<-time.After(c.wait)
					if lines := logs.FilterMessage("work does not move").Len(); lines != c.said {
						t.Fatalf("a moment before or after a minute it has said so %d times, want %d", lines, c.said)
					}
				}
				<-time.After(8 * time.Minute)
				said("group waits "+id+" on "+at+", running", "raysys list waits, raysys get "+id, time.Minute, 3*time.Minute, 7*time.Minute)
				for range 600 { // the driver goes on beside it
					anywhereTask.Go(ctx, 1).Get(ctx)
					<-time.After(time.Second)
				}
				<-time.After(150 * time.Second)
				said("group waits "+id+" on "+at+", running", "raysys list waits, raysys get "+id, time.Minute)

				hangs.Cancel()
				call := purseRest.Call(ctx, purseKind.Get("x"))
				<-time.After(270 * time.Second) // the pause has doubled before
				said("purse/x.rest "+call.ID().String()+" on "+at+", running", "raysys list waits, raysys get purse/x", time.Minute)
				call.Cancel()
				<-time.After(time.Hour)
				if lines := logs.FilterMessage("work does not move").Len(); lines > 0 {
					t.Errorf("it has said so %d times though nothing is open", lines)
				}
				if cluster {
					return
				}
				month, over := context.WithTimeout(ctx, 30*24*time.Hour)
				defer over()
				_, _ = groupWaits.Go(ctx, 0).Get(month)
				if lines := logs.FilterMessage("work does not move").Len(); lines != 11 {
					t.Errorf("in 30 days it has said so %d times: it stops after a day", lines)
				}
			})
		})
	}
}
