package chaos

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/testkit"
)

// restLimit is how long a cluster may take to come to rest.
const restLimit = time.Minute

// atRest waits until no node has work, objects or references of others, which each gives back when its collector finds that
// the program has let go; and until the logs are compacted.
func (r *round) atRest(c *testkit.Cluster) {
	left := ""
	for limit := time.Now().Add(restLimit); time.Now().Before(limit); <-time.After(time.Second) {
		runtime.GC()
		if left = r.leftover(c); left == "" {
			return
		}
	}
	r.violate("", "at rest nothing is left", "%v after the last call:\n%s", restLimit, left)
}

// leftover says what is not as it should be at rest.
func (r *round) leftover(c *testkit.Cluster) string {
	var left []string
	add := func(format string, args ...any) { left = append(left, fmt.Sprintf(format, args...)) }
	st, err := c.Status()
	if err != nil {
		return err.Error()
	}
	if len(st.Nodes) != c.Size()+1 {
		add("%d nodes are members, want %d", len(st.Nodes), c.Size()+1)
	}
	began := map[raysys.NodeID]time.Time{} // the present life of each node
	for _, n := range st.Nodes {
		began[n.Name] = time.Now().Add(-n.Up)
		if n.Error != "" || n.State != inspect.NodeActive {
			add("%s is %s %s", n.Name, n.State, n.Error)
		}
		if n.Queued+n.Inbound+n.Held > 0 || n.BusyCPU > 0 {
			add("%s has %d tasks that wait, %d of other nodes, %d futures that others hold, %v CPUs busy", n.Name, n.Queued, n.Inbound, n.Held, n.BusyCPU)
		}
		if n.Peers != c.Size() {
			add("%s sees %d other nodes, want %d", n.Name, n.Peers, c.Size())
		}
	}
	for i := range c.Size() + 1 {
		n := c.Node(i)
		if n == nil {
			add("%s is down", c.Name(i))
			continue
		}
		m, err := n.Memory(context.Background(), n.Name(), maxListed)
		if err != nil {
			add("%s: %v", n.Name(), err)
			continue
		}
		for _, h := range m.Nodes {
			// Replicas of what a dead node put stay for some minutes, and then as long as there is room.
			listed := len(h.Objects)
			kept := slices.DeleteFunc(h.Objects, func(o inspect.HeldObject) bool {
				return o.KeptFor != "" && o.Pins+o.Users+o.Refs == 0 && o.Since.Before(began[o.KeptFor])
			})
			orphans := listed - len(kept)
			if h.Error != "" || h.Count > orphans || h.Exported > 0 || orphans == 0 && (h.Store.Used > h.Store.Warm || h.Store.Disk > 0) {
				add("%s has %d objects, %d references that others hold, %+v: %+v %s", n.Name(), h.Count, h.Exported, h.Store, kept, h.Error)
			}
		}
	}
	keys, err := c.Store().Keys(context.Background(), "log/")
	if err != nil {
		add("list the logs: %v", err)
	}
	segments := map[string]int{}
	for _, k := range keys {
		segments[k[:strings.LastIndexByte(k, '/')]]++
	}
	for log, n := range segments {
		if n > maxSegments {
			add("%s has %d segments, want at most %d", log, n, maxSegments)
		}
	}
	slices.Sort(left)
	return strings.Join(left, "\n")
}

// maxListed is how many objects of a node are looked at.
const maxListed = 1000

// maxSegments is how many segments a log has at rest: 256, and those that come while it is compacted.
const maxSegments = 300
