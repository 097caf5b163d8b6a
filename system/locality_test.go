package system_test

import (
	"context"
	"errors"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// two are a sum and where it was made.
type two struct {
	Node string
	Sum  int
}

func ran(ctx context.Context, n int) (two, error) {
	t, _, err := raysys.TurnOf(ctx)
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

// labelled are two workers with their name as a label, and a driver.
func labelled(t *testing.T) (w1, w2, d *system.Node, ctx context.Context) {
	f := newFleet(t)
	label := func(name string) func(*system.Config) {
		return func(c *system.Config) {
			c.Cluster.Labels = map[string]string{"name": name}
			c.Objects.NoSharing = true
		}
	}
	w1, _ = f.join("w1", system.Worker, label("w1"))
	w2, _ = f.join("w2", system.Worker, label("w2"))
	d, ctx = f.join("d", system.Driver, label("d"))
	return w1, w2, d, ctx
}

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
	for range 5 {
		for what, r := range map[string]raysys.Ref[two]{
			"ready": sumAt.On(ctx, big), "inside": insideAt.Go(ctx, inside{big, 0}),
			"pending": sumAt.On(ctx, makeBytes.With(only("w1")).Go(ctx, size)),
		} {
			if got, err := r.Get(ctx); err != nil || got != want {
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

// TestLargerInputDecides: of two values on different nodes the smaller one moves.
func TestLargerInputDecides(t *testing.T) {
	_, _, d, ctx := labelled(t)
	small, large := makeBytes.With(only("w1")).Go(ctx, 2<<20), makeBytes.With(only("w2")).Go(ctx, 9<<20)
	want := two{"w2", sum(fill(2<<20, 0)) + sum(fill(9<<20, 0))}
	for what, r := range map[string]raysys.Ref[two]{"small, large": addAt.On(ctx, small, large), "large, small": addAt.On(ctx, large, small)} {
		if got, err := r.Get(ctx); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", what, got, err, want)
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
