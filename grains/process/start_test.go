package process_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/process"
	"github.com/raysys/raysys/testkit"
)

// slowly has a script whose import ends when the test says so.
func slowly(start time.Duration) process.Config {
	return process.Config{Script: "import slow_module\n" + childPy, New: "Box", Args: map[string]any{"scale": 2}, Dir: "testdata", Start: start}
}

// own has a child of its own, whose start it asks for in each call until that is up.
type own struct{ process.Child }

// active has its child started when it is activated.
type active struct{ process.Child }

func (a *active) OnActivate(ctx context.Context) error { return a.Start(ctx, slowly(0)) }

var (
	slows      = process.Define("slow", slowly(0))
	slowCount  = process.Method[none, counted](slows, "count")
	slowPID    = grains.Method0(slows.Kind, "pid", func(c *process.Child, _ context.Context) (int, error) { return c.PID(), nil })
	bounds     = process.Define("slow.bound", slowly(200*time.Millisecond))
	boundCount = process.Method[none, counted](bounds, "count")
	actives    = grains.Define[active]("slow.active")
	activePID  = grains.Method0(actives, "pid", func(a *active, _ context.Context) (int, error) { return a.PID(), nil })
	owns       = grains.Define[own]("slow.own")
	ownCount   = grains.Method0(owns, "count", func(o *own, ctx context.Context) (int, error) {
		if o.PID() == 0 {
			if err := o.Start(ctx, slowly(0)); err != nil {
				return 0, err
			}
		}
		c, err := process.Call[none, counted](ctx, &o.Child, "count", none{})
		return c.N, err
	})
)

