package testkit_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// statelessDevice is a stateless kind whose workers hold a device.
type statelessDevice struct{}

// TestStatelessHoldsElsewhere: a call of a worker's own goes to another node where that can have what a stateless kind holds, and this
// node cannot; with a free worker here it stays.
func TestStatelessHoldsElsewhere(t *testing.T) {
	table := raysys.NewTable()
	kind := grains.DefineIn[statelessDevice](table, "stateless.device", grains.StatelessWorker(0), grains.Holds(raysys.GPU(1)))
	began := make(chan raysys.NodeID, 10)
	var gate chan struct{}
	work := grains.Method(kind, "work", func(_ *statelessDevice, ctx context.Context, waits bool) (int, error) {
		began <- system.NodeOf(ctx).Name()
		if !waits {
			return 0, nil
		}
		select {
		case <-gate:
			return 0, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, c := k.T(), k.Cluster()
		gate = make(chan struct{})
		own := c.Node(1).Context(k.Context())
		next := func() raysys.NodeID {
			k.Advance(waitLimit())
			select {
			case at := <-began:
				return at
			default:
				return "none yet"
			}
		}
		if _, err := work.Call(own, kind.Get("x"), false).Get(own); err != nil {
			t.Fatal(err)
		}
		first := next()
		a := work.Call(own, kind.Get("x"), true)
		if at := next(); first != "n1" || at != "n1" {
			t.Errorf("two calls, one after the other, ran on %s and %s; want n1, whose own they are", first, at)
		}
		b := work.Call(own, kind.Get("x"), true)
		if at := next(); at != "n2" {
			t.Errorf("a call beside one that has the device of n1 runs on %s, want n2", at)
		}
		d := work.Call(own, kind.Get("x"), true)
		if at := next(); at != "none yet" {
			t.Errorf("a call runs on %s, where both devices are held", at)
		}
		close(gate)
		if _, err := raysys.GetAll(k.Context(), []raysys.Ref[int]{a, b, d}).Values(); err != nil {
			t.Error(err)
		}
	}, testkit.Table(table), testkit.Nodes(2), testkit.Each(func(i int, cfg *system.Config) {
		if i > 0 {
			cfg.Devices = []raysys.Device{{UUID: fmt.Sprint("GPU-", i), Model: "H100", Memory: 80 << 30}}
		}
	}))
}
