package faults_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// TestHugeObject: an object of five times every node's budget is put, viewed and gotten, on its node and on another.
func TestHugeObject(t *testing.T) {
	memory := long.Form(10<<20, 1<<30)
	want := blob{3, 5 * memory}
	k := testkit.New(t, testkit.Loose(), testkit.Nodes(2), testkit.CPU(1), labelled(system.ObjectConfig{Memory: int64(memory), NoSharing: true}))
	ctx := k.Context()
	r, err := putBlob.With(on("n1")).Go(ctx, want).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	sum := want.sum()
	for _, node := range []string{"n1", "n2"} {
		if got, err := viewBlob.With(on(node)).Go(ctx, r.Handle()).Get(ctx); err != nil || got != sum {
			t.Errorf("view on %s: %x, %v", node, got, err)
		}
		if got, err := sumBlob.With(on(node)).Go(ctx, r.Handle()).Get(ctx); err != nil || got != sum {
			t.Errorf("get on %s: %x, %v", node, got, err)
		}
		// What was gotten is in memory until somebody else needs it.
		other, err := putBlob.With(on(node)).Go(ctx, blob{4, 1 << 20}).Get(ctx)
		if err != nil {
			t.Errorf("another object on %s: %v", node, err)
		}
		if used := k.Cluster().Node(int(node[1] - '0')).Objects().Used; used > int64(memory) {
			t.Errorf("%s holds %d bytes in memory, and may %d", node, used, memory)
		}
		other.Release()
	}
	r.Release()
	empty(t, k.Node(), k.Cluster().Node(1), k.Cluster().Node(2))
	figure(t, "an object of %d MiB on nodes with %d MiB for objects: put, viewed and gotten on two nodes, right", want.Size>>20, memory>>20)
}

// TestNoBytes: values without bytes are values like others.
func TestNoBytes(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2), labelled(system.ObjectConfig{}))
	ctx := k.Context()
	for _, b := range [][]byte{nil, {}} {
		r := raysys.Put(ctx, b, raysys.Named("nothing"), raysys.Replicas(2))
		got, err := r.Get(ctx)
		if err != nil || len(got) != 0 || (got == nil) != (b == nil) {
			t.Errorf("%#v came back as %#v, %v", b, got, err)
		}
		if sum, err := viewBlob.With(on("n2")).Go(ctx, r.Handle()).Get(ctx); err != nil || sum != 0 {
			t.Errorf("elsewhere: %x, %v", sum, err)
		}
		if got, err := raysys.Lookup[[]byte](ctx, "nothing").Get(ctx); err != nil || len(got) != 0 {
			t.Errorf("by name: %#v, %v", got, err)
		}
	}
	if err := raysys.Forget(ctx, "nothing"); err != nil {
		t.Error(err)
	}
}

// TestTinyObjects: a million of them leave nothing.
func TestTinyObjects(t *testing.T) {
	k := testkit.New(t, testkit.Loose(), testkit.CPU(2))
	ctx := k.Context()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	count := long.Form(200_000, 1_000_000)
	refs := make([]raysys.Ref[[]byte], count)
	for i := range refs {
		refs[i] = raysys.Put(ctx, []byte{byte(i), byte(i >> 8), byte(i >> 16)})
	}
	during := heap()
	for i, r := range refs {
		if b, err := r.Get(ctx); err != nil || len(b) != 3 || b[0] != byte(i) || b[1] != byte(i>>8) || b[2] != byte(i>>16) {
			t.Fatalf("object %d is %v, %v", i, b, err)
		}
		if i%2 == 0 {
			r.Release() // the collector has the others
		}
	}
	clear(refs)
	after := heap()
	if after > before+4<<20 {
		t.Errorf("the heap had %d bytes before, %d with them and %d after", before, during, after)
	}
	if s := k.Node().Objects(); s.Objects != 0 || s.Used != 0 {
		t.Errorf("%+v", s)
	}
	figure(t, "%d objects of 3 bytes: the heap is %+.1f MiB with them, %+.1f MiB afterwards", count, (float64(during)-float64(before))/(1<<20), (float64(after)-float64(before))/(1<<20))
}

// TestReferenceOfAnotherCluster: it ends in its value or a typed error.
func TestReferenceOfAnotherCluster(t *testing.T) {
	opts := []testkit.Option{testkit.Loose(), testkit.Nodes(1), labelled(system.ObjectConfig{Memory: 2 << 20, NoSharing: true})}
	here, there := testkit.New(t, opts...), testkit.New(t, opts...)
	want := blob{1, 1 << 20}
	far, err := putBlob.Go(there.Context(), want).Get(there.Context())
	if err != nil {
		t.Fatal(err)
	}
	spilled := raysys.Put(there.Context(), blob{2, 3 << 20}.make())
	for what, r := range map[string]raysys.Ref[[]byte]{
		"value": raysys.Put(there.Context(), want.make()), "of a worker there": far, "on disk there": spilled,
	} {
		b := want
		if what == "on disk there" {
			b = blob{2, 3 << 20}
		}
		sum, err := sumBlob.With(raysys.Deadline(patience)).Go(here.Context(), r.Handle()).Get(here.Context())
		t.Logf("%s: %x, %v", what, sum, err)
		if errors.Is(err, raysys.ErrDeadline) || err != nil && !typed(err) || err == nil && sum != b.sum() {
			t.Errorf("%s: %x, %v", what, sum, err)
		}
	}
}
