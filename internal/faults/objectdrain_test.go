package faults_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// album is a grain that keeps a reference in its State, and one beside it.
type album struct {
	page  grains.State[raysys.Handle[[]byte]]
	loose raysys.Ref[[]byte]
}

// Keep writes the State as it is.
func (a *album) Keep(ctx context.Context, _ bool) (bool, error) { return true, a.page.Write(ctx) }

// Tear takes the reference out of the State.
func (a *album) Tear(ctx context.Context, _ bool) (bool, error) {
	a.loose, a.page.Value = a.page.Value.Ref(), raysys.Handle[[]byte]{}
	return true, a.page.Write(ctx)
}

// Home is the node that it lives on.
func (a *album) Home(ctx context.Context, _ bool) (string, error) {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return "", err
	}
	return string(t.Job().Node), nil
}

// Scan gets what was torn out, and drops it.
func (a *album) Scan(ctx context.Context, _ bool) (uint32, error) {
	b, err := a.loose.Get(ctx)
	a.loose = raysys.Ref[[]byte]{}
	return crc32.ChecksumIEEE(b), err
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
	again  = grains.Method(albums, "keep", (*album).Keep)
	tear   = grains.Method(albums, "tear", (*album).Tear)
	scan   = grains.Method(albums, "scan", (*album).Scan)
	house  = grains.Method(albums, "house", (*album).Home)

	// nameBlob puts under a name.
	nameBlob = tasks.Define("faults.nameBlob", func(ctx context.Context, b blob) (bool, error) {
		_, err := raysys.Put(ctx, b.make(), raysys.Named(fmt.Sprint("blob", b.Seed))).Get(ctx)
		return true, err
	})
)

// TestDrainLeavesObjects: what nodes owned that have left in good order is still there, whoever holds it and how.
func TestDrainLeavesObjects(t *testing.T) {
	k := testkit.New(t, testkit.Loose(), testkit.Nodes(4), testkit.CPU(4), labelled(system.ObjectConfig{Memory: 32 << 20}))
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

// memoryOf is what a node holds.
func memoryOf(t testing.TB, n *system.Node) inspect.NodeMemory {
	t.Helper()
	m, err := n.Memory(context.Background(), n.Name(), 100)
	if err != nil {
		t.Fatal(err)
	}
	return m.Nodes[0]
}

// statesHold reports whether a State holds an object of the node's store.
func statesHold(t testing.TB, n *system.Node) bool {
	t.Helper()
	return slices.ContainsFunc(memoryOf(t, n).Objects, func(o inspect.HeldObject) bool { return len(o.Names) > 0 })
}

// albumOn returns an album that lives on a node.
func albumOn(ctx context.Context, t testing.TB, prefix, node string) grains.Grain[album] {
	t.Helper()
	for i := range 100 {
		g := albums.Get(fmt.Sprint(prefix, i))
		home, err := house.Call(ctx, g, true).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if home == node {
			return g
		}
	}
	t.Fatal("no album lives on ", node)
	panic("unreachable")
}

// TestTornFromState: a node that a drained one left an object to keeps it while a reference needs it, although the
// State that it was left for holds it no more: one that came with the State, or one of another node that has fetched
// nothing yet.
func TestTornFromState(t *testing.T) {
	t.Run("here", func(t *testing.T) { tornFromState(t, false) })
	t.Run("elsewhere", func(t *testing.T) { tornFromState(t, true) })
}

func tornFromState(t *testing.T, elsewhere bool) {
	k := testkit.New(t, testkit.Loose(), testkit.Nodes(2), labelled(system.ObjectConfig{}))
	ctx, c := k.Context(), k.Cluster()
	b := blob{1, 300_000}
	held, err := putBlob.With(on("n1")).Go(ctx, b).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	a := albumOn(ctx, t, "a", "n1")
	if _, err := paste.Call(ctx, a, held.Handle()).Get(ctx); err != nil {
		t.Fatal(err)
	}
	var other raysys.Ref[[]byte]
	holders := 0
	if elsewhere {
		other, holders = held, 1
	} else {
		held.Release()
	}
	held = raysys.Ref[[]byte]{}
	polls := 0
	testkit.Eventually(t, 20*time.Second, "n1 knows who holds it", func() bool {
		if polls++; polls%50 == 1 { // more would leave the nodes no time to renew their leases in
			runtime.GC()
		}
		return memoryOf(t, c.Node(1)).Exported == holders
	})
	c.Drain(1)
	if !statesHold(t, c.Node(2)) {
		t.Fatal("the object was not left to the other node: the test shows nothing")
	}
	if _, err := tear.Call(ctx, a, true).Get(ctx); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, "the State holds it no more", func() bool { return !statesHold(t, c.Node(2)) })
	if elsewhere {
		if got, err := other.Get(ctx); err != nil || b.is(got) != nil {
			t.Error(err, b.is(got))
		}
		return // the copy is kept for a while, for others who may have such references
	}
	if sum, err := scan.Call(ctx, a, true).Get(ctx); err != nil || sum != b.sum() {
		t.Errorf("sum %x, %v, not %x", sum, err, b.sum())
	}
	empty(t, c.Node(0), c.Node(2))
}

// TestStateWrittenAfterDrain: a State that holds what a drained node owned can be written again, wherever the copy is.
func TestStateWrittenAfterDrain(t *testing.T) {
	k := testkit.New(t, testkit.Loose(), testkit.Nodes(3), labelled(system.ObjectConfig{}))
	ctx, c := k.Context(), k.Cluster()
	var pages []blob
	var list []grains.Grain[album]
	for i := range 6 { // some live where the copy is then, and some do not
		b := blob{byte(i), 200_000}
		held, err := putBlob.With(on("n1")).Go(ctx, b).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		a := albumOn(ctx, t, fmt.Sprint("page", i, "-"), "n1")
		if _, err := paste.Call(ctx, a, held.Handle()).Get(ctx); err != nil {
			t.Fatal(err)
		}
		held.Release()
		pages, list = append(pages, b), append(list, a)
	}
	c.Drain(1)
	for i, a := range list {
		if _, err := again.Call(ctx, a, true).Get(ctx); err != nil {
			t.Errorf("written again: %v", err)
		}
		page, err := look.Call(ctx, a, true).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if sum, err := sumBlob.Go(ctx, page).Get(ctx); err != nil || sum != pages[i].sum() {
			t.Errorf("sum %x, %v, not %x", sum, err, pages[i].sum())
		}
	}
}
