package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/standins"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/consul"
	"github.com/raysys/raysys/system"
)

// Procs is a cluster of real processes on a real Consul, and a driver node in the test's own process.
type Procs struct {
	t      testing.TB
	consul *ConsulServer
	name   string // of the cluster
	node   *system.Node
	ctx    context.Context
	dir    string
	list   []*Proc
}

// procTTL is the lease of processes on a server of their own: short enough for a test to wait for, long enough for a
// busy machine.
const procTTL = 3 * time.Second

// On makes Processes use this server, and the usual lease of 10 s unless TTL is given, for which it needs MinTTL.
// Without it they get a server of their own, in memory, and a lease of 3 s.
func On(c *ConsulServer) Option { return func(o *options) { o.consul = c } }

// Env adds variables, "NAME=value", to the environment of the processes that Processes starts.
func Env(vars ...string) Option { return func(o *options) { o.env = append(o.env, vars...) } }

// EnvOf adds variables to the environment of process i.
func EnvOf(f func(i int) []string) Option { return func(o *options) { o.envOf = f } }

// Wrap puts a command before the program of process i, which it must end in by exec: ip netns exec, taskset.
func Wrap(command func(i int) []string) Option { return func(o *options) { o.wrap = command } }

// Processes starts n worker processes, p1 to p<n>, by running the test binary again, and a driver in this one. The
// package's TestMain has to be Main, or to begin with Child. They use the process-wide function table and end with the
// test; the end of what they wrote is logged when it fails. Of the options Config, CPU, TTL, Seed, Loose, On, Env,
// EnvOf and Wrap hold here; Config is the driver's, CPU and TTL the workers'.
func Processes(t testing.TB, n int, opts ...Option) *Procs {
	t.Helper()
	o := collect(opts)
	if os.Getenv(childDir) != "" {
		t.Fatalf("testkit: this is a process that Processes started: begin TestMain with testkit.Main or testkit.Child")
	}
	if o.fakes != nil || o.bad != nil {
		t.Fatalf("testkit: Processes cannot have fakes, since other processes cannot be given a function: use testkit.New(t, testkit.Nodes(n), ...)")
	}
	d := drawSeeds(t, o.seed)[0]
	d.announce(t, t.Name(), func() bool { return false }) // real time and real processes do not repeat
	p := &Procs{t: t, consul: o.consul, dir: t.TempDir()}
	if p.consul == nil {
		p.consul = Consul(t, MinTTL(time.Second))
		if o.ttl == 0 {
			o.ttl = procTTL
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("testkit: find the test binary: %v", err)
	}
	cluster := "test-" + strconv.FormatUint(randomSeed(), 36) // a server may be shared
	if o.cfg.Cluster != nil && o.cfg.Cluster.Name != "" {
		cluster = o.cfg.Cluster.Name
	}
	for i := range n {
		name := fmt.Sprintf("p%d", i+1)
		var argv []string
		if o.wrap != nil {
			argv = o.wrap(i + 1)
		}
		proc := &Proc{t: t, name: raysys.NodeID(name), argv: append(argv, self), log: &tail{}, env: append([]string{
			childDir + "=" + p.dir, "RAYSYS_NAME=" + name, "RAYSYS_ROLE=worker", "RAYSYS_CONSUL=" + p.consul.Address(),
			"RAYSYS_CLUSTER=" + cluster, "RAYSYS_LOG=info", "CONSUL_HTTP_TOKEN=" + p.consul.Token(),
		}, o.env...)}
		if o.envOf != nil {
			proc.env = append(proc.env, o.envOf(i+1)...)
		}
		if o.ttl > 0 {
			proc.env = append(proc.env, "RAYSYS_TTL="+o.ttl.String())
		}
		if o.cfg.Resources.CPU > 0 {
			proc.env = append(proc.env, "RAYSYS_CPU="+strconv.FormatFloat(o.cfg.Resources.CPU, 'g', -1, 64))
		}
		p.list = append(p.list, proc)
	}
	p.name = cluster
	t.Cleanup(p.end)
	for _, proc := range p.list {
		if err := proc.start(); err != nil {
			t.Fatalf("testkit: %v", err)
		}
	}
	p.drive(o, cluster, d.seed)
	p.Ready()
	return p
}

// drive starts the driver.
func (p *Procs) drive(o options, cluster string, seed uint64) {
	p.t.Helper()
	cfg := o.cfg
	cfg.Resources = raysys.Resources{}
	cl := system.ClusterConfig{}
	if cfg.Cluster != nil {
		cl = *cfg.Cluster
	}
	cl.Name, cl.Consul, cl.Role, cl.TTL = cluster, p.consul.Address(), system.Driver, o.ttl
	cfg.Cluster, cfg.Seed = &cl, seed
	if cfg.Name == "" {
		cfg.Name = "test"
	}
	if !o.loose {
		watch := newStrict()
		*standins.Inspector(&cfg) = watch
		p.t.Cleanup(func() {
			for _, c := range watch.changed() {
				p.t.Errorf("testkit: %s", c)
			}
		})
	}
	n, err := system.New(cfg)
	if err != nil {
		p.t.Fatalf("testkit: %v", err)
	}
	p.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
		defer cancel()
		if err := n.Close(ctx); err != nil && n.Err() == nil {
			p.t.Errorf("testkit: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), joinLimit)
	defer cancel()
	if err := n.Start(ctx); err != nil {
		p.t.Fatalf("testkit: %v", err)
	}
	p.node, p.ctx = n, n.Context(context.Background())
}

// Context is the test's driver context.
func (p *Procs) Context() context.Context { return p.ctx }

// Node is the driver's node, in this process.
func (p *Procs) Node() *system.Node { return p.node }

// Proc is process i, from 1 on.
func (p *Procs) Proc(i int) *Proc {
	if i < 1 || i > len(p.list) {
		p.t.Helper()
		p.t.Fatalf("testkit: there is no process %d: they are 1 to %d", i, len(p.list))
	}
	return p.list[i-1]
}

// Size is how many there are.
func (p *Procs) Size() int { return len(p.list) }

// Consul is the server that they use.
func (p *Procs) Consul() *ConsulServer { return p.consul }

// ExpireSession ends the session of process i in Consul, as an eviction or an operator does. Its node is fenced when it
// notices, and joins as a new incarnation.
func (p *Procs) ExpireSession(i int) {
	p.t.Helper()
	kv, err := consul.Open(consul.Config{Addresses: []string{p.consul.Address()}, Prefix: "raysys/" + p.name + "/", Token: p.consul.Token()})
	if err != nil {
		p.t.Fatalf("testkit: expire a session: %v", err)
	}
	defer kv.Close()
	ctx, cancel := context.WithTimeout(context.Background(), joinLimit)
	defer cancel()
	node, err := kv.Get(ctx, shardlog.NodesPrefix+string(p.Proc(i).name))
	if err == nil {
		err = kv.Destroy(ctx, node.Session)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) { // it has none at the moment
		p.t.Fatalf("testkit: expire a session: %v", err)
	}
}

// Activations reads what grains in the processes reported to the recorder of that name.
func (p *Procs) Activations(name string) *Activations {
	p.t.Helper()
	a := NewActivations(name)
	if err := a.read(p.dir); err != nil {
		p.t.Fatalf("testkit: read activations: %v", err)
	}
	return a
}

// Ready waits until the driver sees every process that runs, and each shard has a leader among them. The driver itself must
// be active too: while the store was away its lease may have run out.
func (p *Procs) Ready() {
	p.t.Helper()
	awaitReady(p.t, func() []raysys.NodeID {
		names := []raysys.NodeID{p.node.Name()}
		for _, proc := range p.list {
			if proc.Runs() {
				names = append(names, proc.name)
			}
		}
		return names
	}, func() (inspect.Status, error) {
		ctx, cancel := context.WithTimeout(p.ctx, statusLimit)
		defer cancel()
		return p.node.Status(ctx)
	})
}

// end kills the processes that run, and shows their output when the test failed.
func (p *Procs) end() {
	for _, proc := range p.list {
		if proc.cmd != nil {
			proc.close()
		}
		if p.t.Failed() {
			p.t.Logf("the end of what process %s wrote:\n%s", proc.name, proc.Output())
		}
	}
}
