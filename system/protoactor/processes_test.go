//go:build unix

package protoactor_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/cluster"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/raysys/raysys/system/protoactor"
	"github.com/raysys/raysys/testkit"
)

// TestProcesses: under load, with real processes on a real Consul, the process that hosts an actor gets SIGKILL, one is stopped for
// longer than its lease and goes on, and one leaves in good order. No two activations of an actor both store: each number that it
// was told to be stored comes once.
func TestProcesses(t *testing.T) {
	p := testkit.Processes(t, 3)
	c := protoactor.Cluster(p.Context())
	var mu sync.Mutex
	stored := map[string]bool{}
	count := func(c *cluster.Cluster, id string) error {
		v, err := c.Request(id, "counter", wrapperspb.String("x"), cluster.WithTimeout(patient), cluster.WithRetryCount(10))
		if err != nil {
			return err
		}
		n := v.(*wrapperspb.StringValue).Value
		if strings.HasPrefix(n, "error: ") {
			return nil // it was not stored, or nobody knows: it is not counted
		}
		mu.Lock()
		defer mu.Unlock()
		if stored[id+" "+n] {
			return fmt.Errorf("actor %s has stored %s twice", id, n)
		}
		stored[id+" "+n] = true
		return nil
	}
	hosting := func() *testkit.Proc {
		pid := c.Get("0", "counter")
		for i := range p.Size() {
			if proc := p.Proc(i + 1); proc.Runs() && strings.HasPrefix(pid.Address, fmt.Sprintf("p%d#", i+1)) {
				return proc
			}
		}
		t.Fatal("no process has", pid)
		return nil
	}
	for _, fault := range []func(*testkit.Proc){
		func(host *testkit.Proc) { host.Restart() },
		func(host *testkit.Proc) {
			host.Pause()
			defer host.Resume()
			if _, err := c.Request("0", "counter", wrapperspb.String("read"), cluster.WithTimeout(patient)); err != nil {
				t.Error(err)
			}
		},
		func(host *testkit.Proc) { host.Terminate() },
	} {
		end := load(t, []*cluster.Cluster{c}, count)
		fault(hosting())
		end()
	}
}
