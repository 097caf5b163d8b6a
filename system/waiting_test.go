package system_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/linktest"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/embedded"
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
	store.Warm()
	synctest.Test(t, func(t *testing.T) {
		kv, err := embedded.Open(embedded.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer kv.Close()
		net := linktest.NewNetwork(1)
		core, logs := observer.New(zapcore.WarnLevel)
		join := func(name raysys.NodeID, role system.Role) (*system.Node, context.Context) {
			n, err := system.New(system.Config{
				Name: name, Table: table, Namespace: "test", Logger: zap.New(core),
				Cluster: &system.ClusterConfig{Store: kv, Role: role, Network: net.Transport(name)},
			})
			if err == nil {
				err = n.Start(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			return n, n.Context(context.Background())
		}
		d, ctx := join("d", system.Driver)
		task := anywhereTask.With(raysys.Deadline(time.Hour)).Go(ctx, 42)
		call := answerThere.Call(ctx, anywheres.Get("x"), 1)
		keyed := answerKeyed.Call(ctx, keyeds.Get("x"), 1)
		<-time.After(12 * time.Second)
		lines := logs.FilterMessage("work waits").All()
		if len(lines) != 1 || !strings.Contains(lines[0].ContextMap()["for"].(string), "a worker (1 task, 2 calls): no node of cluster default runs work") {
			t.Errorf("after 12 s the driver has said %v: want one line that says what is waited for", lines)
		}
		w, _ := join("w", system.Worker)
		for name, r := range map[string]raysys.Ref[int]{"task": task, "stateless call": call, "keyed call": keyed} {
			if v, err := r.Get(ctx); v != 42 || err != nil {
				t.Errorf("the %s did not wait for the worker: %d, %v", name, v, err)
			}
		}
		for _, n := range []*system.Node{d, w} {
			if err := n.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
		<-time.After(time.Minute)
	})
}

// TestWhatIsWaitedFor: with workers there, the driver says which function none of them has.
func TestWhatIsWaitedFor(t *testing.T) {
	store.Warm()
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
			synctest.Test(t, func(t *testing.T) {
				kv, err := embedded.Open(embedded.Config{})
				if err != nil {
					t.Fatal(err)
				}
				defer kv.Close()
				net := linktest.NewNetwork(1)
				core, logs := observer.New(zapcore.WarnLevel)
				join := func(name raysys.NodeID, role system.Role, tb *raysys.Table, cpu float64) (*system.Node, context.Context) {
					n, err := system.New(system.Config{
						Name: name, Table: tb, Namespace: "test", Logger: zap.New(core), Resources: raysys.Resources{CPU: cpu},
						Cluster: &system.ClusterConfig{Store: kv, Role: role, Network: net.Transport(name)},
					})
					if err == nil {
						err = n.Start(t.Context())
					}
					if err != nil {
						t.Fatal(err)
					}
					return n, n.Context(context.Background())
				}
				w, _ := join("w", system.Worker, c.table, 2)
				d, ctx := join("d", system.Driver, table, 0)
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
				for _, n := range []*system.Node{d, w} {
					if err := n.Close(context.Background()); err != nil {
						t.Error(err)
					}
				}
				<-time.After(time.Minute)
			})
		})
	}
}
