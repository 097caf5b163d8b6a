package testkit

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/taskengine"
)

// orphanLimit is how long a cluster may take to come to rest once the test has all its answers.
const orphanLimit = 10 * time.Second

// collectEvery is after how many looks the collector runs again.
const collectEvery = 10

// NoOrphans fails the test when work without a waiter is left: a task that waits, runs or is accepted for another
// node, or a future that another node holds. Call it when the test has released or forgotten its refs and has all
// answers; it gives the cluster 10 s to come to rest.
func NoOrphans(k *Kit) {
	k.t.Helper()
	if k.cluster != nil {
		k.cluster.mu.Lock()
		watches := k.cluster.watches
		k.cluster.mu.Unlock()
		for _, w := range watches {
			w.strict.letGo() // what strict mode watches, it holds
		}
	}
	var left string
	deadline := time.NewTimer(orphanLimit)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		if n%collectEvery == 0 {
			runtime.GC() // a reference is given back when the collector finds it unreachable
		}
		if left = k.orphans(); left == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			k.t.Errorf("testkit: after %v work is left that nobody waits for: %s", orphanLimit, left)
			return
		}
	}
}

func (k *Kit) orphans() string {
	if k.cluster == nil {
		e := taskengine.Of(k.node.Context(context.Background()))
		return orphansOf(inspect.NodeStatus{Name: k.node.Name(), Queued: e.Queued(), BusyCPU: e.Load().Busy})
	}
	st, err := k.cluster.Status()
	if err != nil {
		return err.Error()
	}
	return orphansIn(st)
}

func orphansIn(st inspect.Status) string {
	var left []string
	for _, n := range st.Nodes {
		if s := orphansOf(n); s != "" {
			left = append(left, s)
		}
	}
	return strings.Join(left, "; ")
}

func orphansOf(n inspect.NodeStatus) string {
	var what []string
	add := func(n int, s string) {
		if n > 0 {
			what = append(what, fmt.Sprintf("%d %s", n, s))
		}
	}
	if n.Error != "" {
		what = append(what, n.Error)
	}
	add(n.Queued, "tasks wait")
	add(n.Inbound, "tasks of other nodes")
	add(int(n.BusyCPU+0.999), "CPUs busy")
	add(n.Held, "futures that other nodes hold")
	if len(what) == 0 {
		return ""
	}
	return fmt.Sprintf("%s has %s", n.Name, strings.Join(what, ", "))
}
