package system_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// counter is the grain of these tests, twice the task.
type counter struct{ n int }

func (c *counter) Add(_ context.Context, d int) (int, error) { c.n += d; return c.n, nil }

// Wait ends with its context, or when told.
func (c *counter) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-release:
		return nil
	}
}

// Hang is deaf: it ends when told alone.
func (c *counter) Hang(context.Context) error { <-release; return nil }

var (
	release  chan bool // made by the test that uses it
	table    = raysys.NewTable()
	counters = grains.DefineIn[counter](table, "counter")
	add      = grains.Method(counters, "add", (*counter).Add)
	wait     = grains.Action0(counters, "wait", (*counter).Wait)
	hang     = grains.Action0(counters, "hang", (*counter).Hang)
	twice    = tasks.DefineIn(table, "twice", func(_ context.Context, x int) (int, error) { return 2 * x, nil })
	deaf     = tasks.Define0In(table, "deaf", func(context.Context) (int, error) { <-release; return 1, nil })
)

func newNode(t testing.TB, cfg system.Config) *system.Node {
	t.Helper()
	cfg.Table = table
	n, err := system.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func startNode(t testing.TB, cfg system.Config) (*system.Node, context.Context) {
	t.Helper()
	n := newNode(t, cfg)
	if err := n.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close(context.Background()) })
	return n, n.Context(context.Background())
}

func works(t testing.TB, ctx context.Context) {
	t.Helper()
	if v, err := twice.Go(ctx, 4).Get(ctx); v != 8 || err != nil {
		t.Error("the task returned", v, err)
	}
	if _, err := add.Call(ctx, counters.Get("works"), 1).Get(ctx); err != nil {
		t.Error("the grain:", err)
	}
}

func refuses(t testing.TB, ctx context.Context, want error) {
	t.Helper()
	if _, err := twice.Go(ctx, 4).Get(ctx); !errors.Is(err, want) {
		t.Errorf("the task returned %v, want %v", err, want)
	}
	if _, err := add.Call(ctx, counters.Get("refuses"), 1).Get(ctx); !errors.Is(err, want) {
		t.Errorf("the grain returned %v, want %v", err, want)
	}
}

func TestStart(t *testing.T) {
	n := newNode(t, system.Config{})
	before := n.Context(context.Background())
	refuses(t, before, raysys.ErrClosed)
	if _, err := twice.Go(before, 1).Get(before); err == nil || !strings.Contains(err.Error(), "Start") {
		t.Errorf("%v does not say what to do", err)
	}
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("too late"))
	if err := n.Start(ended); err == nil || !strings.Contains(err.Error(), "too late") {
		t.Error("Start under an ended context:", err)
	}
	if err := n.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	works(t, n.Context(context.Background()))
	if err := n.Start(context.Background()); err == nil {
		t.Error("a second Start is no error")
	}
	if err := n.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := n.Start(context.Background()); !errors.Is(err, raysys.ErrClosed) {
		t.Error("Start after Close:", err)
	}
	refuses(t, n.Context(context.Background()), raysys.ErrClosed)
}

func TestCloseUnstarted(t *testing.T) {
	n := newNode(t, system.Config{})
	for range 2 {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// TestCloseCancels: what runs sees its context end, what waits ends with ErrClosed.
func TestCloseCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release = make(chan bool)
		n, ctx := startNode(t, system.Config{})
		running := wait.Call(ctx, counters.Get("a"))
		queued := wait.With(raysys.Detached()).Call(ctx, counters.Get("a"))
		synctest.Wait()
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
		for _, r := range []grains.Done{running, queued} {
			if _, err := r.Get(ctx); !errors.Is(err, raysys.ErrClosed) {
				t.Error(err)
			}
		}
		refuses(t, ctx, raysys.ErrClosed)
	})
}

