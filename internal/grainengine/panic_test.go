package grainengine_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
)

// TestPanic: the call fails with the stack, the process lives, and the kind's choice says what becomes of the
// activation. Calls in the mailbox are kept.
func TestPanic(t *testing.T) {
	for name, c := range map[string]struct {
		choice grains.PanicChoice
		after  int // what the first call after the panic returns
		log    []string
	}{
		"keep":       {grains.KeepOnPanic, 2, []string{"activate a"}},
		"deactivate": {grains.DeactivateOnPanic, 1, []string{"activate a", "deactivate a after 1", "activate a"}},
		"restart":    {grains.RestartOnPanic, 1, []string{"activate a", "activate a"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooked(grains.OnPanic(c.choice))
			entered, release := make(chan bool), make(chan bool)
			boom := grains.Action0(h.kind, "boom", func(*hooked, context.Context) error {
				entered <- true
				<-release
				panic(errNote)
			})
			ctx := nodetest.Driver(t, h.table)
			a := h.kind.Get("a")
			wants(t, ctx, h.add.Call(ctx, a, 1), 1)
			r := boom.Call(ctx, a)
			<-entered
			var queued []raysys.Ref[int]
			for range 10 {
				queued = append(queued, h.add.Call(ctx, a, 1))
			}
			release <- true
			err := nodetest.Fails(t, ctx, r, raysys.ErrPanic)
			var te *raysys.TaskError
			if !errors.As(err, &te) || !errors.Is(err, errNote) || te.Function != "hooked/a.boom" || !strings.Contains(string(te.Stack), "panic_test.go") {
				t.Errorf("%v: %+v", err, te)
			}
			for i, q := range queued {
				wants(t, ctx, q, c.after+i)
			}
			h.want(t, c.log...)
		})
	}
}

// TestManyPanics: protoactor stops a child that it had to restart too often; the grain is called again all the same.
func TestManyPanics(t *testing.T) {
	for _, choice := range []grains.PanicChoice{grains.KeepOnPanic, grains.DeactivateOnPanic, grains.RestartOnPanic} {
		h := newHooked(grains.OnPanic(choice))
		boom := grains.Action0(h.kind, "boom", func(*hooked, context.Context) error { panic("boom") })
		ctx := nodetest.Driver(t, h.table)
		for i := range 50 {
			a := h.kind.Get("a")
			b, r := boom.Call(ctx, a), h.add.Call(ctx, a, 1)
			nodetest.Fails(t, ctx, b, raysys.ErrPanic)
			want := 1
			if choice == grains.KeepOnPanic {
				want = i + 1
			}
			wants(t, ctx, r, want)
		}
	}
}

// TestGoexit: a method or hook that ends its goroutine fails its call and stops nothing else.
func TestGoexit(t *testing.T) {
	for name, opts := range map[string][]grains.Option{
		"grain": nil, "worker": {grains.StatelessWorker(1)}, "reentrant": {grains.Reentrant()},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooked(opts...)
			exit := grains.Action0(h.kind, "exit", func(*hooked, context.Context) error { runtime.Goexit(); return nil })
			around := grains.Action0(h.kind, "around", func(_ *hooked, ctx context.Context) error {
				self, _ := h.kind.Self(ctx)
				_, err := exit.Call(ctx, self).Get(ctx)
				return err
			})
			ctx := nodetest.Driver(t, h.table)
			a := h.kind.Get("a")
			for i := range 5 {
				x, r := exit.Call(ctx, a), h.add.Call(ctx, a, 1)
				_, err := x.Get(ctx)
				if err == nil || !strings.Contains(err.Error(), "Goexit") {
					t.Errorf("got %v", err)
				}
				wants(t, ctx, r, i+1)
			}
			if name == "reentrant" {
				if _, err := around.Call(ctx, a).Get(ctx); err == nil || !strings.Contains(err.Error(), "Goexit") {
					t.Errorf("got %v", err)
				}
				wants(t, ctx, h.add.Call(ctx, a, 1), 6)
			}
		})
	}
}

func TestGoexitInHook(t *testing.T) {
	exit := func(context.Context, *hooked) error { runtime.Goexit(); return nil }
	t.Run("OnActivate", func(t *testing.T) {
		h := newHooked()
		h.test.activate = exit
		ctx := nodetest.Driver(t, h.table)
		for range 3 {
			nodetest.Fails(t, ctx, h.add.Call(ctx, h.kind.Get("a"), 1), grains.ErrActivation)
		}
	})
	t.Run("OnDeactivate", func(t *testing.T) {
		h := newHooked()
		h.test.deactivate = exit
		n, ctx := nodetest.Start(t, system.Config{Table: h.table})
		for range 3 {
			wants(t, ctx, h.add.Call(ctx, h.kind.Get("a"), 1), 1)
			if _, err := h.leave.Call(ctx, h.kind.Get("a")).Get(ctx); err != nil {
				t.Error(err)
			}
		}
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestContextEndsWithTurn: goroutines that a method leaves behind learn that it has returned, however it did.
func TestContextEndsWithTurn(t *testing.T) {
	for name, end := range map[string]func() (int, error){
		"return": func() (int, error) { return 1, nil },
		"error":  func() (int, error) { return 0, errNote },
		"panic":  func() (int, error) { panic("boom") },
		"goexit": func() (int, error) { runtime.Goexit(); return 0, nil },
	} {
		t.Run(name, func(t *testing.T) {
			k, done := newKnot(), make(chan error)
			turn := k.turn(func(ctx context.Context) (int, error) {
				over := ctx.Done()
				go func() {
					<-over
					done <- ctx.Err()
				}()
				return end()
			})
			ctx := nodetest.Driver(t, k.table)
			if err := turn.Tell(ctx, k.kind.Get("a")); err != nil {
				t.Error(err)
			}
			if err := <-done; err != context.Canceled {
				t.Error(err)
			}
		})
	}
}
