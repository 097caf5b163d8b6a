package testkit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// deviceProgram is a program whose grains and tasks hold a device each, on nodes with two.
type deviceProgram struct {
	kind   grains.Kind[deviceGrain]
	method grains.Func[deviceGrain, use, raysys.NodeID]
	task   tasks.Task[int, string]
	u      *usage
}

func newDeviceProgram(table *raysys.Table) *deviceProgram {
	p := &deviceProgram{kind: grains.DefineIn[deviceGrain](table, "device", grains.Holds(raysys.GPU(1)))}
	p.method = grains.Method(p.kind, "use", (*deviceGrain).Use).With(raysys.Deadline(10 * time.Minute))
	p.task = tasks.DefineIn(table, "task", func(ctx context.Context, _ int) (string, error) { return at(ctx), nil }).With(raysys.GPU(1))
	return p
}

// hold has grains hold a device each in a turn that lasts until the end of the test.
func (p *deviceProgram) hold(ctx context.Context, n int) (free func()) {
	for i := range n {
		key := fmt.Sprint("holder ", i)
		p.method.Call(ctx, p.kind.Get(key), use{Until: key})
	}
	for range n {
		<-p.u.began
	}
	return func() {
		for i := range n {
			p.u.free(fmt.Sprint("holder ", i))
		}
	}
}

// idle has a grain that holds a device, without a call.
func (p *deviceProgram) idle(t *testing.T, ctx context.Context, key string) raysys.NodeID {
	t.Helper()
	home, err := p.method.Call(ctx, p.kind.Get(key), use{}).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return home
}

func groupOf(ctx context.Context, s placement.GroupStrategy, n int) error {
	g, err := groups.Create(ctx, s, oneEach(n))
	if err == nil {
		if err = g.Wait(ctx); err == nil {
			err = g.Remove(ctx)
		}
	}
	return err
}

func oneEach(n int) (list []raysys.Resources) {
	for range n {
		list = append(list, raysys.Resources{GPU: 1})
	}
	return list
}

// TestIdleGrainElsewhereYields: work that waits at a node gets the device that an idle grain of another node holds, be it a task, a grain
// or a placement group.
func TestIdleGrainElsewhereYields(t *testing.T) {
	table := raysys.NewTable()
	p := newDeviceProgram(table)
	testkit.Virtual(t, func(k *testkit.Kit) {
		p.u = newUsage()
		usageNow = p.u
		ctx := k.Context()
		free := p.hold(ctx, 3) // of two nodes with two devices each
		for round := range 12 {
			idle := fmt.Sprint("idle ", round)
			home := p.idle(t, ctx, idle)
			k.Advance(10 * time.Second)
			began := time.Now()
			var what string
			var err error
			switch round % 4 {
			case 0:
				what = "a task"
				_, err = p.task.Go(ctx, 0).Get(ctx)
			case 1:
				what = "a grain"
				other := fmt.Sprint("other ", round)
				r := p.method.Call(ctx, p.kind.Get(other), use{Until: other})
				p.u.free(other)
				_, err = r.Get(ctx)
			case 2:
				what = "a group"
				err = groupOf(ctx, placement.Spread, 1)
			case 3:
				what = "a group on one node"
				err = groupOf(ctx, placement.StrictPack, 1)
			}
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if d := time.Since(began); d > yieldLimit() {
				t.Errorf("round %d: %s waited for %v for the device of a grain that is idle on %s", round, what, d, home)
			}
		}
		free()
	}, testkit.Table(table), testkit.Nodes(2), testkit.Each(withDevices))
}

// TestIdleGrainsYieldTogether: of the grains that are idle those go whose devices make room for a group that is to be on one node, or on
// different ones.
func TestIdleGrainsYieldTogether(t *testing.T) {
	table := raysys.NewTable()
	p := newDeviceProgram(table)
	for _, strategy := range placement.GroupStrategies {
		testkit.Virtual(t, func(k *testkit.Kit) {
			p.u = newUsage()
			usageNow = p.u
			ctx := k.Context()
			free := p.hold(ctx, 1)
			at := p.u.of("holder 0")[0].node
			homes := map[string]raysys.NodeID{}
			for i := range 3 {
				key := fmt.Sprint("idle ", i)
				homes[key] = p.idle(t, ctx, key)
			}
			k.Advance(10 * time.Second)
			began := time.Now()
			if err := groupOf(ctx, strategy, 2); err != nil {
				t.Errorf("%s: %v", strategy, err)
			}
			if d := time.Since(began); d > yieldLimit() {
				t.Errorf("%s: a group waited for %v for devices that idle grains hold", strategy, d)
			}
			left := activeOf(p.u, homes)
			if strategy == placement.StrictPack && (len(left) != 1 || homes[left[0]] != at) { // with others the nodes do not know of each other
				t.Errorf("%s: grains %q of %v are active, want the one on %s, beside the holder", strategy, left, homes, at)
			}
			free()
		}, testkit.Table(table), testkit.Nodes(2), testkit.Each(withDevices))
	}
}

// activeOf lists the grains of those that are active.
func activeOf(u *usage, of map[string]raysys.NodeID) (keys []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key := range of {
		if u.active[key] > 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

// TestBusyGrainStays: a grain that has calls all the time keeps its device where a group waits for one, and an idle one goes.
func TestBusyGrainStays(t *testing.T) {
	table := raysys.NewTable()
	p := newDeviceProgram(table)
	testkit.Virtual(t, func(k *testkit.Kit) {
		p.u = newUsage()
		usageNow = p.u
		ctx := k.Context()
		free := p.hold(ctx, 2)
		p.idle(t, ctx, "idle")
		p.idle(t, ctx, "busy")
		var calls []raysys.Ref[raysys.NodeID]
		step := func(n int) {
			for range n {
				calls = append(calls, p.method.Call(ctx, p.kind.Get("busy"), use{}))
				k.Advance(40 * time.Millisecond)
			}
		}
		step(25)
		starts := func() int {
			p.u.mu.Lock()
			defer p.u.mu.Unlock()
			return p.u.starts["busy"]
		}
		g, err := groups.Create(ctx, placement.Spread, oneEach(1))
		if err != nil {
			t.Fatal(err)
		}
		step(50)
		if err := g.Wait(ctx); err != nil {
			t.Error(err)
		}
		for _, r := range calls {
			if _, err := r.Get(ctx); err != nil {
				t.Error(err)
			}
		}
		if n := starts(); n != 1 {
			t.Errorf("a grain with a call each 40 ms was activated %d times", n)
		}
		free()
	}, testkit.Table(table), testkit.Nodes(2), testkit.Each(withDevices))
}
