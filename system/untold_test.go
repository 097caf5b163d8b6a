package system_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/system"
)

// TestCopyWhileSuspended: a node whose lease is out fetches an object. Once the lease is back the cluster learns of the copy,
// which serves when the owner dies.
func TestCopyWhileSuspended(t *testing.T) {
	f := newFleet(t)
	f.join("w", system.Worker)
	owner, octx := f.join("o", system.Driver)
	unheard := flaky.Wrap(f.kv)
	b, bctx := f.join("b", system.Driver, func(c *system.Config) { c.Cluster.Store, c.Cluster.TTL = unheard, 2*time.Second })
	_, cctx := f.join("c", system.Driver)
	data := fill(1<<20, 5)
	if _, err := raysys.Put(octx, data, raysys.Named("x")).Get(octx); err != nil {
		t.Fatal(err)
	}
	here, there := raysys.Lookup[[]byte](bctx, "x"), raysys.Lookup[[]byte](cctx, "x")
	if _, rest, err := raysys.Wait(bctx, []raysys.Ref[[]byte]{here}, 1); len(rest) > 0 {
		t.Fatal(err)
	}
	if _, rest, err := raysys.Wait(cctx, []raysys.Ref[[]byte]{there}, 1); len(rest) > 0 {
		t.Fatal(err)
	}
	// The store hears it, so that its session lives.
	unheard.Hook(func(c flaky.Call) flaky.Fault {
		if c.Verb == "Renew" {
			return flaky.LoseAnswer
		}
		return flaky.None
	})
	eventually(t, "b is suspended", func() bool { return errors.Is(system.Lease(b), raysys.ErrSuspended) })
	if got, err := here.Get(bctx); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if !errors.Is(system.Lease(b), raysys.ErrSuspended) {
		t.Fatal("b is not suspended any more: the test shows nothing")
	}
	unheard.Hook(nil)
	eventually(t, "b has said it", func() bool { return system.Lease(b) == nil && system.Unheard(b) == 0 })
	if err := owner.Kill(context.Background(), errors.New("test")); err != nil {
		t.Fatal(err)
	}
	if got, err := there.Get(cctx); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	here.Release()
}
