package faults_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// album is a grain that keeps a reference in its State.
type album struct {
	page grains.State[raysys.Handle[[]byte]]
}

func (a *album) Paste(ctx context.Context, h raysys.Handle[[]byte]) (bool, error) {
	a.page.Value = h
	return true, a.page.Write(ctx)
}

func (a *album) Look(ctx context.Context, _ bool) (raysys.Handle[[]byte], error) {
	return a.page.Value, nil
}

var (
	albums = grains.Define[album]("faults.album")
	paste  = grains.Method(albums, "paste", (*album).Paste)
	look   = grains.Method(albums, "look", (*album).Look)

	// nameBlob puts under a name.
	nameBlob = tasks.Define("faults.nameBlob", func(ctx context.Context, b blob) (bool, error) {
		_, err := raysys.Put(ctx, b.make(), raysys.Named(fmt.Sprint("blob", b.Seed))).Get(ctx)
		return true, err
	})
)

// TestDrainLeavesObjects: what nodes owned that have left in good order is still there, whoever holds it and how.
func TestDrainLeavesObjects(t *testing.T) {
	k := testkit.New(t, testkit.Loose(), testkit.Nodes(4), testkit.CPU(4), labelled(system.Objects{Memory: 32 << 20}))
	ctx, c := k.Context(), k.Cluster()
	result, put, kept, named := blob{1, 3 << 20}, blob{2, 2 << 20}, blob{3, 1 << 20}, blob{4, 300_000}
	made := makeBlob.With(on("n1")).Go(ctx, result) // nobody gets it yet
	if _, _, err := raysys.Wait(ctx, []raysys.Ref[[]byte]{made}, 1); err != nil {
		t.Fatal(err)
	}
	ref, err := putBlob.With(on("n1")).Go(ctx, put).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	held, err := putBlob.With(on("n1")).Go(ctx, kept).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := paste.Call(ctx, albums.Get("a"), held.Handle()).Get(ctx); err != nil {
		t.Fatal(err)
	}
	held.Release() // only the State holds it now
	if _, err := nameBlob.With(on("n1")).Go(ctx, named).Get(ctx); err != nil {
		t.Fatal(err)
	}
	for _, node := range []int{1, 2, 3} {
		c.Drain(node)
		check := func(what string, b blob, r raysys.Ref[[]byte]) {
			// On a node that has not seen it: the last one is where all must be in the end.
			sum, err := sumBlob.With(on("n4")).Go(ctx, r.Handle()).Get(ctx)
			if err != nil || sum != b.sum() {
				t.Errorf("after n%d left, %s: sum %x, %v", node, what, sum, err)
			}
		}
		check("a result", result, made)
		check("what a task had put", put, ref)
		page, err := look.Call(ctx, albums.Get("a"), true).Get(ctx)
		if err != nil {
			t.Fatalf("after n%d left, the State: %v", node, err)
		}
		check("what a State holds", kept, page.Ref())
		check("what has a name", named, raysys.Lookup[[]byte](ctx, "blob4"))
	}
	if got, err := made.Get(ctx); err != nil || result.is(got) != nil {
		t.Errorf("the result, here: %v, %v", err, result.is(got))
	}
	if err := raysys.Forget(ctx, "blob4"); err != nil {
		t.Errorf("forget: %v", err)
	}
}
