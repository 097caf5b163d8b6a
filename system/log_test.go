package system_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
)

// TestLogs: one line at Info per change of the node's state, lower-case, with the facts in fields; none per call.
func TestLogs(t *testing.T) {
	core, logs := observer.New(zapcore.InfoLevel)
	n, ctx := startNode(t, system.Config{Name: "n1", Logger: zap.New(core)})
	for range 100 {
		works(t, ctx)
	}
	if err := n.Close(context.Background()); err != nil {
		t.Error(err)
	}
	var got []string
	for _, e := range logs.All() {
		got = append(got, e.Message)
		if e.ContextMap()["node"] != "n1" {
			t.Error(e.Message, "does not name the node:", e.ContextMap())
		}
		if e.Message != strings.ToLower(e.Message) {
			t.Error(e.Message)
		}
	}
	if strings.Join(got, ", ") != "node started, node closed" {
		t.Errorf("%q", got)
	}
}

var errTorn = errors.New("torn")

type fragile struct{}

func (f *fragile) Fail(context.Context) error         { return errTorn }
func (f *fragile) Boom(context.Context) error         { panic(errTorn) }
func (f *fragile) OnDeactivate(context.Context) error { return errTorn }

// TestFailuresNobodySaw are logged, with the work's name: of a Tell, of a call whose future is dropped, of a hook. One
// that somebody looked at is not.
func TestFailuresNobodySaw(t *testing.T) {
	tb := raysys.NewTable()
	k := grains.DefineIn[fragile](tb, "fragile", grains.OnPanic(grains.DeactivateOnPanic))
	fail := grains.Action0(k, "fail", (*fragile).Fail)
	boom := grains.Action0(k, "boom", (*fragile).Boom)
	core, logs := observer.New(zapcore.WarnLevel)
	n, err := system.New(system.Config{Table: tb, Logger: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	ctx := n.Context(context.Background())
	if _, err := fail.Call(ctx, k.Get("seen")).Get(ctx); !errors.Is(err, errTorn) {
		t.Error(err)
	}
	_ = fail.Tell(ctx, k.Get("told"))
	boom.Call(ctx, k.Get("dropped"))
	seen := map[string]bool{}
	for begin := time.Now(); len(seen) < 3; runtime.GC() {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("only these were logged:", seen)
		}
		for _, e := range logs.All() {
			seen[e.ContextMap()["work"].(string)] = true
		}
	}
	if err := n.Close(context.Background()); err != nil {
		t.Error(err)
	}
	for _, e := range logs.All() {
		seen[e.ContextMap()["work"].(string)] = true
		if e.Level != zapcore.WarnLevel {
			t.Error(e)
		}
	}
	for _, work := range []string{"fragile/told.fail", "fragile/dropped.boom", "fragile/dropped.OnDeactivate", "fragile/told.OnDeactivate"} {
		if !seen[work] {
			t.Error(work, "was not logged:", seen)
		}
	}
	if seen["fragile/seen.fail"] {
		t.Error("a failure that was seen was logged")
	}
}
