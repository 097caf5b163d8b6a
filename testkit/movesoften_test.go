package testkit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// TestGrainMovesOften: a grain that waits for a device moves from line to line, since the devices of the node where it waits fall sick.
// However often it has moved its call goes with it, and begins soon where a device becomes free.
func TestGrainMovesOften(t *testing.T) {
	table := raysys.NewTable()
	kind := grains.DefineIn[deviceGrain](table, "device", grains.Holds(raysys.GPU(1)))
	method := grains.Method(kind, "use", (*deviceGrain).Use).With(raysys.Deadline(10 * time.Minute))
	sources := map[raysys.NodeID]*source{}
	for _, often := range []int{8, 24} { // 24 is more often than a call is sent in vain
		testkit.Virtual(t, func(k *testkit.Kit) {
			u := newUsage()
			usageNow = u
			c, ctx := k.Cluster(), k.Context()
			for _, key := range []string{"a", "b"} {
				method.Call(ctx, kind.Get(key), use{Until: key})
				<-u.began
			}
			waiter := method.Call(ctx, kind.Get("waiter"), use{})
			k.Advance(time.Second)
			at := waitsAt(t, c)
			for i := range often {
				sources[at].set("ECC errors")
				k.Advance(time.Second)
				to := waitsAt(t, c)
				if to == at || to == "" {
					t.Fatalf("move %d: the devices of node %s are sick, and the grain waits on %q", i, at, to)
				}
				sources[at].set("")
				k.Advance(time.Second)
				at = to
			}
			other := u.of("a")[0]
			if other.node == at {
				other = u.of("b")[0]
			}
			freed := time.Now()
			u.free(other.key)
			if _, err := waiter.Get(ctx); err != nil {
				t.Fatalf("after %d moves: %v", often, err)
			}
			if ran := u.of("waiter")[0]; ran.node != other.node || ran.at.Sub(freed) > waitLimit() {
				t.Errorf("after %d moves the grain ran on %s, %v after a device of %s was free", often, ran.node, ran.at.Sub(freed), other.node)
			}
			u.free(map[string]string{"a": "b", "b": "a"}[other.key])
		}, testkit.Table(table), testkit.Nodes(2), testkit.Each(func(i int, cfg *system.Config) {
			if i == 0 {
				return
			}
			s := newSource(i, 1)
			sources[raysys.NodeID(fmt.Sprint("n", i))] = s
			cfg.Resources.CPU, cfg.DeviceSource = 4, s
		}))
	}
}
