package system_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/system"
)

// unfit is a grain whose OnActivate fails, or panics by its key.
type unfit struct{}

func (*unfit) OnActivate(ctx context.Context) error {
	if id, _ := grains.Self(ctx); id.Key == "panics" {
		panic("no floor")
	}
	return errors.New("no table")
}

// unfitDurable is one of a durable kind.
type unfitDurable struct{ N grains.State[int] }

func (*unfitDurable) OnActivate(context.Context) error { return errors.New("no table") }

var (
	unfitKind     = grains.DefineIn[unfit](table, "unfit")
	unfitPing     = grains.Action0(unfitKind, "ping", func(*unfit, context.Context) error { return nil })
	unfitDurables = grains.DefineIn[unfitDurable](table, "unfitdurable", grains.Durable())
	unfitTry      = grains.Action0(unfitDurables, "try", func(*unfitDurable, context.Context) error { return nil })
)

// TestActivationFails: a failing OnActivate is in functions, failures and the log, with its cause and a panic's stack; calls that fail with it are
// errors. Grains that fail alike are one line, and a storm of them is one line in the log each 10 s.
func TestActivationFails(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		core, logs := observer.New(zapcore.WarnLevel)
		a, _ := b.join("a", system.Worker, func(c *system.Config) { c.Logger = zap.New(core) })
		_, ctx := b.join("d", system.Driver)
		for i := range 30 {
			if _, err := unfitPing.Call(ctx, unfitKind.Get(fmt.Sprintf("user-%c", 'a'+i))).Get(ctx); !errors.Is(err, grains.ErrActivation) || !strings.Contains(err.Error(), fmt.Sprintf("unfit/user-%c: activation failed: no table", 'a'+i)) {
				t.Fatalf("a call: %v", err)
			}
			<-time.After(100 * time.Millisecond)
		}
		if _, err := unfitPing.Call(ctx, unfitKind.Get("panics")).Get(ctx); !errors.Is(err, grains.ErrActivation) {
			t.Fatal(err)
		}
		if _, err := unfitTry.Call(ctx, unfitDurables.Get("x")).Get(ctx); !errors.Is(err, grains.ErrActivation) {
			t.Fatal(err)
		}
		functions, err := a.Functions(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		ended := map[string]string{}
		for _, f := range functions.Functions {
			ended[f.Name] = fmt.Sprint(f.Ended)
		}
		for name, want := range map[string]string{
			"unfit.OnActivate": "map[error:30 panic:1]", "unfit.ping": "map[error:31]", "unfitdurable.OnActivate": "map[error:1]", "unfitdurable.try": "map[error:1]",
		} {
			if ended[name] != want {
				t.Errorf("%s ended %s, want %s", name, ended[name], want)
			}
		}
		failures, err := a.Failures(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		of := map[string]inspect.Failure{}
		for _, f := range failures.Failures {
			of[f.Function+": "+f.Text] = f
		}
		alike := of["unfit.OnActivate: no table"]
		if len(of) != 6 || alike.Count != 30 || !strings.HasPrefix(alike.Work, "unfit/user-") || !strings.HasSuffix(alike.Work, ".OnActivate") || alike.ID == "" {
			t.Errorf("failures: %+v", failures.Failures)
		}
		if p := of["unfit.OnActivate: panic: no floor"]; !p.Panic || !strings.Contains(p.Stack, "(*unfit).OnActivate") {
			t.Errorf("the panic: %+v", p)
		}
		<-time.After(10 * time.Second)
		unfitPing.Call(ctx, unfitKind.Get("last")).Get(ctx)
		lines := logs.FilterMessage("activation failed").All()
		if len(lines) != 3 {
			t.Fatalf("%d lines: %v", len(lines), lines)
		}
		if d := lines[2].ContextMap()["detail"].(string); !strings.Contains(d, "no table; 30 more of the kind failed") {
			t.Errorf("the last line: %v", d)
		}
	})
}
