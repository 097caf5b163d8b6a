package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/certs"
	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/consul"
	"github.com/raysys/raysys/system"
)

// cluster has the nodes that a row of the cross-process tier measures: worker processes, and this process as their
// driver, which has no CPU of its own and hosts no grain.
type cluster struct {
	name    string
	plan    Plan
	driver  *system.Node
	workers []*process
	started int      // workers so far: each has a name of its own
	names   []string // of the workers, in their order
	options *options // of nodes for large objects; nil for all others
}

// withCluster runs f with a cluster of so many workers, settled, and ends it.
func withCluster(ctx context.Context, p Plan, workers int, f func(driver context.Context, c *cluster) error) error {
	c := &cluster{name: clusterName(), plan: p}
	return errors.Join(c.run(ctx, workers, f), c.sweep(ctx))
}

// run ends the workers after the driver, so that the driver does not wait for them.
func (c *cluster) run(ctx context.Context, workers int, f func(driver context.Context, c *cluster) error) (err error) {
	defer func() { err = errors.Join(err, c.end()) }()
	for range workers {
		if _, err := c.launch(ctx); err != nil {
			return err
		}
	}
	for _, w := range c.workers {
		if _, err := w.ready(); err != nil {
			return err
		}
	}
	p := c.plan
	p.Node = member(p.Node, c.name, p.Consul, "driver", system.Driver)
	c.options.apply(&p.Node, "driver")
	return withNode(ctx, p, func(driver context.Context, n *system.Node) error {
		c.driver = n
		if err := c.settled(ctx); err != nil {
			return err
		}
		return f(driver, c)
	})
}

// clusterName is one that no run before has used: the server may be one that stays.
func clusterName() string {
	b := make([]byte, 6)
	rand.Read(b) // never fails, says its package
	return "bench-" + hex.EncodeToString(b)
}

// member is the configuration of one node of a cluster.
func member(cfg system.Config, name, consul, node string, role system.Role) system.Config {
	cfg.Name = raysys.NodeID(node)
	cfg.Cluster = &system.ClusterConfig{Name: name, Consul: consul, Role: role}
	if role == system.Driver {
		cfg.Resources = raysys.Resources{}
	}
	return cfg
}

// launch starts a worker, which is not yet ready.
func (c *cluster) launch(ctx context.Context) (*process, error) { return c.launchOn(ctx, anywhere) }

func (c *cluster) launchOn(ctx context.Context, cpu int) (*process, error) {
	c.started++
	name := "worker-" + strconv.Itoa(c.started)
	o, err := json.Marshal(c.options)
	if err != nil {
		return nil, err
	}
	w, err := launchOn(ctx, c.plan, cpu, childWorker, c.name, c.plan.Consul, name, string(o))
	if err == nil {
		c.workers, c.names = append(c.workers, w), append(c.names, name)
	}
	return w, err
}

// forget takes a worker that has ended off the list.
func (c *cluster) forget(gone *process) {
	var rest []*process
	var names []string
	for i, w := range c.workers {
		if w != gone {
			rest, names = append(rest, w), append(names, c.names[i])
		}
	}
	c.workers, c.names = rest, names
}

// end lets all workers leave, at the same time.
func (c *cluster) end() error {
	errs := make([]error, len(c.workers))
	var wg sync.WaitGroup
	for i, w := range c.workers {
		wg.Go(func() { errs[i] = w.end() })
	}
	wg.Wait()
	c.workers, c.names = nil, nil
	return errors.Join(errs...)
}

// settlePatience bounds the wait for a cluster to settle: longer than a session of a node that was killed lives.
const settlePatience = 45 * time.Second

// settled waits until every shard is led by a worker and all nodes are connected to each other. There is nothing that
// tells, so the nodes are asked.
func (c *cluster) settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := c.driver.Status(ctx)
		why := c.unsettled(s)
		if err == nil && why == "" {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait for %d workers to settle: %w: %s", len(c.workers), context.Cause(ctx), why), err)
		}
	}
}

// unsettled returns the first sign in s that the cluster has not settled, empty when there is none.
func (c *cluster) unsettled(s inspect.Status) string {
	if want := len(c.workers) + 1; len(s.Nodes) != want {
		return fmt.Sprintf("%d nodes, not %d", len(s.Nodes), want)
	}
	there := map[raysys.NodeID]bool{}
	for _, n := range s.Nodes {
		there[n.Name] = n.Role != string(system.Driver)
		switch {
		case n.Error != "":
			return fmt.Sprintf("node %s: %s", n.Name, n.Error)
		case n.State != "active":
			return fmt.Sprintf("node %s is %s", n.Name, n.State)
		case n.Peers != len(c.workers):
			return fmt.Sprintf("node %s is connected to %d others", n.Name, n.Peers)
		}
	}
	for _, sh := range s.Shards {
		if !there[sh.Node] {
			return fmt.Sprintf("shard %d is led by %q", sh.Shard, sh.Node)
		}
	}
	return ""
}

// store opens the server's keys below a prefix.
func (c *cluster) store(prefix string) (store.KV, error) { return openStore(c.plan.Consul, prefix) }

func openStore(address, prefix string) (store.KV, error) {
	kv, err := consul.Open(consul.Config{Addresses: []string{address}, Prefix: prefix})
	if err != nil {
		return nil, fmt.Errorf("open Consul: %w", err)
	}
	return kv, nil
}

