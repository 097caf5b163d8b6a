package grainengine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
)

// pass lets d of virtual time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestPassivation: an idle activation goes within a sixteenth of the idle period after it, and not before.
func TestPassivation(t *testing.T) {
	for name, c := range map[string]struct {
		opts []grains.Option
		idle time.Duration
	}{
		"default":   {nil, 15 * time.Minute},
		"IdleAfter": {[]grains.Option{grains.IdleAfter(time.Second)}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHooked(c.opts...)
				n, ctx := nodetest.Start(t, system.Config{Table: h.table})
				a, b := h.kind.Get("a"), h.kind.Get("b")
				wants(t, ctx, h.add.Call(ctx, a, 1), 1)
				wants(t, ctx, h.add.Call(ctx, b, 1), 1)
				for i := range 8 { // calls keep a in memory; b goes meanwhile
					pass(c.idle / 2)
					wants(t, ctx, h.add.Call(ctx, a, 1), i+2)
				}
				if engineOf(n).Activations("hooked") != 1 {
					t.Error(engineOf(n).Activations("hooked"), "activations, want a's alone")
				}
				pass(c.idle - c.idle/100)
				h.want(t, "activate a", "activate b", "deactivate b after 1")
				pass(c.idle/100 + c.idle/16)
				h.want(t, "activate a", "activate b", "deactivate b after 1", "deactivate a after 9")
				if engineOf(n).Activations("hooked") != 0 {
					t.Error("grains that went are counted")
				}
				wants(t, ctx, h.add.Call(ctx, a, 1), 1)
			})
		})
	}
}

// TestLongTurnIsNotIdle: the idle time begins when a turn ends.
func TestLongTurnIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHooked(grains.IdleAfter(time.Minute))
		wait := grains.Action(h.kind, "wait", func(h *hooked, ctx context.Context, d time.Duration) error {
			<-time.After(d)
			h.n = 7
			return nil
		}).With(raysys.NoDeadline())
		ctx := nodetest.Driver(t, h.table)
		a := h.kind.Get("a")
		if _, err := wait.Call(ctx, a, time.Hour).Get(ctx); err != nil {
			t.Fatal(err)
		}
		pass(59 * time.Second)
		wants(t, ctx, h.add.Call(ctx, a, 0), 7)
		h.want(t, "activate a")
	})
}

// TestNoClockWithoutGrains: when the last activation has gone, nothing of the kind keeps time.
func TestNoClockWithoutGrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHooked(grains.IdleAfter(time.Second))
		ctx := nodetest.Driver(t, h.table)
		for range 3 {
			wants(t, ctx, h.add.Call(ctx, h.kind.Get("a"), 1), 1)
			pass(10 * time.Second)
		}
		want := []string{}
		for range 3 {
			want = append(want, "activate a", "deactivate a after 1")
		}
		if d := cmp.Diff(want, h.test.said()); d != "" {
			t.Error(d)
		}
	})
}

// TestCallWhilePassivating: a call that comes while OnDeactivate runs waits for it and then gets a new activation.
func TestCallWhilePassivating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHooked(grains.IdleAfter(time.Second))
		h.test.deactivate = func(ctx context.Context, h *hooked) error {
			if h.n == 5 {
				<-time.After(time.Minute)
				h.test.say("gone")
			}
			return nil
		}
		ctx := nodetest.Driver(t, h.table)
		a := h.kind.Get("a")
		wants(t, ctx, h.add.Call(ctx, a, 5), 5)
		pass(2 * time.Second)
		h.want(t, "activate a", "deactivate a after 5")
		var refs []raysys.Ref[int]
		for range 10 {
			refs = append(refs, h.add.With(raysys.NoDeadline()).Call(ctx, a, 1))
		}
		for i, r := range refs {
			wants(t, ctx, r, i+1)
		}
		h.want(t, "activate a", "deactivate a after 5", "gone", "activate a")
	})
}

// TestHookInACycle: a grain whose hook waits for a call that comes back to it is refused, not left to its deadline.
func TestHookInACycle(t *testing.T) {
	for _, hook := range []string{"OnActivate", "OnDeactivate"} {
		t.Run(hook, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHooked()
				other := grains.DefineIn[cell](h.table, "cell")
				back := grains.Method(other, "back", func(_ *cell, ctx context.Context, g grains.Grain[hooked]) (int, error) {
					return h.add.Call(ctx, g, 1).Get(ctx)
				})
				var got error
				hooking := func(ctx context.Context, h *hooked) error {
					self, _ := grains.Self(ctx)
					if self.Key == "b" {
						return nil
					}
					_, got = back.Call(ctx, other.Get("x"), grainOf(self)).Get(ctx)
					return nil
				}
				if hook == "OnActivate" {
					h.test.activate = hooking
				} else {
					h.test.deactivate = hooking
				}
				begin := time.Now()
				ctx := nodetest.Driver(t, h.table)
				wants(t, ctx, h.add.Call(ctx, h.kind.Get("a"), 1), 1)
				if _, err := h.leave.Call(ctx, h.kind.Get("a")).Get(ctx); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				isCycle(t, got, "hooked/a."+hook)
				if d := time.Since(begin); d != 0 {
					t.Errorf("it took %v of virtual time", d)
				}
			})
		})
	}
}

func grainOf(id grains.ID) (g grains.Grain[hooked]) {
	b, _ := grains.DefineIn[hooked](raysys.NewTable(), id.Kind).Get(id.Key).MarshalBinary()
	_ = g.UnmarshalBinary(b)
	return g
}
