package guide_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

var mean = tasks.Define("guide.objects.mean", func(ctx context.Context, xs []float64) (float64, error) {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs)), nil
})

var ones = tasks.Define("guide.objects.ones", func(ctx context.Context, n int) ([]float64, error) {
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = 1
	}
	return xs, nil
})

func Example_objectPut() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		weights := raysys.Put(ctx, make([]float64, 1<<20)) // 8 MiB, not copied; do not change the slice any more
		first := mean.On(ctx, weights)                     // both tasks read the one object
		second := mean.On(ctx, weights)
		fmt.Println(raysys.GetAll(ctx, []raysys.Ref[float64]{first, second}).Values())
		return nil
	})
	// Output: [0 0] <nil>
}

func Example_objectResult() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		xs := ones.Go(ctx, 1<<20)           // the result stays on the node that computed it
		m, err := mean.On(ctx, xs).Get(ctx) // and this task is sent there
		fmt.Println(m, err)
		return nil
	})
	// Output: 1 <nil>
}

type batch struct {
	Weights raysys.Ref[[]float64] // there when the task starts
	Rows    []int
}

var score = tasks.Define("guide.objects.score", func(ctx context.Context, b batch) (float64, error) {
	sum := 0.0
	err := raysys.View(ctx, b.Weights, func(w []float64) error { // no copy
		for _, i := range b.Rows {
			sum += w[i]
		}
		return nil // w is not used after this
	})
	return sum, err
})

func Example_objectView() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		weights := ones.Go(ctx, 1<<20)
		fmt.Println(score.Go(ctx, batch{weights, []int{1, 2, 3}}).Get(ctx))
		return nil
	})
	// Output: 3 <nil>
}

type watched struct {
	Weights raysys.Handle[[]float64] // passed on, not waited for and not fetched
}

var phase = tasks.Define("guide.objects.phase", func(ctx context.Context, w watched) (string, error) {
	return raysys.PhaseOf(w.Weights.Ref()).String(), nil
})

func Example_objectRelease() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		weights := raysys.Put(ctx, make([]float64, 1<<20))
		m := mean.On(ctx, weights)
		weights.Release() // the task that was given the reference before still reads it
		_, err := weights.Get(ctx)
		fmt.Println(errors.Is(err, raysys.ErrReleased))
		fmt.Println(m.Get(ctx))
		return nil
	})
	// Output:
	// true
	// 0 <nil>
}

func Example_objectNamed() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		w := make([]float64, 1<<20)
		if _, err := raysys.Put(ctx, w, raysys.Named("weights")).Get(ctx); err != nil { // nil: the name is known everywhere
			return err
		}
		found, err := raysys.Lookup[[]float64](ctx, "weights").Get(ctx) // on any node, in any run of the program
		fmt.Println(len(found), err)
		fmt.Println(raysys.Forget(ctx, "weights")) // without other references the object goes
		_, err = raysys.Lookup[[]float64](ctx, "weights").Get(ctx)
		fmt.Println(errors.Is(err, raysys.ErrNotFound))
		return nil
	})
	// Output:
	// 1048576 <nil>
	// <nil>
	// true
}

func TestObjectHandle(t *testing.T) {
	ctx := testkit.New(t).Context()
	if p, err := phase.Go(ctx, watched{ones.Go(ctx, 1<<20).Handle()}).Get(ctx); p != "pending" && p != "ready" || err != nil {
		t.Error(p, err)
	}
}

var putFrom = tasks.Define0("guide.objects.put-from", func(ctx context.Context) (raysys.Handle[[]float64], error) {
	return raysys.Put(ctx, make([]float64, 1<<20)).Handle(), nil
})

// What a task computed is made again, what was put is not, and a replica outlives its node.
func TestObjectsOfADeadNode(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	ctx := k.Context()
	first := raysys.Prefer(raysys.OnNode("n1"))
	computed := ones.With(first).Go(ctx, 1<<20)
	held, err := putFrom.With(raysys.OnNode("n1")).Go(ctx).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ready, _, err := raysys.Wait(ctx, []raysys.Ref[[]float64]{computed}, 1)
	if len(ready) != 1 || err != nil {
		t.Fatal(err)
	}
	why, err := raysys.Why(ctx, computed) // where it is, how it was made, whether it can be made again
	if why.Owner != "n1" || !why.Recipe || err != nil {
		t.Error(why, err)
	}
	kept := raysys.Put(ctx, make([]float64, 1<<20), raysys.Named("kept"), raysys.Replicas(2)) // two nodes, this one included
	if _, err := kept.Get(ctx); err != nil {
		t.Error(err)
	}
	k.Cluster().Kill(1)
	if xs, err := computed.Get(ctx); len(xs) != 1<<20 || err != nil {
		t.Error(len(xs), err)
	}
	if xs, err := raysys.Lookup[[]float64](ctx, "kept").Get(ctx); len(xs) != 1<<20 || err != nil {
		t.Error(len(xs), err)
	}
	if _, err := held.Ref().Get(ctx); !errors.Is(err, raysys.ErrObjectLost) {
		t.Error(err)
	}
}

// Without a cluster there is one node, and no disk unless the program has a folder.
func TestObjectOptionsAlone(t *testing.T) {
	ctx := testkit.New(t).Context()
	w := make([]float64, 1<<20)
	if _, err := raysys.Put(ctx, w, raysys.Replicas(2)).Get(ctx); !errors.Is(err, raysys.ErrNoCapacity) {
		t.Error(err)
	}
	if _, err := raysys.Put(ctx, w, raysys.Named("a"), raysys.OnDisk()).Get(ctx); !errors.Is(err, raysys.ErrNoStore) {
		t.Error(err)
	}
	disk := testkit.New(t, testkit.Config(system.Config{Name: "one", Data: t.TempDir()})).Context()
	table := raysys.Put(disk, w, raysys.Named("table"), raysys.OnDisk()) // returns when the file is synced
	if _, err := table.Get(disk); err != nil {
		t.Error(err)
	}
}

// What memory has no room for goes to files, and comes back.
func TestObjectsSpill(t *testing.T) {
	small := system.Config{Objects: system.ObjectConfig{Memory: 20 << 20, Spill: t.TempDir()}} // 20 MiB of memory
	k := testkit.New(t, testkit.Loose(), testkit.Config(small))
	ctx := k.Context()
	var refs []raysys.Ref[[]float64]
	for range 6 {
		refs = append(refs, raysys.Put(ctx, make([]float64, 1<<20))) // 8 MiB each
	}
	for _, r := range refs {
		if err := raysys.View(ctx, r, func(w []float64) error { return nil }); err != nil {
			t.Error(err)
		}
	}
	if s := k.Node().Objects(); s.Spilled == 0 || s.Used > s.Budget {
		t.Errorf("%+v", s)
	}
}
