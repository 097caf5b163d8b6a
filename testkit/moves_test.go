package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/placement/devices"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// use is one call of a device grain.
type use struct {
	Caller string
	Number int
	Until  string // "": the turn ends at once; else when free is called with it, and the grain goes then
}

// used is what ran.
type used struct {
	use
	key  string
	node raysys.NodeID
	at   time.Time
}

// usage notes what device grains do.
type usage struct {
	mu     sync.Mutex
	list   []used
	active map[string]int // activations of a key
	starts map[string]int // how often it was activated
	twice  string
	gates  map[string]chan struct{}
	began  chan string
}

func newUsage() *usage {
	return &usage{active: map[string]int{}, starts: map[string]int{}, gates: map[string]chan struct{}{}, began: make(chan string, 100)}
}

func (u *usage) gate(name string) chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.gates[name] == nil {
		u.gates[name] = make(chan struct{})
	}
	return u.gates[name]
}

func (u *usage) free(name string) { close(u.gate(name)) }

// of lists what ran on a grain.
func (u *usage) of(key string) (list []used) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, x := range u.list {
		if x.key == key {
			list = append(list, x)
		}
	}
	return list
}

// usageNow is that of the test that runs.
var usageNow *usage

type deviceGrain struct{ key string }

func (g *deviceGrain) enter(n int) {
	u := usageNow
	u.mu.Lock()
	defer u.mu.Unlock()
	u.starts[g.key] += max(n, 0)
	if u.active[g.key] += n; u.active[g.key] > 1 {
		u.twice = g.key
	}
}

func (g *deviceGrain) OnActivate(ctx context.Context) error {
	id, _ := grains.Self(ctx)
	g.key = id.Key
	g.enter(+1)
	return nil
}

func (g *deviceGrain) OnDeactivate(context.Context) error { g.enter(-1); return nil }

func (g *deviceGrain) Use(ctx context.Context, c use) (raysys.NodeID, error) {
	u, node := usageNow, raysys.NodeID(at(ctx))
	u.mu.Lock()
	u.list = append(u.list, used{c, g.key, node, time.Now()})
	u.mu.Unlock()
	if c.Until == "" {
		return node, nil
	}
	u.began <- g.key
	select {
	case <-u.gate(c.Until):
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	return node, grains.Deactivate(ctx)
}

// waitsAt is the node in whose line an activation waits.
func waitsAt(t *testing.T, c *testkit.Cluster) raysys.NodeID {
	t.Helper()
	st, err := c.Status()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range st.Nodes {
		for _, d := range n.Demand {
			if !d.Unplaced {
				return n.Name
			}
		}
	}
	return ""
}

// TestWaitingGrainMoves: a grain that waits for a device goes to another node as soon as one is free there, with the calls that wait
// for it, of its node and of others, each once, and those of its node in their order.
func TestWaitingGrainMoves(t *testing.T) {
	table := raysys.NewTable()
	kind := grains.DefineIn[deviceGrain](table, "device", grains.Holds(raysys.GPU(1)))
	method := grains.Method(kind, "use", (*deviceGrain).Use).With(raysys.Deadline(10 * time.Minute))
	testkit.Virtual(t, func(k *testkit.Kit) {
		u := newUsage()
		usageNow = u
		c, ctx := k.Cluster(), k.Context()
		for i := range 4 { // of two nodes with two devices each
			key := fmt.Sprint("holder ", i)
			method.Call(ctx, kind.Get(key), use{Until: key})
		}
		for range 4 {
			<-u.began
		}
		var calls []raysys.Ref[raysys.NodeID]
		for n := range 5 {
			for i := range 3 {
				calls = append(calls, method.Call(c.Node(i).Context(ctx), kind.Get("waiter"), use{Caller: fmt.Sprint(i), Number: n}))
			}
		}
		k.Advance(3*time.Second + 37*time.Millisecond) // beside the ticks
		from := waitsAt(t, c)
		var other used
		for i := range 4 {
			if list := u.of(fmt.Sprint("holder ", i)); list[0].node != from {
				other = list[0]
			}
		}
		if from == "" || other.node == "" || len(u.of("waiter")) != 0 {
			t.Fatalf("the grain waits on node %q, other holders are on %q, and it ran %v", from, other.node, u.of("waiter"))
		}
		freed := time.Now()
		u.free(other.key)
		for _, r := range calls {
			if at, err := r.Get(ctx); err != nil || at != other.node {
				t.Errorf("a call that waited ran on %s (%v), while a device of node %s was free", at, err, other.node)
			}
		}
		ran := u.of("waiter")
		next := map[string]int{}
		for _, x := range ran {
			if "n"+x.Caller != string(from) { // calls of other nodes are sent again one by one, and may overtake each other on a move
				continue
			}
			if x.Number != next[x.Caller] {
				t.Errorf("call %d of node %s ran, want %d", x.Number, x.Caller, next[x.Caller])
			}
			next[x.Caller]++
		}
		if len(ran) != len(calls) {
			t.Errorf("%d of %d calls ran", len(ran), len(calls))
		} else if d := ran[0].at.Sub(freed); d > waitLimit() {
			t.Errorf("the grain waited for %v while a device was free on another node", d)
		}
		if u.twice != "" {
			t.Errorf("grain %s was active twice", u.twice)
		}
		for i := range 4 {
			if key := fmt.Sprint("holder ", i); key != other.key {
				u.free(key)
			}
		}
	}, testkit.Table(table), testkit.Nodes(2), testkit.Each(withDevices))
}

// source is the devices of one node, which a test has fall sick.
type source struct {
	mu  sync.Mutex
	now devices.Inventory
	new chan struct{} // capacity 1; of Run, so that it is of the bubble of a test in virtual time
}

func newSource(node, n int) *source {
	s := &source{}
	for d := range n {
		s.now.Devices = append(s.now.Devices, devices.Device{UUID: fmt.Sprintf("GPU-%d-%d", node, d), Model: "H100", Memory: 80 << 30})
	}
	return s
}

func (s *source) Inventory() devices.Inventory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return devices.Inventory{Devices: slices.Clone(s.now.Devices)}
}

