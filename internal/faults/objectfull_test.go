package faults_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// fillUp puts blobs of 1 MiB until the store takes no more, and returns those it took.
func fillUp(ctx context.Context, t *testing.T, most int) (refs []raysys.Ref[[]byte], why error) {
	t.Helper()
	for i := range most {
		r := raysys.Put(ctx, blob{byte(i), 1 << 20}.make())
		if raysys.PhaseOf(r) != raysys.PhaseReady {
			_, err := r.Get(ctx)
			return refs, err
		}
		refs = append(refs, r)
	}
	return refs, nil
}

// readAll gets and views what fillUp put.
func readAll(ctx context.Context, t *testing.T, refs []raysys.Ref[[]byte]) {
	t.Helper()
	for i, r := range refs {
		want := blob{byte(i), 1 << 20}
		b, err := r.Get(ctx)
		if err == nil {
			err = want.is(b)
		}
		if err != nil {
			t.Errorf("get %d: %v", i, err)
		}
		if err := raysys.View(ctx, r, want.is); err != nil {
			t.Errorf("view %d: %v", i, err)
		}
	}
}

// TestStoreFull: with memory and disk full, what wants more gets ErrStoreFull, everything else goes on, and released
// references make room again.
func TestStoreFull(t *testing.T) {
	k := testkit.New(t, testkit.Loose(), testkit.CPU(4), testkit.Config(system.Config{Objects: system.ObjectConfig{Memory: 4 << 20, Disk: 8 << 20}}))
	ctx := k.Context()
	refs, err := fillUp(ctx, t, 64)
	if !errors.Is(err, raysys.ErrStoreFull) || len(refs) < 9 || len(refs) > 12 {
		t.Fatalf("%d MiB fit in 12: %v", len(refs), err)
	}
	t.Log(err)
	readAll(ctx, t, refs)
	if _, err := makeBlob.Go(ctx, blob{1, 1 << 20}).Get(ctx); !errors.Is(err, raysys.ErrStoreFull) {
		t.Errorf("a result that there is no room for: %v", err)
	}
	if n, err := square.Go(ctx, job{N: 3}).Get(ctx); n != 9 || err != nil {
		t.Errorf("a task beside it: %d, %v", n, err)
	}
	if n, err := raysys.Put(ctx, 7).Get(ctx); n != 7 || err != nil {
		t.Errorf("a small object: %d, %v", n, err)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range long.Form(10, 200) {
				b := blob{byte(g*16 + i), 300 << 10}
				r := raysys.Put(ctx, b.make())
				got, err := r.Get(ctx)
				if err == nil {
					err = b.is(got)
				}
				if err != nil && !errors.Is(err, raysys.ErrStoreFull) {
					t.Error(err)
				}
				r.Release()
			}
		})
	}
	wg.Wait()
	readAll(ctx, t, refs)
	for _, r := range refs[:6] {
		r.Release()
	}
	again, err := fillUp(ctx, t, 3)
	if err != nil {
		t.Errorf("with room again: %v", err)
	}
	readAll(ctx, t, again)
	for _, r := range append(refs, again...) {
		r.Release()
	}
	empty(t, k.Node())
}

// TestReceiverFull: a node without room for an argument fails what needs it with ErrStoreFull; its neighbours do not
// notice.
func TestReceiverFull(t *testing.T) {
	k := testkit.New(t, testkit.Loose(), testkit.Nodes(2), labelled(system.ObjectConfig{NoSharing: true}, func(i int, cfg *system.Config) {
		if i == 2 {
			cfg.Objects.Memory, cfg.Objects.Disk = 3<<20, 3<<20
		}
	}))
	ctx := k.Context()
	full, roomy := on("n2"), on("n1")
	var held []raysys.Ref[raysys.Ref[[]byte]]
	for i := 0; ; i++ {
		r := putBlob.With(full).Go(ctx, blob{byte(i), 1 << 20})
		inner, err := r.Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := viewBlob.With(full, raysys.Retries(0)).Go(ctx, inner.Handle()).Get(ctx); errors.Is(err, raysys.ErrStoreFull) {
			break
		} else if err != nil || i > 8 {
			t.Fatalf("put %d: %v", i, err)
		}
		held = append(held, r)
	}
	want := blob{99, 1 << 20}
	there, err := putBlob.With(roomy).Go(ctx, want).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, task := range map[string]raysys.Ref[uint32]{
		"get": sumBlob.With(full).Go(ctx, there.Handle()), "view": viewBlob.With(full).Go(ctx, there.Handle()),
	} {
		if sum, err := task.Get(ctx); !errors.Is(err, raysys.ErrStoreFull) && (err != nil || sum != want.sum()) {
			t.Errorf("%s on the full node: %x, %v", name, sum, err)
		} else {
			t.Log(name, err)
		}
	}
	for name, task := range map[string]raysys.Ref[uint32]{
		"get": sumBlob.With(roomy).Go(ctx, there.Handle()), "view": viewBlob.With(roomy).Go(ctx, there.Handle()),
	} {
		if sum, err := task.Get(ctx); err != nil || sum != want.sum() {
			t.Errorf("%s on the other: %x, %v", name, sum, err)
		}
	}
	for i, r := range held { // from the full node, spilled or not
		inner, err := r.Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if sum, err := sumBlob.With(roomy).Go(ctx, inner.Handle()).Get(ctx); err != nil || sum != (blob{byte(i), 1 << 20}).sum() {
			t.Errorf("object %d of the full node: %x, %v", i, sum, err)
		}
		inner.Release()
		r.Release()
	}
	held = nil
	// Nothing but the full store asks for a collection: a large heap may wait minutes for one.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	testkit.Eventually(t, patience, "the full node has room", func() bool {
		sum, err := viewBlob.With(full).Go(ctx, there.Handle()).Get(ctx)
		return err == nil && sum == want.sum()
	})
	there.Release()
	empty(t, k.Node(), k.Cluster().Node(1), k.Cluster().Node(2))
}

