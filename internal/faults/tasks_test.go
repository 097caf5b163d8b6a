package faults_test

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/testkit"
)

// TestTasksSurviveKilledWorkers: a random worker is killed again and again while tasks run; each future ends in its value,
// once. The driver is not killed.
func TestTasksSurviveKilledWorkers(t *testing.T) {
	kills, workers, every := long.Form(4, 10), long.Form(3, 5), long.Form(500*time.Millisecond, 2*time.Second)
	p := testkit.Processes(t, workers, testkit.CPU(4), testkit.TTL(10*time.Second), testkit.On(testkit.Consul(t, onDisk()...)))
	ctx := p.Context()
	rng := rand.New(rand.NewPCG(long.Seed(), 0))
	var killed atomic.Int64
	from := time.Now()
	go func() {
		for range kills {
			pause(every)
			p.Proc(rng.IntN(workers) + 1).Restart() // SIGKILL first
			killed.Add(1)
		}
	}()
	tasks, lost, wrong := 0, 0, 0
	var first error
	refs := make([]raysys.Ref[int], long.Form(500, 2500))
	for killed.Load() < int64(kills) || tasks < long.Form(1500, 10_000) {
		for i := range refs {
			refs[i] = square.Go(ctx, job{N: i, Wait: long.Form(20*time.Millisecond, 50*time.Millisecond)})
		}
		for i, r := range refs {
			n, err := r.Get(ctx)
			again, err2 := r.Get(ctx)
			switch {
			case err != nil:
				if lost++; first == nil {
					first = err
				}
			case n != i*i, again != n, err2 != nil:
				wrong++
			}
		}
		if tasks += len(refs); ctx.Err() != nil {
			t.Fatalf("after %d kills: %v", killed.Load(), context.Cause(ctx))
		}
	}
	figure(t, "%d tasks over %d workers, %d kills in %v: %d lost, %d resolved wrongly or twice", tasks, workers, kills, time.Since(from).Round(100*time.Millisecond), lost, wrong)
	if lost > 0 || wrong > 0 {
		t.Errorf("the first that was lost: %v", first)
	}
}