// TestCloseWaits: Close waits for what is deaf, until its context ends; then the error says what still runs.
func TestCloseWaits(t *testing.T) {
	for name, run := range map[string]func(ctx context.Context){
		"grain": func(ctx context.Context) { hang.Call(ctx, counters.Get("a")) },
		"task":  func(ctx context.Context) { deaf.Go(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release = make(chan bool)
				n, ctx := startNode(t, system.Config{})
				run(ctx)
				synctest.Wait()
				begin := time.Now()
				short, cancel := context.WithTimeoutCause(context.Background(), time.Second, errors.New("no patience"))
				defer cancel()
				err := n.Close(short)
				if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "no patience") {
					t.Errorf("%v does not say that a %s runs", err, name)
				}
				if d := time.Since(begin); d != time.Second {
					t.Errorf("it waited %v", d)
				}
				close(release)
			})
			synctest.Test(t, func(t *testing.T) {
				release = make(chan bool)
				n, ctx := startNode(t, system.Config{})
				run(ctx)
				synctest.Wait()
				begin := time.Now()
				time.AfterFunc(time.Minute, func() { close(release) })
				if err := n.Close(context.Background()); err != nil {
					t.Error(err)
				}
				if d := time.Since(begin); d != time.Minute {
					t.Errorf("it waited %v, want the minute that the %s ran", d, name)
				}
			})
		})
	}
}

// TestCloseTwice: every Close waits for the first, or for its own context.
func TestCloseTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release = make(chan bool)
		n, ctx := startNode(t, system.Config{})
		hang.Call(ctx, counters.Get("a"))
		synctest.Wait()
		begin := time.Now()
		time.AfterFunc(time.Minute, func() { close(release) })
		var wg sync.WaitGroup
		for range 5 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				if err := n.Close(context.Background()); err != nil {
					t.Error(err)
				}
				if d := time.Since(begin); d != time.Minute {
					t.Errorf("a Close returned after %v", d)
				}
			}()
		}
		synctest.Wait()
		short, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := n.Close(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		wg.Wait()
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestNodesAreIndependent: two nodes with the same table share nothing, and one outlives the other.
func TestNodesAreIndependent(t *testing.T) {
	a, actx := startNode(t, system.Config{Name: "a"})
	_, bctx := startNode(t, system.Config{Name: "b"})
	g := counters.Get("x")
	for i := range 3 {
		if v, err := add.Call(actx, g, 1).Get(actx); v != i+1 || err != nil {
			t.Error("a:", v, err)
		}
		if v, err := add.Call(bctx, g, 10).Get(bctx); v != 10*(i+1) || err != nil {
			t.Error("b:", v, err)
		}
	}
	if err := a.Close(context.Background()); err != nil {
		t.Error(err)
	}
	refuses(t, actx, raysys.ErrClosed)
	works(t, bctx)
	if v, err := add.Call(bctx, g, 10).Get(bctx); v != 40 || err != nil {
		t.Error("b lost its grain with a:", v, err)
	}
}

// TestContext: it carries the end of the context it was made from, and each is a driver of its own.
func TestContext(t *testing.T) {
	n, ctx := startNode(t, system.Config{})
	parent, cancel := context.WithCancelCause(context.WithValue(context.Background(), key{}, "v"))
	mine := n.Context(parent)
	if mine.Value(key{}) != "v" || mine.Err() != nil {
		t.Error(mine.Value(key{}), mine.Err())
	}
	release = make(chan bool)
	defer close(release)
	r := wait.Call(mine, counters.Get("a"))
	bye := errors.New("bye")
	cancel(bye)
	<-mine.Done()
	if _, err := r.Get(ctx); !errors.Is(err, raysys.ErrCancelled) || !errors.Is(err, bye) {
		t.Error(err)
	}
	works(t, ctx) // the others go on
	x, y := twice.Go(n.Context(context.Background()), 1), twice.Go(n.Context(context.Background()), 1)
	if x.ID() == y.ID() {
		t.Error("two drivers have the same ids")
	}
	_, _ = x.Get(ctx)
	_, _ = y.Get(ctx)
}

// TestCallAfterCancel: once cancel has returned, nothing more is submitted, whichever context of the caller's is used.
func TestCallAfterCancel(t *testing.T) {
	n, _ := startNode(t, system.Config{})
	for range 200 {
		parent, cancel := context.WithCancel(context.Background())
		ctx := n.Context(parent)
		cancel()
		refuses(t, ctx, raysys.ErrCancelled)
		refuses(t, n.Context(parent), raysys.ErrCancelled)
	}
}

type key struct{}

// TestStatusHasBuild: each node says which file its program is.
func TestStatusHasBuild(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(self)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%x", sha256.Sum256(file))[:8]
		b.join("w", system.Worker)
		n, _ := b.join("d", system.Driver)
		st, err := n.Status(context.Background())
		if err != nil || len(st.Nodes) != 2 {
			t.Fatalf("%v, %+v", err, st)
		}
		for _, one := range st.Nodes {
			if one.Build != want {
				t.Errorf("node %s has the build %q, and the program is %s", one.Name, one.Build, want)
			}
		}
	})
}
