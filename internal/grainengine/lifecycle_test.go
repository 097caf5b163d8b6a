package grainengine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// hooked is a grain whose hooks are the test's: the key of its table names them.
type hooked struct {
	n    int
	test *hooks
}

type hooks struct {
	mu         sync.Mutex // guards log
	log        []string
	activate   func(ctx context.Context, h *hooked) error
	deactivate func(ctx context.Context, h *hooked) error
}

func (h *hooks) say(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

func (h *hooks) said() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.log...)
}

// current is how a new G finds its test: DefineIn makes it without arguments. Tests that use it are not parallel.
var current atomic.Pointer[hooks]

func (h *hooked) OnActivate(ctx context.Context) error {
	h.test = current.Load()
	id, _ := grains.Self(ctx)
	h.test.say("activate %s", id.Key)
	if h.test.activate != nil {
		return h.test.activate(ctx, h)
	}
	return nil
}

func (h *hooked) OnDeactivate(ctx context.Context) error {
	id, _ := grains.Self(ctx)
	h.test.say("deactivate %s after %d", id.Key, h.n)
	if h.test.deactivate != nil {
		return h.test.deactivate(ctx, h)
	}
	return nil
}

func (h *hooked) Add(_ context.Context, d int) (int, error) { h.n += d; return h.n, nil }

func (h *hooked) Leave(ctx context.Context) error { return grains.Deactivate(ctx) }

type hookedKind struct {
	table *raysys.Table
	test  *hooks
	kind  grains.Kind[hooked]
	add   grains.Func[hooked, int, int]
	leave grains.Act0[hooked]
}

func newHooked(opts ...grains.Option) *hookedKind {
	tb := raysys.NewTable()
	k := grains.DefineIn[hooked](tb, "hooked", opts...)
	h := &hookedKind{tb, &hooks{}, k, grains.Method(k, "add", (*hooked).Add), grains.Action0(k, "leave", (*hooked).Leave)}
	current.Store(h.test)
	return h
}

func (h *hookedKind) want(t *testing.T, log ...string) {
	t.Helper()
	if d := cmp.Diff(log, h.test.said()); d != "" {
		t.Error(d)
	}
}

func TestActivationAndDeactivation(t *testing.T) {
	h := newHooked()
	n, ctx := nodetest.Start(t, system.Config{Table: h.table})
	a := h.kind.Get("a")
	if engineOf(n).Activations("hooked") != 0 {
		t.Error("a grain nobody called is in memory")
	}
	wants(t, ctx, h.add.Call(ctx, a, 1), 1)
	wants(t, ctx, h.add.Call(ctx, a, 1), 2)
	if _, err := h.leave.Call(ctx, a).Get(ctx); err != nil {
		t.Error(err)
	}
	wants(t, ctx, h.add.Call(ctx, a, 5), 5) // the state went with the activation
	if err := n.Close(context.Background()); err != nil {
		t.Error(err)
	}
	h.want(t, "activate a", "deactivate a after 2", "activate a", "deactivate a after 5")
	if engineOf(n).Activations("hooked") != 0 {
		t.Error("grains live on in a closed node")
	}
}

// TestDeactivateKeepsCalls: calls behind the one that deactivates go to the next activation, in order.
func TestDeactivateKeepsCalls(t *testing.T) {
	h := newHooked()
	ctx := nodetest.Driver(t, h.table)
	a := h.kind.Get("a")
	last := 0
	for round := range 200 {
		var refs []raysys.Ref[int]
		for range 3 {
			refs = append(refs, h.add.Call(ctx, a, 1))
		}
		gone := h.leave.Call(ctx, a)
		for range 3 {
			refs = append(refs, h.add.Call(ctx, a, 1))
		}
		if _, err := gone.Get(ctx); err != nil {
			t.Fatal(err)
		}
		for i, r := range refs {
			v, err := r.Get(ctx)
			if err != nil {
				t.Fatal(round, i, err)
			}
			if v != last+1 && v != 1 {
				t.Fatalf("round %d: call %d sees %d after %d: out of order", round, i, v, last)
			}
			last = v
		}
	}
}

