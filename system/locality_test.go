package system_test

import (
	"context"
	"errors"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// two are a sum and where it was made.
type two struct {
	Node string
	Sum  int
}

func ran(ctx context.Context, n int) (two, error) {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return two{}, err
	}
	return two{string(t.Job().Node), n}, nil
}

var (
	sumAt = tasks.DefineIn(table, "locality.sum", func(ctx context.Context, b []byte) (two, error) { return ran(ctx, sum(b)) })
	addAt = tasks.Define2In(table, "locality.add", func(ctx context.Context, a, b []byte) (two, error) {
		return ran(ctx, sum(a)+sum(b))
	})
	bumpAt = tasks.DefineIn(table, "locality.bump", func(_ context.Context, b []byte) ([]byte, error) {
		out := make([]byte, len(b))
		for i, v := range b {
			out[i] = v + 1
		}
		return out, nil
	})
	insideAt = tasks.DefineIn(table, "locality.inside", func(ctx context.Context, a inside) (two, error) {
		b, err := a.Ref.Get(ctx)
		if err != nil {
			return two{}, err
		}
		return ran(ctx, sum(b)+a.N)
	})
)

type inside struct {
	Ref raysys.Ref[[]byte]
	N   int
}

// only keeps a task to one node, of those made by labelled.
func only(node string) raysys.Option { return raysys.Label("name", node) }

// labelled are two workers of two CPUs with their name as a label, and a driver.
func labelled(t *testing.T, change ...func(*system.Config)) (w1, w2, d *system.Node, ctx context.Context) {
	f := newFleet(t)
	label := func(name string) func(*system.Config) {
		return func(c *system.Config) {
			c.Cluster.Labels = map[string]string{"name": name}
			c.Objects.NoSharing = true
			if c.Cluster.Role == system.Worker {
				c.Resources = raysys.Resources{CPU: 2}
			}
		}
	}
	w1, _ = f.join("w1", system.Worker, label("w1"))
	w2, _ = f.join("w2", system.Worker, label("w2"))
	d, ctx = f.join("d", system.Driver, append(change, label("d"))...)
	return w1, w2, d, ctx
}

// withoutLineage is a driver whose lost objects stay lost.
func withoutLineage(c *system.Config) { c.Lineage = system.LineageOff }

// received fails the test when a node has received objects.
func received(t *testing.T, nodes map[string]*system.Node) {
	t.Helper()
	for name, n := range nodes {
		if s := n.Objects(); s.Received != 0 || s.Objects != 0 {
			t.Errorf("%s has received %d objects and holds %d", name, s.Received, s.Objects)
		}
	}
}

// TestTaskGoesToItsValue: a task runs where its large value is, which moves nowhere; in every form of a dependency.
func TestTaskGoesToItsValue(t *testing.T) {
	_, w2, d, ctx := labelled(t)
	const size = 20 << 20
	want := two{"w1", sum(fill(size, byte(size%256)))}
	big := makeBytes.With(only("w1")).Go(ctx, size)
	if _, _, err := raysys.Wait(ctx, []raysys.Ref[[]byte]{big}, 1); err != nil {
		t.Fatal(err)
	}
	for range long.Form(2, 5) {
		for what, submit := range map[string]func() raysys.Ref[two]{
			"ready":   func() raysys.Ref[two] { return sumAt.On(ctx, big) },
			"inside":  func() raysys.Ref[two] { return insideAt.Go(ctx, inside{big, 0}) },
			"pending": func() raysys.Ref[two] { return sumAt.On(ctx, makeBytes.With(only("w1")).Go(ctx, size)) },
		} { // one at a time: a task that has to wait for a CPU may rather go elsewhere
			if got, err := submit().Get(ctx); err != nil || got != want {
				t.Errorf("%s: %+v, %v; want %+v", what, got, err, want)
			}
		}
	}
	received(t, map[string]*system.Node{"d": d, "w2": w2})
}

// TestChainStays: what follows from a value is made where that is.
func TestChainStays(t *testing.T) {
	_, w2, d, ctx := labelled(t)
	r := makeBytes.With(only("w1")).Go(ctx, 3<<20)
	want := fill(3<<20, 0)
	for range 10 {
		r = bumpAt.On(ctx, r)
		for i := range want {
			want[i]++
		}
	}
	if got, err := sumAt.On(ctx, r).Get(ctx); err != nil || got != (two{"w1", sum(want)}) {
		t.Errorf("%+v, %v", got, err)
	}
	received(t, map[string]*system.Node{"d": d, "w2": w2})
}

