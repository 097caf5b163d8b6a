//go:build unix

package chaos

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/shardlog"
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
	store   slowStore
	drains  sync.WaitGroup // processes that drain, to start again
	kv      store.KV
	played  map[testkit.Fault]int
}

// slowStore stops a Consul for short times.
type slowStore struct {
	mu   sync.Mutex    // held while the server is stopped, for whatever reason
	end  chan struct{} // closed when no more stops are wanted
	over sync.WaitGroup
}

// begin stops the server for by again and again, and lets it run as long in between.
func (s *slowStore) begin(c *testkit.ConsulServer, by time.Duration) {
	end := make(chan struct{})
	s.end = end
	s.over.Go(func() {
		for {
			if s.mu.TryLock() { // else it stands still already
				c.Pause()
				<-time.After(by)
				c.Resume()
				s.mu.Unlock()
			}
			select {
			case <-time.After(by):
			case <-end:
				return
			}
		}
	})
}

func (s *slowStore) stop() {
	close(s.end)
	s.over.Wait()
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

// Activations implements cluster.
func (c *procCluster) Activations(name string, _ *testkit.Activations) *testkit.Activations {
	return c.Procs.Activations(name)
}

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
		testkit.Env(workerVariable+"=1", "RAYSYS_LOG=warn", "RAYSYS_OBJECT_MEMORY=16MiB", "RAYSYS_LINEAGE=durable"),
		testkit.EnvOf(func(i int) []string { return []string{"RAYSYS_LABELS=node=p" + strconv.Itoa(i)} }),
		testkit.Config(system.Config{Cluster: &system.ClusterConfig{Name: "chaos"}, Lineage: system.LineageDurable}))
	kv, err := consul.Open(consul.Config{Addresses: []string{p.Consul().Address()}, Prefix: "raysys/chaos/", Token: p.Consul().Token()})
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	c := &procCluster{Procs: p, kv: kv, played: map[testkit.Fault]int{}}
	r := newRound(t, c, o)
	defer r.finish()
	defer func() {
		rep.Counts, rep.Violations, rep.Took, rep.Played = r.counts, r.violations, time.Since(began), c.played
	}()
	for _, w := range parts {
		w.start(r)
	}
	var seen []Needs
	look := func() {
		n, err := needs(p, vitals, kv)
		if err != nil { // the store is away
			told(fmt.Sprintf("%v  %v", time.Since(began).Round(time.Second), err))
			return
		}
		seen = append(seen, n)
		told(fmt.Sprintf("%v  %v", time.Since(began).Round(time.Second), n))
	}
	<-time.After(o.ttl() / 2)
	over := make(chan struct{})
	var looks sync.WaitGroup
	looks.Go(func() {
		every := time.NewTicker(o.lookEvery())
		defer every.Stop()
		for {
			look()
			select {
			case <-every.C:
			case <-over:
				return
			}
		}
	})
	r.stormy()
	c.play(plan)
	<-time.After(4 * o.ttl())
	c.drains.Wait()
	close(over)
	looks.Wait()
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
	r.flat(rep, seen)
}

// lookEvery is how often the processes are looked at, in a round that is long enough for many looks.
func (o Round) lookEvery() time.Duration { return max(5*time.Second, min(time.Minute, o.Length/30)) }

// play is testkit.Cluster.Play for processes.
func (c *procCluster) play(plan testkit.Plan) {
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
		p := c.Proc(n)
		begin, end := c.steps(e, p)
		steps = append(steps, step{e.At, func() {
			if e.Fault != testkit.FaultExpire && (p.Runs() || len(e.Nodes) == 0) {
				c.played[e.Fault]++
			}
			begin()
		}}, step{e.At + e.For, end})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return int(a.at - b.at) })
	began := time.Now()
	for _, s := range steps {
		<-time.After(s.at - time.Since(began))
		c.changes.Add(1)
		s.do()
	}
}

// expire ends the session of p, unless it has none at the moment or the store does not answer.
func (c *procCluster) expire(p *testkit.Proc) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if node, err := c.kv.Get(ctx, shardlog.NodesPrefix+string(p.Name())); err == nil && c.kv.Destroy(ctx, node.Session) == nil {
		c.played[testkit.FaultExpire]++
	}
}

func (c *procCluster) steps(e testkit.Event, p *testkit.Proc) (begin, end func()) {
	switch e.Fault {
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
		return func() { c.expire(p) }, func() {}
	case testkit.FaultDrain:
		return func() {
			if !p.Runs() {
				return
			}
			exited := p.Exited()
			p.Terminate()
			c.drains.Go(func() {
				<-exited // also by a kill, after which the process may run again by now
				<-time.After(e.For)
				if !p.Runs() {
					p.Restart()
				}
			})
		}, func() {}
	case testkit.FaultSlowStore:
		return func() { c.store.begin(c.Consul(), e.By) }, c.store.stop
	default: // FaultOutage
		return func() { c.store.mu.Lock(); c.Consul().Pause() }, func() { c.Consul().Resume(); c.store.mu.Unlock() }
	}
}

// needs looks at the processes. One that is down or stands still is left out.
func needs(p *testkit.Procs, vitals tasks.Task0[Vitals], kv store.KV) (n Needs, err error) {
	ctx, cancel := context.WithTimeout(p.Context(), 10*time.Second)
	defer cancel()
	n.Driver = own()
	var asked []raysys.Ref[Vitals]
	for i := range p.Size() {
		asked = append(asked, vitals.With(raysys.Label("node", "p"+strconv.Itoa(i+1))).Go(ctx))
	}
	for _, ref := range asked {
		if v, err := ref.Get(ctx); err == nil {
			n.Workers = n.Workers.most(v)
		}
	}
	ctx, cancelKeys := context.WithTimeout(p.Context(), 10*time.Second)
	defer cancelKeys()
	keys, err := kv.Keys(ctx, "")
	n.Keys = len(keys)
	return n, err
}
