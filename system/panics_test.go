package system_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

type brittle struct{}

func (*brittle) Break(context.Context, int) (int, error) { panic("brittle broke") }

type stillborn struct{}

func (*stillborn) OnActivate(context.Context) error       { panic("never lived") }
func (*stillborn) Live(context.Context, int) (int, error) { return 0, nil }

var (
	brittles   = grains.DefineIn[brittle](table, "brittle")
	breakIt    = grains.Method(brittles, "break", (*brittle).Break)
	stillborns = grains.DefineIn[stillborn](table, "stillborn")
	live       = grains.Method(stillborns, "live", (*stillborn).Live)
	relayed    = tasks.DefineIn(table, "relayed panic", func(ctx context.Context, n int) (int, error) {
		return breakIt.Call(ctx, brittles.Get("x"), n).Get(ctx)
	})
	unborn = tasks.DefineIn(table, "unborn", func(ctx context.Context, n int) (int, error) {
		return live.Call(ctx, stillborns.Get("x"), n).Get(ctx)
	})
)

// TestPanicOverNodes: a driver whose task fails because a grain it called panicked, on other nodes, finds the grain's stack
// with errors.As; and the worker where it panicked has logged it, stack and all.
func TestPanicOverNodes(t *testing.T) {
	f := newFleet(t)
	core, logs := observer.New(zapcore.ErrorLevel)
	logged := func(cfg *system.Config) { cfg.Logger = zap.New(core) }
	f.join("w1", system.Worker, logged)
	f.join("w2", system.Worker, logged)
	_, ctx := f.join("d", system.Driver, logged)
	for _, c := range []struct {
		task  tasks.Task[int, int]
		cause string
		work  string
	}{{relayed, "brittle broke", "brittle/x.break"}, {unborn, "never lived", "stillborn/x.OnActivate"}} {
		_, err := c.task.Go(ctx, 1).Get(ctx)
		var te *raysys.TaskError
		if !errors.Is(err, raysys.ErrPanic) || !errors.As(err, &te) || !strings.Contains(err.Error(), c.cause) {
			t.Fatalf("%v is not the panic of %s", err, c.work)
		}
		if !strings.Contains(string(te.Stack), "panics_test.go") {
			t.Errorf("errors.As found the error of %s without the stack: %q", te.Function, te.Stack)
		}
		found := false
		for _, e := range logs.FilterMessage("user code panicked").All() {
			found = found || e.ContextMap()["work"] == c.work && strings.Contains(e.Stack, "panics_test.go") && strings.HasPrefix(e.ContextMap()["node"].(string), "w")
		}
		if !found {
			t.Errorf("no worker logged the panic of %s with its stack: %v", c.work, logs.All())
		}
	}
}