// sweep removes the cluster's keys from the server, which may be one that stays.
func (c *cluster) sweep(ctx context.Context) error {
	kv, err := c.store("raysys/")
	if err != nil {
		return err
	}
	defer kv.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer cancel()
	_, err = kv.Txn(ctx, []store.Op{store.DeleteTree(c.name + "/")})
	return err
}

// These rows measure work between processes: elsewhere and tasksElsewhere make sure that the work is done there.

// elsewhere refuses a grain that is in no worker's process.
func (c *cluster) elsewhere(ctx context.Context, g grains.Grain[counter]) error {
	return c.areWorkers(ctx, []raysys.Ref[int]{where.Call(ctx, g)})
}

// tasksElsewhere refuses a cluster in which a task of a batch runs in no worker's process.
func (c *cluster) tasksElsewhere(ctx context.Context) error {
	return c.areWorkers(ctx, processOf.Map(ctx, make([]int, batch)))
}

// areWorkers refuses the id of a process that is no worker's.
func (c *cluster) areWorkers(ctx context.Context, pids []raysys.Ref[int]) error {
	for _, r := range pids {
		pid, err := r.Get(ctx)
		if err != nil {
			return err
		}
		if err := c.isWorker(pid); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) isWorker(pid int) error {
	for _, w := range c.workers {
		if w.pid() == pid {
			return nil
		}
	}
	return fmt.Errorf("the other end is process %d, which is no worker's", pid)
}

// certified are the files that a node finds in a directory of makeCertificates.
func certified(dir, node string) system.TLSFiles {
	return system.TLSFiles{
		Cert: filepath.Join(dir, node+".crt"), Key: filepath.Join(dir, node+".key"), CA: filepath.Join(dir, "ca.crt"),
	}
}

// makeCertificates makes an authority, and certificates of it for nodes of a cluster. They are good for a day.
func makeCertificates(dir, cluster string, nodes []string) error {
	a, err := certs.New(dir)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		uri := fmt.Sprintf("raysys://%s/%s", cluster, node)
		if _, _, err := a.Issue(node, time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour), uri); err != nil {
			return err
		}
	}
	return nil
}

// FindConsul returns the path of the Consul server of the cross-process tier.
func FindConsul() (string, error) {
	path, err := consulserver.Find()
	if err != nil {
		return "", &SelectionError{fmt.Sprintf("tier cross-process needs a Consul server: %v, or run make consul in a checkout, or give a server that runs with --consul HOST:PORT", err)}
	}
	return path, nil
}

// reachPatience bounds the look at a server that is said to run.
const reachPatience = 5 * time.Second

// ReachConsul looks whether a server answers at address. Nodes go on trying for ever, which would say nothing.
func ReachConsul(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, reachPatience)
	defer cancel()
	kv, err := openStore(address, "raysys/")
	if err != nil {
		return err
	}
	defer kv.Close()
	if _, err := kv.Keys(ctx, "bench"); err != nil {
		return fmt.Errorf("no Consul answers at %s: %w: give the address of one that runs, or none, to have one started", address, err)
	}
	return nil
}

// idlePeers is how many others the idle node of node_rss_3_peers is connected to: two workers and the driver.
const idlePeers = 3

// nodePeers reads the resident memory of a worker in a cluster of four, once it has nothing left to do.
func nodePeers(ctx context.Context, p Plan) (measured, error) {
	m := measured{limit: "the same binary doing nothing"}
	err := withCluster(ctx, p, idlePeers, func(driver context.Context, c *cluster) error {
		for i := range p.Rounds {
			oldest := c.workers[0]
			v, err := c.idle(driver, oldest, p.Slice)
			if err != nil {
				return err
			}
			l, err := resident(ctx, p, childNothing)
			if err != nil {
				return err
			}
			m.rounds, m.limits = append(m.rounds, v), append(m.limits, l)
			if i == p.Rounds-1 {
				return nil
			}
			if err := oldest.end(); err != nil { // the next round looks at another process
				return err
			}
			if err := c.replace(ctx, oldest); err != nil {
				return err
			}
		}
		return nil
	})
	m.value, m.limitValue = median(m.rounds), median(m.limits)
	m.note("source", residentSource)
	m.note("nodes", "three workers and a driver")
	return m, err
}

// idle returns the largest resident memory of a worker over ten slices. The worker has led shards and lost some to the
// last worker that came; without work it sends only pings, renewals and reports.
func (c *cluster) idle(ctx context.Context, w *process, slice time.Duration) (float64, error) {
	most := 0.0
	for range 10 {
		v, err := residentBytes(strconv.Itoa(w.pid()))
		if err != nil {
			return 0, err
		}
		most = max(most, float64(v))
		if err := pause(ctx, slice); err != nil {
			return 0, err
		}
	}
	return most, nil
}

// nodeJoin measures from just before a process is started to the moment the parent has read that its node has joined a
// cluster in which there is a worker already.
func nodeJoin(ctx context.Context, p Plan) (measured, error) {
	var m measured
	err := withCluster(ctx, p, 1, func(driver context.Context, c *cluster) (err error) {
		m, err = compareStarts(driver, p, childWorker, c.name, p.Consul, "joins", "null")
		return err
	})
	m.latencyOf = "start of the process to a node that has joined, seen by the parent"
	m.note("cluster", "one worker and the driver, on a Consul that is up")
	return m, err
}
