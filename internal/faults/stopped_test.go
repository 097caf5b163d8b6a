package faults_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/testkit"
)

// TestCountersInStoppedProcesses: real processes that SIGSTOP freezes for longer than their lease, and that go on believing
// what they believed; sessions that end in a real Consul, and kills. Tasks on the workers read the counters beside them.
func TestCountersInStoppedProcesses(t *testing.T) {
	long.Only(t)
	ttl := 2 * time.Second
	keys, rounds := 200, 40
	p := testkit.Processes(t, 3, testkit.CPU(2), testkit.TTL(ttl), testkit.On(testkit.Consul(t, onDisk(testkit.MinTTL(time.Second))...)))
	ctx := p.Context()
	g := &counting{h: testkit.NewHistory(), stop: make(chan struct{}), open: map[string]int{}}
	rng := rand.New(rand.NewPCG(long.Seed(), 0))
	for c := range 8 {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
		limit := raysys.Deadline(2 * time.Second)
		add, read, beside := add.With(limit), read.With(limit), readBeside.With(limit)
		g.wg.Go(func() {
			for {
				select {
				case <-g.stop:
					return
				case <-time.After(time.Duration(rng.Int64N(int64(20 * time.Millisecond)))):
				}
				key := fmt.Sprint("stopped", rng.IntN(keys))
				switch rng.IntN(4) {
				case 0:
					g.ask(c, key, testkit.Read{}, func() (int, error) { return read.Call(ctx, counters.Get(key)).Get(ctx) })
				case 1:
					g.ask(c, key, testkit.Read{}, func() (int, error) { return beside.Go(ctx, key).Get(ctx) })
				default:
					g.ask(c, key, testkit.Add(1), func() (int, error) { return add.Call(ctx, counters.Get(key), 1).Get(ctx) })
				}
			}
		})
	}
	stops, expiries, kills := 0, 0, 0
	for i := range rounds {
		g.wait(ctx, t, keys) // between any two faults, however slow the machine is
		pause(time.Duration(rng.Int64N(int64(ttl / 2))))
		n := rng.IntN(p.Size()) + 1
		proc := p.Proc(n)
		switch i % 3 {
		case 0:
			proc.Pause()
			pause(ttl + time.Duration(rng.Int64N(int64(2*ttl))))
			proc.Resume()
			stops++
		case 1:
			p.ExpireSession(n)
			expiries++
		case 2:
			proc.Restart()
			kills++
		}
		p.Ready()
	}
	g.wait(ctx, t, keys)
	g.end()
	for i := range keys {
		key := fmt.Sprint("stopped", i)
		op := g.h.Begin(1<<20, key, testkit.Read{})
		n, err := read.Call(ctx, counters.Get(key)).Get(ctx)
		if op.End(n, err); err != nil {
			t.Errorf("%s cannot be read in the end: %v", key, err)
		}
	}
	lives := p.Activations("counters")
	testkit.SingleActivation(t, lives)
	testkit.Linearizable(t, g.h, testkit.Register())
	answered, refused, open := g.h.Counts()
	n, commits := lives.Count()
	figure(t, "%d counters in real processes, %d times stopped beyond the lease, %d sessions ended, %d kills: %d calls answered, %d refused, %d open, %d activations, %d commits, 0 overlapping, linearizable",
		keys, stops, expiries, kills, answered, refused, open, n, commits)
}