func TestHooksMayUseTasksAndGrains(t *testing.T) {
	h := newHooked()
	double := tasks.DefineIn(h.table, "double", func(_ context.Context, x int) (int, error) { return 2 * x, nil })
	other := grains.DefineIn[cell](h.table, "cell")
	add := grains.Method(other, "add", func(c *cell, _ context.Context, d int) (int, error) { c.n += d; return c.n, nil })
	use := func(ctx context.Context, h *hooked) error {
		v, err := double.Go(ctx, 21).Get(ctx)
		if err != nil {
			return err
		}
		h.n, err = add.Call(ctx, other.Get("x"), v).Get(ctx)
		return err
	}
	var ended atomic.Pointer[context.Context]
	h.test.activate = func(ctx context.Context, h *hooked) error {
		ended.Store(&ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return use(ctx, h)
	}
	h.test.deactivate = use
	ctx := nodetest.Driver(t, h.table)
	wants(t, ctx, h.add.Call(ctx, h.kind.Get("a"), 0), 42)
	if c := *ended.Load(); c.Err() == nil {
		t.Error("the context of a hook outlives it")
	}
	if _, err := h.leave.Call(ctx, h.kind.Get("a")).Get(ctx); err != nil {
		t.Error(err)
	}
	wants(t, ctx, h.add.Call(ctx, h.kind.Get("a"), 0), 126)
}

func TestActivationThatFails(t *testing.T) {
	boom := errors.New("no disk")
	for name, fail := range map[string]func(context.Context, *hooked) error{
		"error": func(context.Context, *hooked) error { return boom },
		"panic": func(context.Context, *hooked) error { panic(boom) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooked()
			bad, entered, release := atomic.Bool{}, make(chan bool), make(chan bool)
			bad.Store(true)
			h.test.activate = func(ctx context.Context, g *hooked) error {
				if !bad.Load() {
					return nil
				}
				entered <- true
				<-release
				return fail(ctx, g)
			}
			n, ctx := nodetest.Start(t, system.Config{Table: h.table})
			a := h.kind.Get("a")
			for range 3 {
				refs := []raysys.Ref[int]{h.add.Call(ctx, a, 1)}
				<-entered
				refs = append(refs, h.add.Call(ctx, a, 1), h.add.Call(ctx, a, 1))
				release <- true
				for _, r := range refs {
					err := nodetest.Fails(t, ctx, r, grains.ErrActivation)
					if !errors.Is(err, boom) || !strings.Contains(err.Error(), "hooked/a") {
						t.Errorf("%v hides the cause or the grain", err)
					}
				}
			}
			bad.Store(false)
			// The activation that failed may still be going; then it fails one more call.
			nodetest.Eventually(t, "the next call tries again", func() bool {
				v, err := h.add.Call(ctx, a, 1).Get(ctx)
				return v == 1 && err == nil
			})
			// The one that failed is counted until it is gone.
			nodetest.Eventually(t, "one activation", func() bool { return engineOf(n).Activations("hooked") == 1 })
			for _, line := range h.test.said() {
				if strings.HasPrefix(line, "deactivate") {
					t.Error("a grain that was never active was deactivated")
				}
			}
		})
	}
}

// TestDeactivationThatFails: the failure is told to the log, and the grain goes all the same.
func TestDeactivationThatFails(t *testing.T) {
	for name, fail := range map[string]func(context.Context, *hooked) error{
		"error": func(context.Context, *hooked) error { return errNote },
		"panic": func(context.Context, *hooked) error { panic(errNote) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooked()
			h.test.deactivate = fail
			ctx := nodetest.Driver(t, h.table)
			for range 5 {
				wants(t, ctx, h.add.Call(ctx, h.kind.Get("a"), 1), 1)
				if _, err := h.leave.Call(ctx, h.kind.Get("a")).Get(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
