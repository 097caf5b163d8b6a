package faults_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// TestReplicaAbandoned: a Put that waits no longer for its replica leaves none behind, wherever it was when it gave up.
func TestReplicaAbandoned(t *testing.T) {
	k := testkit.New(t, testkit.Loose(), testkit.Nodes(1), labelled(system.ObjectConfig{}))
	ctx, c := k.Context(), k.Cluster()
	// It goes well once, so that the nodes are connected.
	raysys.Put(ctx, blob{1, 200_000}.make(), raysys.Replicas(2)).Release()
	c.Delay(0, 1, 20*time.Millisecond, 0)
	given := 0
	for wait := 5 * time.Millisecond; wait < 250*time.Millisecond; wait += 13 * time.Millisecond {
		brief, cancel := context.WithTimeout(ctx, wait)
		r := raysys.Put(brief, blob{byte(wait), 200_000}.make(), raysys.Replicas(2))
		cancel()
		if _, err := r.Get(ctx); err != nil {
			given++
		}
		r.Release()
		brief, cancel = context.WithTimeout(ctx, wait)
		raysys.Put(brief, blob{byte(wait), 200_000}.make(), raysys.Replicas(2), raysys.Named("w"))
		cancel()
	}
	c.Heal()
	if given == 0 {
		t.Error("every Put had its replica in time: the test shows nothing")
	}
	if err := raysys.Forget(ctx, "w"); err != nil && !errors.Is(err, raysys.ErrNotFound) {
		t.Fatal(err)
	}
	empty(t, c.Node(0), c.Node(1))
}

// TestLookupAbandoned: a Lookup that nobody waits for any more leaves no reference behind.
func TestLookupAbandoned(t *testing.T) {
	k := testkit.New(t, testkit.Loose(), testkit.Nodes(1), labelled(system.ObjectConfig{}))
	ctx, c := k.Context(), k.Cluster()
	if _, err := nameBlob.Go(ctx, blob{1, 200_000}).Get(ctx); err != nil {
		t.Fatal(err)
	}
	c.Delay(0, 1, 20*time.Millisecond, 0)
	given := 0
	for wait := 5 * time.Millisecond; wait < 120*time.Millisecond; wait += 7 * time.Millisecond {
		brief, cancel := context.WithTimeout(ctx, wait)
		r := raysys.Lookup[[]byte](brief, "blob1")
		cancel()
		if raysys.PhaseOf(r) == raysys.PhaseFailed || raysys.PhaseOf(r) == raysys.PhaseCancelled {
			given++
		}
	}
	c.Heal()
	if given == 0 {
		t.Error("every Lookup was answered in time: the test shows nothing")
	}
	if err := raysys.Forget(ctx, "blob1"); err != nil {
		t.Fatal(err)
	}
	empty(t, c.Node(0), c.Node(1))
}

// TestNameAbandoned: a name is of an object that is there, also when the Put that entered it gave up before it knew.
func TestNameAbandoned(t *testing.T) {
	k := testkit.New(t, testkit.Loose(), testkit.Nodes(1), labelled(system.ObjectConfig{}))
	ctx, c := k.Context(), k.Cluster()
	b := blob{1, 200_000}
	if _, err := raysys.Put(ctx, b.make(), raysys.Named("w")).Get(ctx); err != nil {
		t.Fatal(err)
	}
	c.Delay(0, 1, 20*time.Millisecond, 0)
	given := 0
	for wait := 5 * time.Millisecond; wait < 150*time.Millisecond; wait += 7 * time.Millisecond {
		brief, cancel := context.WithTimeout(ctx, wait)
		r := raysys.Put(brief, b.make(), raysys.Named("w"))
		cancel()
		if _, err := r.Get(ctx); err != nil {
			given++
		}
		runtime.GC()
		if got, err := raysys.Lookup[[]byte](ctx, "w").Get(ctx); err != nil || b.is(got) != nil {
			t.Errorf("after %v: %v, %v", wait, err, b.is(got))
		}
	}
	c.Heal()
	if given == 0 {
		t.Error("every Put was answered in time: the test shows nothing")
	}
	if err := raysys.Forget(ctx, "w"); err != nil {
		t.Fatal(err)
	}
	empty(t, c.Node(0), c.Node(1))
}