// TestLargerInputDecides: of two values on different nodes the smaller one moves. The larger one is so large that its way takes
// longer than what the last report may say of the queue there.
func TestLargerInputDecides(t *testing.T) {
	_, _, d, ctx := labelled(t)
	small, large := makeBytes.With(only("w1")).Go(ctx, 2<<20), makeBytes.With(only("w2")).Go(ctx, 40<<20)
	if _, _, err := raysys.Wait(ctx, []raysys.Ref[[]byte]{small, large}, 2); err != nil { // a CPU that still makes one is not free
		t.Fatal(err)
	}
	want := two{"w2", sum(fill(2<<20, 0)) + sum(fill(40<<20, 0))}
	for _, pair := range [][2]raysys.Ref[[]byte]{{small, large}, {large, small}} {
		if got, err := addAt.On(ctx, pair[0], pair[1]).Get(ctx); err != nil || got != want {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	received(t, map[string]*system.Node{"d": d})
}

// TestFailedInputElsewhere: a dependency that failed fails the task, which does not run.
func TestFailedInputElsewhere(t *testing.T) {
	_, _, _, ctx := labelled(t)
	broken := tasksFail.Go(ctx, 1)
	if _, err := addAt.On(ctx, makeBytes.Go(ctx, 1<<20), broken).Get(ctx); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

var (
	errBroken = errors.New("broken")
	_         = raysys.RegisterError("locality.broken", errBroken)
	tasksFail = tasks.DefineIn(table, "locality.fail", func(context.Context, int) ([]byte, error) { return nil, errBroken })
)

var (
	holdAt = tasks.DefineIn(table, "locality.hold", func(ctx context.Context, n int) (int, error) {
		began <- struct{}{}
		<-ctx.Done()
		return n, context.Cause(ctx)
	})
	began = make(chan struct{}, 1000)
)

// TestBusyNodeIsLeft: a task goes elsewhere, and its value with it, when the queue where that is costs more than the
// way.
func TestBusyNodeIsLeft(t *testing.T) {
	w1, _, _, ctx := labelled(t)
	b := makeBytes.With(only("w1")).Go(ctx, 2<<20)
	if _, err := sumAt.On(ctx, b).Get(ctx); err != nil {
		t.Fatal(err)
	}
	cpus := int(w1.Resources().CPU)
	holding, release := context.WithCancel(ctx)
	defer release()
	for i := range cpus {
		holdAt.With(only("w1")).Go(holding, i)
	}
	for range cpus {
		<-began
	}
	// What waits behind them makes the queue; how long such tasks take is not known yet, so it takes many.
	for i := range 300 {
		holdAt.With(only("w1")).Go(holding, i)
	}
	got, err := sumAt.On(ctx, b).Get(ctx)
	if err != nil || got != (two{"w2", sum(fill(2<<20, 0))}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestNodeOfInputDies: a task that has gone to its value is tried elsewhere when that node dies: with a copy it
// succeeds, without one it ends with the loss.
func TestNodeOfInputDies(t *testing.T) {
	w1, w2, d, ctx := labelled(t, withoutLineage)
	copied, alone := makeBytes.With(only("w1")).Go(ctx, 3<<20), makeBytes.With(only("w1")).Go(ctx, 4<<20)
	// A second node has a copy of one.
	if got, err := sumAt.With(only("w2")).On(ctx, copied).Get(ctx); err != nil || got.Node != "w2" {
		t.Fatal(got, err)
	}
	if _, _, err := raysys.Wait(ctx, []raysys.Ref[[]byte]{alone}, 1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "w2 has the copy, and the directory knows", func() bool { return w2.Objects().Objects == 1 && system.Untold(w2) == 0 })
	// A node that is said to be busy loses to one that has to fetch.
	eventually(t, "w1 is known to be idle", func() bool { return system.Idle(d, "w1") })
	slow := stuckAt.On(ctx, copied)
	lost := stuckAt.On(ctx, alone)
	for range 2 {
		if node := <-stuckOn; node != "w1" {
			t.Fatalf("a task began on %s", node)
		}
	}
	if err := w1.Kill(context.Background(), errors.New("test")); err != nil {
		t.Fatal(err)
	}
	if got, err := slow.Get(ctx); err != nil || got != (two{"w2", sum(fill(3<<20, 0))}) {
		t.Errorf("with a copy: %+v, %v", got, err)
	}
	if got, err := lost.Get(ctx); !errors.Is(err, raysys.ErrObjectLost) {
		t.Errorf("without: %+v, %v", got, err)
	}
}

var (
	stuckAt = tasks.DefineIn(table, "locality.stuck", func(ctx context.Context, b []byte) (two, error) {
		r, err := ran(ctx, sum(b))
		if t, _, _ := core.TurnOf(ctx); err == nil && t.Attempt() == 1 {
			stuckOn <- r.Node
			<-ctx.Done()
			return two{}, context.Cause(ctx)
		}
		return r, err
	})
	stuckOn = make(chan string, 10)
)

// TestInputsLargerThanTheBudget: a task gets its values although the store has no room for both of them at once.
func TestInputsLargerThanTheBudget(t *testing.T) {
	f := newFleet(t)
	f.join("w1", system.Worker, func(c *system.Config) { c.Cluster.Labels = map[string]string{"name": "w1"} })
	f.join("w2", system.Worker, func(c *system.Config) {
		c.Cluster.Labels = map[string]string{"name": "w2"}
		c.Objects = system.ObjectConfig{Memory: 4 << 20, NoSharing: true}
	})
	_, ctx := f.join("d", system.Driver)
	for i := range 3 {
		n := 3<<20 + i
		a, b := makeBytes.With(only("w1")).Go(ctx, n), makeBytes.With(only("w1")).Go(ctx, n+1)
		got, err := addAt.With(only("w2")).On(ctx, a, b).Get(ctx)
		if want := (two{"w2", sum(fill(n, byte(n))) + sum(fill(n+1, byte(n+1)))}); err != nil || got != want {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
	}
}
