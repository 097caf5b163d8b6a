package faults_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// weigh reads a large value that another node has.
var weigh = tasks.Define("faults.weigh", func(ctx context.Context, h raysys.Handle[[]byte]) (int, error) {
	b, err := h.Ref().Get(ctx)
	return len(b), err
})

// bulky makes one.
var bulky = tasks.Define("faults.bulky", func(ctx context.Context, n int) ([]byte, error) { return make([]byte, n), nil })

// TestLostFrames: every request between nodes has an end, though frames are lost. Grains with State and without, tasks and
// objects are used from all nodes while two frames of a hundred are lost. After Heal every caller has its answer, every
// grain works, no write that was acknowledged is gone or was made twice, and all nodes close.
func TestLostFrames(t *testing.T) {
	for seed := range uint64(long.Form(2, 40)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			testkit.Virtual(t, func(k *testkit.Kit) { loseFrames(k.T(), k) }, testkit.Nodes(3), testkit.CPU(2), testkit.Loose(), testkit.Seed(seed+1))
		})
	}
}

func loseFrames(t testing.TB, k *testkit.Kit) {
	const grains = 20
	c, prefix := k.Cluster(), fmt.Sprintf("lost%d-", runs.Add(1))
	key := func(n int) string { return fmt.Sprint(prefix, n%grains) }
	var stop atomic.Bool
	var wg sync.WaitGroup
	var sure, open [grains]atomic.Int64 // writes that were acknowledged, and of which nothing is known
	var answers, errs atomic.Int64
	client := func(f func(ctx context.Context, n int) error) {
		for i := range c.Size() + 1 {
			ctx := c.Node(i).Context(context.Background())
			wg.Go(func() {
				for n := i; !stop.Load(); n++ {
					if err := f(ctx, n); err == nil {
						answers.Add(1)
					} else {
						errs.Add(1)
					}
					pause(100 * time.Millisecond)
				}
			})
		}
	}
	client(func(ctx context.Context, n int) error {
		_, err := add.Call(ctx, counters.Get(key(n)), 1).Get(ctx)
		switch {
		case err == nil:
			sure[n%grains].Add(1)
		case !errors.Is(err, raysys.ErrNotDelivered):
			open[n%grains].Add(1)
		}
		return err
	})
	client(func(ctx context.Context, n int) error {
		_, err := plainAdd.Call(ctx, plains.Get(key(n)), 1).Get(ctx)
		return err
	})
	client(func(ctx context.Context, n int) error {
		v, err := square.Go(ctx, job{n, time.Duration(n%3) * 50 * time.Millisecond}).Get(ctx)
		if err == nil && v != n*n {
			t.Errorf("%d squared is %d", n, v)
		}
		return err
	})
	client(func(ctx context.Context, n int) error {
		r := bulky.Go(ctx, 100_000+n)
		defer r.Release()
		v, err := weigh.Go(ctx, r.Handle()).Get(ctx)
		if err == nil && v != 100_000+n {
			t.Errorf("%d bytes came as %d", 100_000+n, v)
		}
		return err
	})
	c.Drop(0.02, nil)
	k.Advance(long.Form(time.Minute, 10*time.Minute))
	c.Heal()
	stop.Store(true)
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(2 * time.Minute):
		t.Fatal("two minutes after the last frame was lost, requests wait for an answer: a request between nodes has no end")
	}
	k.Advance(10 * time.Second) // connections that lost frames are made anew
	for n := range grains {
		ctx, cancel := context.WithTimeout(k.Context(), time.Minute)
		v, err := add.Call(ctx, counters.Get(key(n)), 0).Get(ctx)
		if least, most := sure[n].Load(), sure[n].Load()+open[n].Load(); err != nil || int64(v) < least || int64(v) > most {
			t.Errorf("counter %d answers %d, %v: %d writes were acknowledged, and at most %d made", n, v, err, least, most)
		}
		if _, err := plainAdd.Call(ctx, plains.Get(key(n)), 1).Get(ctx); err != nil {
			t.Errorf("plain grain %d does not answer: %v", n, err)
		}
		if _, err := square.Go(ctx, job{N: n}).Get(ctx); err != nil {
			t.Errorf("task %d does not run: %v", n, err)
		}
		cancel()
	}
	testkit.NoOrphans(k)
	if t.Failed() {
		return
	}
	t.Logf("%d answers, %d errors while frames were lost", answers.Load(), errs.Load())
}