// TestSpillDirectoryUnwritable: the store holds what fits in memory, and spills when it can.
func TestSpillDirectoryUnwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "in the way")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	k := testkit.New(t, testkit.Loose(), testkit.CPU(2), testkit.Config(system.Config{Objects: system.ObjectConfig{Memory: 4 << 20, Spill: filepath.Join(file, "spill")}}))
	ctx := k.Context()
	refs, err := fillUp(ctx, t, 64)
	if !errors.Is(err, raysys.ErrStoreFull) || len(refs) < 3 || len(refs) > 4 {
		t.Fatalf("%d MiB fit in 4: %v", len(refs), err)
	}
	t.Log(err)
	readAll(ctx, t, refs)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	more, err := fillUp(ctx, t, 16)
	if err != nil || len(more) != 16 {
		t.Errorf("with a directory that can be made, %d MiB fit: %v", len(more), err)
	}
	readAll(ctx, t, refs)
	readAll(ctx, t, more)
}

// TestSpillDirectoryGone: files that are deleted, cut or changed under way are lost objects, never wrong bytes, and the
// store goes on.
func TestSpillDirectoryGone(t *testing.T) {
	for what, harm := range map[string]func(name string) error{
		"deleted": os.Remove,
		"cut":     func(name string) error { return os.Truncate(name, 500_000) },
		"changed": func(name string) error {
			f, err := os.OpenFile(name, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte("nonsense"), 700_000)
			return errors.Join(err, f.Close())
		},
		"gone": func(name string) error { return os.RemoveAll(filepath.Dir(filepath.Dir(name))) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			k := testkit.New(t, testkit.Loose(), testkit.CPU(2), testkit.Config(system.Config{Objects: system.ObjectConfig{Memory: 4 << 20, Spill: dir}}))
			ctx := k.Context()
			refs, err := fillUp(ctx, t, 16)
			if err != nil {
				t.Fatal(err)
			}
			harmed := 0
			err = filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
				if err != nil || info.IsDir() || info.Size() < 1<<20 {
					return nil // gone with the others
				}
				harmed++
				return harm(name)
			})
			if err != nil || harmed == 0 {
				t.Fatalf("%d files harmed: %v", harmed, err)
			}
			lost := 0
			for i, r := range refs {
				want := blob{byte(i), 1 << 20}
				b, err := r.Get(ctx)
				switch {
				case errors.Is(err, raysys.ErrObjectLost):
					if lost++; lost == 1 {
						t.Log(err)
					}
					if _, err := sumBlob.Go(ctx, r.Handle()).Get(ctx); !errors.Is(err, raysys.ErrObjectLost) {
						t.Errorf("a task that needs it: %v", err)
					}
					if err := raysys.View(ctx, r, func([]byte) error { return nil }); !errors.Is(err, raysys.ErrObjectLost) {
						t.Errorf("view: %v", err)
					}
					if s := raysys.PhaseOf(r); s != raysys.PhaseLost {
						t.Errorf("its state is %v", s)
					}
				case err != nil:
					t.Errorf("get %d: %v", i, err)
				default:
					if err := want.is(b); err != nil {
						t.Error(err)
					}
				}
			}
			if lost < 8 {
				t.Errorf("%d of %d objects were lost", lost, len(refs))
			}
			for _, r := range refs {
				r.Release()
			}
			again, err := fillUp(ctx, t, 16)
			if err != nil {
				t.Fatalf("afterwards: %v", err)
			}
			readAll(ctx, t, again)
			for _, r := range again {
				r.Release()
			}
			empty(t, k.Node())
		})
	}
}