func (s *source) Run(ctx context.Context, changed func(devices.Inventory)) error {
	news := make(chan struct{}, 1)
	s.mu.Lock()
	s.new = news
	s.mu.Unlock()
	for {
		changed(s.Inventory())
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tell has Run look again.
func (s *source) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.new <- struct{}{}:
	default:
	}
}

// set has all devices be sick of cause; "": they are well.
func (s *source) set(cause string) {
	s.mu.Lock()
	for i := range s.now.Devices {
		s.now.Devices[i].Sick = cause
	}
	s.mu.Unlock()
	s.tell()
}

// TestWaitingGrainLeavesSickDevices: a grain that waits on a node whose devices fall sick goes to one whose devices are well, and
// waits there. Where none are well its calls fail and say so, and with WaitForResources they wait until some are.
func TestWaitingGrainLeavesSickDevices(t *testing.T) {
	table := raysys.NewTable()
	kind := grains.DefineIn[deviceGrain](table, "device", grains.Holds(raysys.GPU(1)))
	method := grains.Method(kind, "use", (*deviceGrain).Use).With(raysys.Deadline(10 * time.Minute))
	patient := grains.DefineIn[deviceGrain](table, "patient", grains.Holds(raysys.GPU(1), raysys.WaitForResources()))
	patientUse := grains.Method(patient, "use", (*deviceGrain).Use).With(raysys.Deadline(10 * time.Minute))
	sources := map[raysys.NodeID]*source{}
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
		from := waitsAt(t, c)
		to, stays := u.of("a")[0], u.of("b")[0]
		if to.node == from {
			to, stays = stays, to
		}
		sources[from].set("ECC errors")
		k.Advance(time.Second)
		if at := waitsAt(t, c); at != to.node {
			t.Errorf("the devices of node %s are sick, those of %s are held, and the grain waits on %q", from, to.node, at)
		}
		u.free(to.key)
		if at, err := waiter.Get(ctx); err != nil || at != to.node {
			t.Errorf("the grain ran on %s (%v), not where a device is well and free", at, err)
		}
		// The waiter is idle now and holds the device of to.
		sources[to.node].set("lost")
		k.Advance(time.Second)
		began := time.Now()
		if at, err := method.Call(ctx, kind.Get("late"), use{}).Get(ctx); !errors.Is(err, raysys.ErrNoCapacity) {
			t.Errorf("a grain for which no device is well ran on %q: %v", at, err)
		}
		if d := time.Since(began); d > 10*time.Second { // the call has ten minutes
			t.Errorf("it failed after %v, not at once", d)
		}
		waits := patientUse.Call(ctx, patient.Get("patient"), use{})
		k.Advance(time.Minute)
		if p := raysys.PhaseOf(waits); p != raysys.PhasePending {
			t.Errorf("with WaitForResources the call is %v", p)
		}
		sources[to.node].set("")
		if at, err := waits.Get(ctx); err != nil || at != to.node {
			t.Errorf("it ran on %s (%v) after the devices of %s are well again", at, err, to.node)
		}
		u.free(stays.key)
	}, testkit.Table(table), testkit.Nodes(2), testkit.Each(func(i int, cfg *system.Config) {
		if i == 0 {
			return
		}
		s := newSource(i, 1)
		sources[raysys.NodeID(fmt.Sprint("n", i))] = s
		cfg.Resources.CPU, cfg.DeviceSource = 8, s
	}))
}

