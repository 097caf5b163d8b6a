package faults_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// pasteBlob puts an object, and has the State of an album refer to it.
var pasteBlob = tasks.Define("faults.pasteBlob", func(ctx context.Context, b blob) (bool, error) {
	return paste.With(raysys.Deadline(time.Hour)).Call(ctx, albums.Get("outage"), raysys.Put(ctx, b.make()).Handle()).Get(ctx)
})

// TestRetainedOverOutage: an object that a State refers to is retained for as long as the commit of the State waits for the
// store, however long that is.
func TestRetainedOverOutage(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, c, ctx := k.T(), k.Cluster(), k.Context()
		b, g := blob{1, 1 << 20}, albums.Get("outage")
		if _, err := house.With(on("n2")).Call(ctx, g, true).Get(ctx); err != nil {
			t.Fatal(err)
		}
		all := []int{0, 1, 2}
		c.StoreDown(all...)
		pasted := pasteBlob.With(on("n1")).Go(ctx, b)
		k.Advance(10 * time.Minute)
		if raysys.PhaseOf(pasted) == raysys.PhaseReady {
			t.Error("a State was written while the store was away")
		}
		c.StoreUp(all...)
		_, err := pasted.Get(ctx)
		if errors.Is(err, raysys.ErrUnreachable) { // by chance the leader of its shard left in the outage, and the shard refused the call after a minute
			k.Advance(2 * time.Hour) // longer than that leader's session
			_, err = pasteBlob.With(on("n1")).Go(ctx, b).Get(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		c.Kill(2) // where the grain holds the reference beside its State
		for range 5 {
			k.Advance(time.Hour) // for which the session of what was killed lives
			runtime.GC()
		}
		page, err := look.Call(ctx, g, true).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if sum, err := sumBlob.With(on("n1")).Go(ctx, page).Get(ctx); err != nil || sum != b.sum() {
			t.Errorf("the object of a State whose commit waited for 10 minutes: %v", err)
		}
	}, testkit.Nodes(2), testkit.TTL(time.Hour), labelled(system.ObjectConfig{Memory: 32 << 20}))
}
