package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/testkit"
)

// TestFenced: in mid-run processes are stopped past their lease, lose their session in the store and are killed, that of the learner among them. What they
// had comes again elsewhere.
func TestFenced(t *testing.T) {
	steps := long.Form(30_000, 40_000) // more than a busy machine makes before all three faults
	for seed := range long.Form[uint64](1, 20) {
		dir := t.TempDir() // a checkpoint of this net is too large for the store: the nodes keep it in their directories
		p := testkit.Processes(t, 3, testkit.EnvOf(func(i int) []string { return []string{fmt.Sprintf("RAYSYS_SPILL=%s/%d", dir, i)} }))
		points := make(signal, 1)
		var run *rl.Run
		var err error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			run, err = agent.Train(p.Context(), rl.Plan{Steps: steps, Actors: 4, Seed: seed + 1, Every: 2000, Progress: points})
		}()
		r := rand.New(rand.NewPCG(seed, 0))
		first, played := r.Perm(3), map[string]int{}
		for n := 0; points.another(2, ended); n++ {
			fault, node := faults[r.IntN(3)], r.IntN(3)
			if n < 3 {
				fault, node = faults[n], first[n]
			}
			played[fault]++
			play(p, r, fault, node+1)
		}
		if err != nil || run.Steps != steps || len(played) < 3 || run.MeanReturn < 0.95 {
			t.Fatalf("plan %d, faults %v: %v %v", seed, played, run, err)
		}
		for i, point := range run.Points[1:] {
			if before := run.Points[i]; point.Steps < before.Steps || point.LearnerSteps < before.LearnerSteps || point.Episodes < before.Episodes {
				t.Errorf("plan %d: a counter went back: %+v, then %+v", seed, before, point)
			}
		}
		t.Logf("plan %d, faults %v: %v", seed, played, run)
	}
}

var faults = []string{"expire", "pause", "kill"}

const lease = 3 * time.Second // of testkit.Processes

// signal tells that a line of progress was written.
type signal chan struct{}

func (s signal) Write(b []byte) (int, error) {
	select {
	case s <- struct{}{}:
	default:
	}
	return len(b), nil
}

// another reports whether n more lines come before the run ends.
func (s signal) another(n int, ended <-chan struct{}) bool {
	select {
	case <-s: // of before
	default:
	}
	for range n {
		select {
		case <-s:
		case <-ended:
			return false
		}
	}
	return true
}

// play has a fault happen to a process, and waits until its node is there again.
func play(p *testkit.Procs, r *rand.Rand, fault string, i int) {
	p.Ready()
	before := incarnation(p, i)
	switch fault {
	case "expire":
		p.ExpireSession(i)
	case "pause":
		p.Proc(i).Pause()
		<-time.After(lease + time.Duration(r.Int64N(int64(lease)))) // it may wake as the others vote it out, or later
		p.Proc(i).Resume()
	case "kill":
		p.Proc(i).Restart()
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n := incarnation(p, i); n == 0 || n == before && fault != "pause"; n = incarnation(p, i) { // one that woke early enough goes on
		<-tick.C
	}
}

// incarnation of the node of a process: 0 where the driver sees none.
func incarnation(p *testkit.Procs, i int) uint64 {
	st, err := p.Node().Status(p.Context())
	if err != nil {
		return 0
	}
	for _, n := range st.Nodes {
		if n.Name == p.Proc(i).Name() {
			return n.Incarnation
		}
	}
	return 0
}

// TestDriverIsFenced: the run of a driver that is fenced itself ends, and does not try again.
func TestDriverIsFenced(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2), testkit.Loose())
	points := make(signal, 1)
	go func() {
		points.another(1, nil)
		k.Cluster().ExpireSession(0)
	}()
	_, err := agent.Train(k.Context(), rl.Plan{Steps: 1_000_000, Actors: 2, Every: 1000, Progress: points})
	if !errors.Is(err, raysys.ErrFenced) {
		t.Errorf("%v, want ErrFenced", err)
	}
}
