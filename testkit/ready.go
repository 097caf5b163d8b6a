package testkit

import (
	"fmt"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
)

// joinLimit bounds a start, and what a cluster takes to be whole, in virtual time where the test is.
const joinLimit = 30 * time.Second

// statusLimit is how long a node that is asked for its status may be silent.
const statusLimit = 5 * time.Second

// awaitReady waits until every one of these nodes is there in the view of each node asked, and each shard has a
// leader among them.
func awaitReady(t testing.TB, running func() []raysys.NodeID, ask func() (inspect.Status, error)) {
	t.Helper()
	deadline := time.NewTimer(joinLimit)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		st, err := ask()
		why := missing(st, err, running())
		if why == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("testkit: the cluster is not whole after %v: %s", joinLimit, why)
		}
	}
}

func missing(st inspect.Status, err error, running []raysys.NodeID) string {
	if err != nil {
		return err.Error()
	}
	why := map[raysys.NodeID]string{}
	for _, n := range st.Nodes {
		switch {
		case n.Error != "":
			why[n.Name] = n.Error
		case n.State != "active":
			why[n.Name] = "it is " + n.State
		default:
			why[n.Name] = ""
		}
	}
	for _, name := range running {
		if w, there := why[name]; !there {
			return fmt.Sprintf("node %s has not joined", name)
		} else if w != "" {
			return fmt.Sprintf("node %s: %s", name, w)
		}
	}
	for _, s := range st.Shards {
		if w, there := why[s.Node]; !there || w != "" {
			return fmt.Sprintf("shard %d is led by %q", s.Shard, s.Node)
		}
	}
	return ""
}