// folder is where the children of a test say that they import slow_module, and wait for release.
func folder(t *testing.T) (started func() []int, release func()) {
	t.Helper()
	needs(t)
	dir := t.TempDir()
	t.Setenv("PROCESS_TEST_DIR", dir)
	started = func() (pids []int) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if pid, err := strconv.Atoi(e.Name()); err == nil {
				pids = append(pids, pid)
			}
		}
		return pids
	}
	return started, func() {
		if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const short = 300 * time.Millisecond // less than any start takes before it is released

// TestStartOutlivesTheCall: calls that end before the child is up say what it does, and a later one finds it.
func TestStartOutlivesTheCall(t *testing.T) {
	for name, call := range map[string]func(context.Context, ...raysys.Option) (int, error){
		"Define": func(ctx context.Context, opts ...raysys.Option) (int, error) {
			c, err := slowCount.With(opts...).Call(ctx, slows.Get("a"), none{}).Get(ctx)
			return c.N, err
		},
		"Start": func(ctx context.Context, opts ...raysys.Option) (int, error) {
			return ownCount.With(opts...).Call(ctx, owns.Get("a")).Get(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			started, release := folder(t)
			ctx := testkit.New(t, testkit.Nodes(1)).Context()
			var err error
			testkit.Eventually(t, busy, "a call tells what the start does", func() bool {
				_, err = call(ctx, raysys.Deadline(short))
				if !errors.Is(err, raysys.ErrDeadline) {
					t.Fatal(err)
				}
				return errors.Is(err, process.ErrStarting) && strings.Contains(err.Error(), "importing slow_module")
			})
			if text := err.Error(); !strings.Contains(text, "/a: the child process is not up yet: starting since ") || !strings.HasSuffix(text, "\nloading") {
				t.Error(text)
			}
			release()
			if n, err := call(ctx, raysys.Deadline(busy)); n != 1 || err != nil || len(started()) != 1 {
				t.Error(n, err, started())
			}
		})
	}
}

// TestStartHasABound: of its own, and the next call starts another child.
func TestStartHasABound(t *testing.T) {
	folder(t)
	ctx := testkit.New(t).Context()
	for range 2 {
		_, err := boundCount.With(raysys.Deadline(busy)).Call(ctx, bounds.Get("a"), none{}).Get(ctx)
		if exit, ok := errors.AsType[*process.ExitError](err); !ok || !errors.Is(err, process.ErrStarting) || exit.Status != "signal: killed" || !strings.Contains(err.Error(), "and Config.Start is 200ms") {
			t.Error(err)
		}
	}
}

// TestStartsAtOnce: no more than so many children start at a time, and those that wait for it say so.
func TestStartsAtOnce(t *testing.T) {
	process.StartsAtOnce(t, 1)
	started, release := folder(t)
	ctx := testkit.New(t).Context()
	first := slowCount.With(raysys.Deadline(busy)).Call(ctx, slows.Get("a"), none{})
	testkit.Eventually(t, busy, "the first child starts", func() bool { return len(started()) == 1 })
	testkit.Eventually(t, busy, "the second waits", func() bool {
		_, err := slowCount.With(raysys.Deadline(short)).Call(ctx, slows.Get("b"), none{}).Get(ctx)
		return errors.Is(err, process.ErrStarting) && strings.Contains(err.Error(), "waiting for others: 1 children start at a time")
	})
	if pid, err := slowPID.Call(ctx, slows.Get("b")).Get(ctx); pid != 0 || err != nil || len(started()) != 1 {
		t.Error(pid, err, started())
	}
	release()
	if got, err := first.Get(ctx); got.N != 1 || err != nil {
		t.Error(got, err)
	}
	if got, err := slowCount.With(raysys.Deadline(busy)).Call(ctx, slows.Get("b"), none{}).Get(ctx); got.N != 1 || err != nil || len(started()) != 2 {
		t.Error(got, err, started())
	}
}

// TestEndsWhileItStarts: a child that is not up yet ends with its grain, and one that waits for others never begins.
func TestEndsWhileItStarts(t *testing.T) {
	for name, call := range map[string]func(context.Context, string){
		"Define": func(ctx context.Context, key string) {
			_ = slowCount.With(raysys.Deadline(short)).Call(ctx, slows.Get(key), none{})
		},
		"OnActivate": func(ctx context.Context, key string) { _ = activePID.Call(ctx, actives.Get(key)) },
	} {
		process.StartsAtOnce(t, 1)
		started, _ := folder(t)
		t.Run(name, func(t *testing.T) {
			ctx := testkit.New(t).Context()
			call(ctx, "a")
			testkit.Eventually(t, busy, "it starts", func() bool { return len(started()) == 1 })
			call(ctx, "b")
		})
		if pids := started(); len(pids) != 1 || runs(pids[0]) {
			t.Error(name, pids)
		}
	}
}

// fickle is an argument of a child that can be written once: when the definition is checked.
type fickle struct{ written atomic.Bool }

func (f *fickle) MarshalJSON() ([]byte, error) {
	if f.written.Swap(true) {
		panic("written twice")
	}
	return []byte("1"), nil
}

var (
	fickles      = process.Define("fickle", process.Config{Script: childPy, New: "Box", Args: map[string]any{"scale": new(fickle)}})
	fickleCount  = process.Method[none, counted](fickles, "count")
	sureAnswered = grains.Method0(fickles.Kind, "sure", func(*process.Child, context.Context) (int, error) { return 7, nil })
)

// TestStartPanics: an argument that panics while a child starts, which no turn does, fails the call and ends no program.
func TestStartPanics(t *testing.T) {
	needs(t)
	ctx := testkit.New(t).Context()
	_, err := fickleCount.With(raysys.Deadline(busy)).Call(ctx, fickles.Get("a"), none{}).Get(ctx)
	if err == nil || !strings.Contains(err.Error(), "fickle/a: start a child process: panic: written twice") {
		t.Error(err)
	}
	if n, err := sureAnswered.Call(ctx, fickles.Get("b")).Get(ctx); n != 7 || err != nil {
		t.Error(n, err)
	}
}
