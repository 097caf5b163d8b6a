package faults_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/testkit"
)

// procOf is the process that a grain lives in.
func procOf(t *testing.T, p *testkit.Procs, key string) *testkit.Proc {
	t.Helper()
	h, err := counterHost.Call(p.Context(), counters.Get(key)).Get(p.Context())
	if err != nil {
		t.Fatal(err)
	}
	return procWith(t, p, h.PID)
}

// firstGood calls a counter until it answers, each try for at most limit, and returns how long that took.
func firstGood(ctx context.Context, t *testing.T, key string, limit time.Duration, want int) time.Duration {
	t.Helper()
	from := time.Now()
	try := read.With(raysys.Deadline(limit))
	for {
		n, err := try.Call(ctx, counters.Get(key)).Get(ctx)
		took := time.Since(from)
		switch {
		case err == nil && n != want:
			t.Fatalf("the counter says %d, want %d: something acknowledged was lost, or something was done twice", n, want)
		case err == nil:
			return took
		case took > time.Minute:
			t.Fatalf("no answer within %v: %v", took, err)
		}
	}
}

// TestFailoverAfterSIGKILL: a process death is proven by a reset and a refused redial (rule C17), so that its grains are
// back well within a second.
func TestFailoverAfterSIGKILL(t *testing.T) {
	for _, n := range long.Form([]int{3}, []int{2, 3, 5}) {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			const ttl = 10 * time.Second
			p := testkit.Processes(t, n, testkit.CPU(1), testkit.TTL(ttl), testkit.On(testkit.Consul(t, onDisk()...)))
			ctx := p.Context()
			var all spread
			for i := range times(4, 30) {
				key := fmt.Sprint(i)
				if v, err := add.Call(ctx, counters.Get(key), 7).Get(ctx); v != 7 || err != nil {
					t.Fatal(v, err)
				}
				victim := procOf(t, p, key)
				victim.Kill()
				all = append(all, firstGood(ctx, t, key, 250*time.Millisecond, 7))
				victim.Restart()
				p.Ready()
			}
			figure(t, "first good call to a State grain after SIGKILL of its host, %d nodes: %v (promised: 1 s)", n, all)
			// Without a proof of death the host is evicted after a lease at the earliest.
			if limit := long.Form(ttl, time.Second); all.worst() > limit {
				t.Errorf("failover took %v, want %v", all.worst(), limit)
			}
		})
	}
}