// TestSmallGrainWaitsBesideGathering: where both nodes keep the devices that are free for a task that needs all, a grain that needs one
// waits on one of them, and does not go to and fro; its calls, of its node and of others, run in their turn.
func TestSmallGrainWaitsBesideGathering(t *testing.T) {
	table := raysys.NewTable()
	kind := grains.DefineIn[deviceGrain](table, "device", grains.Holds(raysys.GPU(1)))
	method := grains.Method(kind, "use", (*deviceGrain).Use).With(raysys.Deadline(10 * time.Minute))
	var o observed
	lasts := o.lastingTask(table)
	testkit.Virtual(t, func(k *testkit.Kit) {
		u := newUsage()
		usageNow = u
		c, ctx := k.Cluster(), k.Context()
		c.Ready()
		o.start = time.Now()
		var held []raysys.Ref[int]
		for i := range 2 {
			on := raysys.OnNode(raysys.NodeID(c.Name(i + 1)))
			held = append(held, lasts.With(raysys.GPU(3), on).Go(ctx, lasting{For: 5 * time.Second}))
			k.Advance(100 * time.Millisecond)
			held = append(held, lasts.With(raysys.GPU(8), on).Go(ctx, lasting{For: time.Second}))
		}
		k.Advance(300*time.Millisecond + 7*time.Millisecond)
		small := lasts.With(raysys.GPU(1)).Go(ctx, lasting{Submitted: time.Hour, For: time.Millisecond})
		var calls []raysys.Ref[raysys.NodeID]
		for i := range 3 {
			calls = append(calls, method.Call(c.Node(i).Context(ctx), kind.Get("small"), use{Caller: fmt.Sprint(i)}))
		}
		k.Advance(time.Second)
		first := waitsFor(t, c, 1)
		for range 20 {
			k.Advance(100 * time.Millisecond)
			if at := waitsFor(t, c, 1); !slices.Equal(at, first) || len(at) != 2 {
				t.Errorf("a grain and a task that wait for a device are on %v, and were on %v", at, first)
			}
		}
		for _, r := range calls {
			if _, err := r.Get(ctx); err != nil {
				t.Error(err)
			}
		}
		for _, r := range append(held, small) {
			if _, err := r.Get(ctx); err != nil {
				t.Error(err)
			}
		}
		if u.twice != "" || len(u.of("small")) != len(calls) {
			t.Errorf("%d of %d calls ran, and grain %q was active twice", len(u.of("small")), len(calls), u.twice)
		}
	}, testkit.Table(table), testkit.Nodes(2), testkit.Each(func(i int, cfg *system.Config) {
		if i > 0 {
			cfg.Resources.CPU, cfg.DeviceSource = 16, newSource(i, 8)
		}
	}))
}

// waitsFor lists the nodes on which work waits for so many devices, once for each piece of it.
func waitsFor(t *testing.T, c *testkit.Cluster, gpus float64) (at []raysys.NodeID) {
	t.Helper()
	st, err := c.Status()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range st.Nodes {
		for _, d := range n.Demand {
			for range d.Count {
				if d.Resources.GPU == gpus && !d.Unplaced {
					at = append(at, n.Name)
				}
			}
		}
	}
	return at
}
