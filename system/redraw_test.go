package system_test

import (
	"context"
	"maps"
	"sync"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var (
	drawnOf   = map[int][]int{} // what each task has drawn, in all its attempts
	drawnOfMu sync.Mutex        // guards drawnOf
	// lucky returns an object once it has drawn a half or more, which takes some attempts.
	lucky = tasks.DefineIn(table, "lucky", func(ctx context.Context, i int) (parcel, error) {
		x := raysys.Rand(ctx).Float64()
		drawnOfMu.Lock()
		drawnOf[i] = append(drawnOf[i], int(x*1e9))
		drawnOfMu.Unlock()
		if x < 0.5 {
			return parcel{}, errTorn
		}
		return newParcel(raysys.Attempt(ctx), large), nil
	}).With(raysys.Retries(30), raysys.Backoff(0, 0), raysys.RetryIf(func(error) bool { return true }))
)

// TestRebuildDrawsTheSame: a lost value whose task succeeded in a later attempt is made again from what that attempt drew.
func TestRebuildDrawsTheSame(t *testing.T) {
	f := newFleet(t)
	f.place("w1", system.Worker)
	f.place("w2", system.Worker)
	_, ctx := f.place("d", system.Driver)
	drawnOfMu.Lock()
	clear(drawnOf)
	drawnOfMu.Unlock()
	const n = 12
	var refs []raysys.Ref[parcel]
	for i := range n {
		refs = append(refs, lucky.With(raysys.Label("node", "w1")).Go(ctx, i))
	}
	if _, _, err := raysys.Wait(ctx, refs, n); err != nil {
		t.Fatal(err)
	}
	drawnOfMu.Lock()
	before := maps.Clone(drawnOf)
	drawnOfMu.Unlock()
	f.join("spare", system.Worker, func(c *system.Config) { c.Cluster.Labels = map[string]string{"node": "w1"} })
	f.kill("w1")
	later := 0
	for i, r := range refs {
		p, err := r.Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		drawnOfMu.Lock()
		if d, n := drawnOf[i], len(before[i]); len(d) != n+1 || d[n] != d[n-1] {
			t.Errorf("task %d drew %v and then %v", i, d[:n], d[n:])
		}
		drawnOfMu.Unlock()
		if a, err := p.seed(); err != nil || a > 2 { // the rebuild is one attempt more
			later++
		}
	}
	if later == 0 {
		t.Error("no task took several attempts")
	}
}
