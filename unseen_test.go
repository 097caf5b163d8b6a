package raysys_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// A failure nobody looked at is logged, once, when nobody can look at it any more. One that was looked at in any way
// is not, and neither is a cancellation.
func TestUnseenFailureIsLogged(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	table := raysys.NewTable()
	ran := make(chan struct{}, 100)
	fail := tasks.DefineIn(table, "fail", func(_ context.Context, what string) (int, error) {
		defer func() { ran <- struct{}{} }()
		if what == "panic" {
			panic("x")
		}
		return 0, errors.New(what)
	})
	one := echo(table)
	gate, _ := gated(table)
	_, ctx := nodetest.Start(t, system.Config{Table: table, Logger: zap.New(core)})
	mentions := func(text string) (n int) {
		for _, e := range logs.FilterMessage("failure nobody looked at").All() {
			fields := e.ContextMap()
			if fields["error"] == text {
				n++
				if work, _ := fields["work"].(string); work == "" {
					t.Errorf("the entry names no work: %v", fields)
				}
			}
		}
		return n
	}
	func() { // the frame's refs go with it
		fail.Go(ctx, "unseen")
		fail.With(raysys.CPU(0)).Go(ctx, "unseen, shaped")
		fail.Map(ctx, []string{"unseen, mapped"})
		fail.Go(ctx, "panic")
		raysys.PhaseOf(fail.Go(ctx, "state only"))
		nodetest.Get(t, ctx, fail.Go(ctx, "got"))
		raysys.GetAll(ctx, []raysys.Ref[int]{fail.Go(ctx, "got with others")})
		nodetest.Get(t, ctx, one.On(ctx, fail.Go(ctx, "through a dependant")))
		one.On(ctx, fail.Go(ctx, "through a dependant nobody looked at"))
		if !gate.Go(ctx, 1).Cancel() {
			t.Error("Cancel came too late")
		}
		named := gate.With(raysys.Detached("named")).Go(ctx, 1)
		if _, err := gate.With(raysys.Detached("named")).Go(ctx, 2).Get(ctx); !errors.Is(err, raysys.ErrNameTaken) {
			t.Errorf("other content under a name that is taken: %v", err)
		}
		named.Cancel()
	}()
	for range 9 {
		<-ran
	}
	for _, text := range []string{
		"fail: unseen", "fail: unseen, shaped", "fail: unseen, mapped", "fail: panic: x", "fail: state only",
		"fail: through a dependant nobody looked at",
	} {
		nodetest.Eventually(t, "logged: "+text, func() bool { runtime.GC(); return mentions(text) == 1 })
	}
	for range 5 {
		runtime.GC()
	}
	if n := logs.Len(); n != 6 {
		t.Errorf("%d entries, want 6: %v", n, logs.All())
	}
}
