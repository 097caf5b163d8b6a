package faults_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/testkit"
)

// TestTasksSurviveKilledWorkers: a random worker is killed again and again while tasks run; each future ends in its value,
// once. The driver is not killed.
func TestTasksSurviveKilledWorkers(t *testing.T) {
	tasks, workers, every := long.Form(1500, 10_000), long.Form(3, 5), long.Form(500*time.Millisecond, 2*time.Second)
	p := testkit.Processes(t, workers, testkit.CPU(4), testkit.TTL(10*time.Second), testkit.On(testkit.Consul(t, onDisk()...)))
	ctx := p.Context()
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	stop, stopped := make(chan struct{}), make(chan int)
	go func() {
		kills := 0
		defer func() { stopped <- kills }()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				victim := p.Proc(rng.IntN(workers) + 1)
				victim.Restart() // SIGKILL first
				kills++
			case <-stop:
				return
			}
		}
	}()
	from := time.Now()
	refs := make([]raysys.Ref[int], tasks)
	for i := range refs {
		// Together they take form's time on all CPUs: ten kills and more.
		refs[i] = square.Go(ctx, job{N: i, Wait: long.Form(20*time.Millisecond, 50*time.Millisecond)})
	}
	lost, wrong := 0, 0
	var first error
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
	took := time.Since(from)
	close(stop)
	kills := <-stopped
	figure(t, "%d tasks over %d workers, %d kills in %v: %d lost, %d resolved wrongly or twice", tasks, workers, kills, took.Round(100*time.Millisecond), lost, wrong)
	if lost > 0 || wrong > 0 {
		t.Errorf("the first that was lost: %v", first)
	}
	if kills < 2 {
		t.Errorf("%d kills: the tasks were over too soon to show anything", kills)
	}
}
