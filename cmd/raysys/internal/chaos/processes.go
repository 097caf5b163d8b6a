//go:build unix

package chaos

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/consul"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// workerVariable makes this program a worker of a round with processes.
const workerVariable = "RAYSYS_CHAOS_WORKER"

// Worker does not return in a process that a round started as a worker. It belongs at the begin of main.
func Worker() {
	if os.Getenv(workerVariable) == "" {
		return
	}
	define(core.DefaultTable)
	testkit.Child()
}

// procCluster is processes as a round sees them.
type procCluster struct {
	*testkit.Procs
	changes atomic.Int64 // faults that began or ended
}

// Node implements cluster.
func (c *procCluster) Node(i int) *system.Node {
	if i == 0 {
		return c.Procs.Node()
	}
	return nil
}

// Lives implements cluster: any fault may end lives.
func (c *procCluster) Lives() []any { return []any{c.changes.Load()} }

// RunProcesses is Run with a process for each node and a real Consul: faults are SIGKILL, SIGSTOP, sessions that end and a
// Consul that stands still. What processes need is compared over the round.
func RunProcesses(t *testing.T, o Round, rep *Report, told func(string)) {
	rep.Round = o
	plan := o.plan()
	for i, e := range plan {
		if e.Fault == testkit.FaultOutage { // a Consul that stands still for a lease ends all sessions, the driver's too
			plan[i].For = min(e.For, o.ttl()/3)
		}
	}
	rep.setPlan(plan)
	began := time.Now()
	parts, vitals := define(core.DefaultTable)
	p := testkit.Processes(t, o.Nodes, testkit.Seed(o.Seed), testkit.CPU(4), testkit.TTL(o.ttl()), testkit.Loose(),
		testkit.Env(workerVariable+"=1", "RAYSYS_LOG=warn", "RAYSYS_OBJECT_MEMORY=16MiB"),
		testkit.EnvOf(func(i int) []string { return []string{"RAYSYS_LABELS=node=p" + strconv.Itoa(i)} }),
		testkit.Config(system.Config{Cluster: &system.ClusterConfig{Name: "chaos"}}))
	c := &procCluster{Procs: p}
	r := newRound(t, c, o)
	defer r.finish()
	defer func() { rep.Counts, rep.Violations, rep.Took = r.counts, r.violations, time.Since(began) }()
	kv, err := consul.Open(consul.Config{Addresses: []string{p.Consul().Address()}, Prefix: "raysys/chaos/", Token: p.Consul().Token()})
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	for _, w := range parts {
		w.start(r)
	}
	var seen []sample
	look := func() {
		s, err := sampleOf(p, vitals, kv)
		if err == nil {
			seen = append(seen, s)
		}
		told(fmt.Sprintf("%v  %v", time.Since(began).Round(time.Second), s))
	}
	<-time.After(o.ttl() / 2)
	look()
	r.stormy()
	c.play(plan, look)
	<-time.After(4 * o.ttl())
	p.Ready()
	r.quiet()
	<-time.After(2 * o.ttl())
	r.stop()
	for _, w := range parts {
		if w.end != nil {
			w.end(r)
		}
	}
	look()
	r.flat(seen)
}

// lookEvery is how often play has the processes looked at.
const lookEvery = time.Minute

// play is testkit.Cluster.Play for processes.
func (c *procCluster) play(plan testkit.Plan, look func()) {
	type step struct {
		at time.Duration
		do func()
	}
	var steps []step
	for _, e := range plan {
		n := 1
		if len(e.Nodes) > 0 {
			n = e.Nodes[0]
		}
		begin, end := c.steps(e.Fault, c.Proc(n))
		steps = append(steps, step{e.At, begin}, step{e.At + e.For, end})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return int(a.at - b.at) })
	began, looked := time.Now(), time.Now()
	for _, s := range steps {
		<-time.After(s.at - time.Since(began))
		c.changes.Add(1)
		s.do()
		if time.Since(looked) > lookEvery {
			look()
			looked = time.Now()
		}
	}
}

func (c *procCluster) steps(f testkit.Fault, p *testkit.Proc) (begin, end func()) {
	switch f {
	case testkit.FaultKill:
		return p.Kill, func() {
			if !p.Runs() {
				p.Restart()
			}
		}
	case testkit.FaultPause:
		return func() {
				if p.Runs() {
					p.Pause()
				}
			}, func() {
				if p.Runs() {
					p.Resume()
				}
			}
	case testkit.FaultExpire:
		n, _ := strconv.Atoi(strings.TrimPrefix(string(p.Name()), "p"))
		return func() { c.ExpireSession(n) }, func() {}
	default: // FaultOutage
		return c.Consul().Pause, c.Consul().Resume
	}
}

// sample is what all processes and the store need at one moment.
type sample struct {
	worst Vitals
	keys  int
}

func (s sample) String() string {
	return fmt.Sprintf("at most %d goroutines, %d files, %d MiB of heap in a process; %d keys", s.worst.Goroutines, s.worst.Files, s.worst.Heap>>20, s.keys)
}

func sampleOf(p *testkit.Procs, vitals tasks.Task0[Vitals], kv store.KV) (s sample, err error) {
	ctx, cancel := context.WithTimeout(p.Context(), 10*time.Second)
	defer cancel()
	for i := range p.Size() {
		v, verr := vitals.With(raysys.Label("node", "p"+strconv.Itoa(i+1))).Go(ctx).Get(ctx)
		if verr != nil {
			err = verr
			continue
		}
		s.worst.Goroutines, s.worst.Files, s.worst.Heap = max(s.worst.Goroutines, v.Goroutines), max(s.worst.Files, v.Files), max(s.worst.Heap, v.Heap)
	}
	keys, kerr := kv.Keys(ctx, "")
	s.keys = len(keys)
	if kerr != nil {
		err = kerr
	}
	return s, err
}

// flat compares the last third of the samples with the first.
func (r *round) flat(seen []sample) {
	if len(seen) < 6 {
		return
	}
	worst := func(list []sample) (w sample) {
		for _, s := range list {
			w.worst.Goroutines, w.worst.Files = max(w.worst.Goroutines, s.worst.Goroutines), max(w.worst.Files, s.worst.Files)
			w.worst.Heap, w.keys = max(w.worst.Heap, s.worst.Heap), max(w.keys, s.keys)
		}
		return w
	}
	first, last := worst(seen[:len(seen)/3]), worst(seen[len(seen)-len(seen)/3:])
	if last.worst.Goroutines > 2*first.worst.Goroutines+100 || last.worst.Files > 2*first.worst.Files+50 ||
		last.worst.Heap > 2*first.worst.Heap+64<<20 || last.keys > 2*first.keys+500 {
		r.violate("", "what a cluster needs does not grow", "in the first third %v; in the last %v", first, last)
	}
}
