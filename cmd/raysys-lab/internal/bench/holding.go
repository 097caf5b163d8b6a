package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// The rows of large objects put them in this process, the driver, and look at them in tasks that are kept to one worker
// each, which measure how long that takes them.

// options are the settings of a cluster's workers that differ from the defaults.
type options struct {
	NoSharing bool   `json:"no_sharing"`
	Certs     string `json:"certs"` // directory of makeCertificates; empty for plain TCP
}

// apply makes a node one of the cluster's. Nil options change nothing.
func (o *options) apply(cfg *system.Config, node string) {
	if o == nil {
		return
	}
	cfg.Objects.NoSharing = o.NoSharing
	cfg.Cluster.Labels = map[string]string{workerLabel: node}
	if o.Certs != "" {
		cfg.Cluster.TLS = certified(o.Certs, node)
	}
}

// workerLabel is the label by which a task is kept to one worker.
const workerLabel = "bench-worker"

// work is the child that is a worker. Its options may be null.
func work(ctx context.Context, p Plan, args []string, in io.Reader, out io.Writer) error {
	var o *options
	if err := json.Unmarshal([]byte(args[3]), &o); err != nil {
		return &SelectionError{fmt.Sprintf("options %q: %v", args[3], err)}
	}
	p.Node = member(p.Node, args[0], args[1], args[2], system.Worker)
	o.apply(&p.Node, args[2])
	return withNode(ctx, p, func(context.Context, *system.Node) error { return sayAndWait(in, out) })
}

// withObjects is withCluster of workers with options.
func withObjects(ctx context.Context, p Plan, workers int, o options, f func(driver context.Context, c *cluster) error) (err error) {
	c := &cluster{name: clusterName(), plan: p, options: &o}
	return errors.Join(c.run(ctx, workers, f), c.sweep(ctx))
}

// glance is how a task looks at an object.
type glance struct {
	Object raysys.Handle[[]byte]
	Get    bool // Get it instead
	Touch  bool // and read a byte of every page
}

// seen is the answer of that task.
type seen struct {
	PID   int
	Len   int
	First byte
	Last  byte
	Open  time.Duration // until it could read
	Touch time.Duration
}

var look = tasks.DefineIn(functions, "look", func(ctx context.Context, g glance) (s seen, err error) {
	s.PID = os.Getpid()
	begin := time.Now()
	at := func(b []byte) error {
		s.Open = time.Since(begin)
		s.Len, s.First, s.Last = len(b), b[0], b[len(b)-1]
		if g.Touch {
			begin = time.Now()
			touched.Store(touch(b))
			s.Touch = time.Since(begin)
		}
		return nil
	}
	if !g.Get {
		return s, raysys.View(ctx, g.Object.Ref(), at)
	}
	b, err := g.Object.Ref().Get(ctx)
	if err != nil {
		return s, err
	}
	return s, at(b)
})

// tidy frees garbage of the process, so that memory is there for the next round.
var tidy = tasks.DefineIn(functions, "tidy", func(context.Context, int) (int, error) {
	runtime.GC() // cleanups of the first may free memory that the second finds
	runtime.GC()
	return os.Getpid(), nil
})

// on keeps a task to one worker, whatever else it runs.
func on(worker string) []raysys.Option {
	return []raysys.Option{raysys.Label(workerLabel, worker), raysys.CPU(0)}
}

// look has a worker look at an object, and makes sure that it saw it.
func (c *cluster) look(driver context.Context, worker string, data []byte, g glance) (seen, error) {
	s, err := look.With(on(worker)...).Go(driver, g).Get(driver)
	if err != nil {
		return s, fmt.Errorf("%s: %w", worker, err)
	}
	if err := c.isWorker(s.PID); err != nil {
		return s, err
	}
	if s.Len != len(data) || s.First != data[0] || s.Last != data[len(data)-1] {
		return s, fmt.Errorf("%s saw %d bytes from %d to %d, not %d", worker, s.Len, s.First, s.Last, len(data))
	}
	return s, nil
}

// empty waits until no worker and no driver holds an object any more. There is nothing that tells, so the nodes are
// asked.
func (c *cluster) empty(driver context.Context) error {
	ctx, cancel := context.WithTimeout(driver, settlePatience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		runtime.GC()
		for _, w := range c.names {
			if _, err := tidy.With(on(w)...).Go(ctx, 0).Get(ctx); err != nil {
				return err
			}
		}
		m, err := c.driver.Memory(ctx, "", 1)
		if err != nil {
			return err
		}
		left := 0
		for _, n := range m.Nodes {
			if n.Error != "" {
				return fmt.Errorf("memory of %s: %s", n.Name, n.Error)
			}
			left += n.Count
		}
		if left == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d objects are left without references: %w", left, context.Cause(ctx))
		}
	}
}

// sent is how many bytes of objects the driver has sent.
func (c *cluster) sent(ctx context.Context) (uint64, error) {
	m, err := c.driver.Memory(ctx, c.driver.Name(), 0)
	if err != nil {
		return 0, err
	}
	return m.Nodes[0].Transfer.BytesOut, nil
}
