package testkit_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// fourDevices gives each node that works four devices.
func fourDevices(i int, cfg *system.Config) {
	if i > 0 {
		cfg.Resources.CPU, cfg.DeviceSource = 16, newSource(i, 4)
	}
}

// burst submits twelve tasks of a second for a device each at one moment, from the nodes of a round in turn, in each of five rounds,
// where there are twelve devices. It returns how many of the 60 were given back by a node, and the longest wait.
func burst(t *testing.T, seed testkit.Option, from ...int) (back int, longest time.Duration) {
	table := raysys.NewTable()
	var o observed
	task := o.lastingTask(table).With(raysys.GPU(1))
	testkit.Virtual(t, func(k *testkit.Kit) {
		c := k.Cluster()
		c.Ready()
		o.start = time.Now()
		for round := range 5 {
			now := time.Since(o.start)
			var refs []raysys.Ref[int]
			for i := range 12 {
				refs = append(refs, task.Go(c.Node(from[i%len(from)]).Context(k.Context()), lasting{now, time.Second}))
			}
			for _, r := range refs {
				if _, err := r.Get(k.Context()); err != nil {
					t.Fatal(err)
				}
			}
			on := map[string]int{}
			for _, r := range o.list[round*12:] {
				on[r.node]++
				if wait := r.began - r.submitted; wait >= givenBack {
					back++
				}
				longest = max(longest, r.began-r.submitted)
			}
			for i := 1; i <= 3; i++ {
				if node := fmt.Sprint("n", i); on[node] != 4 {
					t.Errorf("round %d: %d tasks ran on node %s, which has 4 devices", round, on[node], node)
				}
			}
			k.Advance(time.Second)
		}
	}, seed, testkit.Table(table), testkit.Nodes(3), testkit.Each(fourDevices))
	return back, longest
}

// givenBack is after how long a task that a node gives back, since another has room, is placed again at the earliest: what begins before
// that was not given back.
const givenBack = 5 * time.Millisecond

// TestBurstOfDeviceTasks: of tasks that one node submits at one moment, as many as there are devices, each is sent to a free one: what
// was sent counts before the node that has it reports so. A report may cross with what was sent, so one may be given back: in the short form
// one of each round, before another task has ended.
func TestBurstOfDeviceTasks(t *testing.T) {
	for name, from := range map[string]int{"driver": 0, "worker": 1} {
		withSeeds(t, name, func(t *testing.T, seed testkit.Option) {
			if back, d := burst(t, seed, from); back > long.Form(5, 1) || d >= waitLimit() {
				t.Errorf("%d of 60 tasks were given back, and one waited for %v, while there was a device for each", back, d)
			}
		})
	}
}

// TestBurstsOfDeviceTasks: where several nodes submit them, none knows what the others send, and some tasks wait beside a device that is
// free elsewhere. They go there before another task has ended. TestNoTaskWaitsBesideRoom has the bound.
func TestBurstsOfDeviceTasks(t *testing.T) {
	withSeeds(t, "all", func(t *testing.T, seed testkit.Option) {
		if _, d := burst(t, seed, 0, 1, 2, 3); d >= time.Second {
			t.Errorf("a task waited for %v, until another ended, while there was a device for each", d)
		}
	})
}

// TestNoTaskWaitsBesideRoom: where four nodes submit bursts of tasks for other than one CPU at random times, none waits for longer than
// waitLimit while another node has what it asks for. At times there are more tasks than room. Each node has a label of its own.
func TestNoTaskWaitsBesideRoom(t *testing.T) {
	node := func(i int, cfg *system.Config) {
		if i > 0 {
			cfg.Resources = raysys.Resources{CPU: 8, Memory: 4 << 30, Custom: map[string]float64{"licence": 4}}
			cfg.DeviceSource = newSource(i, 4)
			cfg.Cluster.Labels = map[string]string{"host": fmt.Sprint("n", i), "zone": []string{"a", "a", "b"}[i-1]}
		}
	}
	for name, asks := range map[string][]raysys.Option{
		"a device":            {raysys.GPU(1)},
		"two CPUs":            {raysys.CPU(2)},
		"memory":              {raysys.CPU(0), raysys.Memory(1 << 30)},
		"a custom resource":   {raysys.Resource("licence", 1)},
		"CPUs and memory":     {raysys.CPU(2), raysys.Memory(1 << 29)},
		"a device, spread":    {raysys.GPU(1), raysys.Placement(raysys.Spread)},
		"a device in a zone":  {raysys.GPU(1), raysys.Label("zone", "a")},
		"two CPUs in a zone":  {raysys.CPU(2), raysys.Label("zone", "a")},
		"a quarter of a node": {raysys.CPU(2), raysys.GPU(1), raysys.Memory(1 << 30)},
	} {
		withSeeds(t, name, func(t *testing.T, seed testkit.Option) {
			table := raysys.NewTable()
			var o observed
			task := o.lastingTask(table).With(asks...)
			testkit.Virtual(t, func(k *testkit.Kit) {
				c, r := k.Cluster(), k.Rand()
				c.Ready()
				o.start = time.Now()
				var refs []raysys.Ref[int]
				for range long.Form(12, 20) {
					from := r.Perm(4)[:1+r.IntN(4)]
					now := time.Since(o.start)
					for i := range 1 + r.IntN(12) {
						lasts := 10*time.Millisecond + time.Duration(r.Int64N(int64(600*time.Millisecond)))
						refs = append(refs, task.Go(c.Node(from[i%len(from)]).Context(k.Context()), lasting{now, slower() * lasts}))
					}
					k.Advance(slower() * time.Duration(r.Int64N(int64(400*time.Millisecond))))
				}
				for _, ref := range refs {
					if _, err := ref.Get(k.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if in := slices.IndexFunc(o.list, func(r ran) bool { return r.node == "n3" }); strings.Contains(name, "zone") && in >= 0 {
					t.Errorf("a task that asks for zone a ran in zone b, on node %s", o.list[in].node)
				}
				if d, w, node := o.waitsBeside(4); d > waitLimit() {
					t.Errorf("a task, submitted at %v and begun at %v on node %s, waited for %v while node %s had room for it",
						w.submitted, w.began, w.node, d, node)
				}
			}, seed, testkit.Table(table), testkit.Nodes(3), testkit.Each(node))
		})
	}
}

// TestWaitingTasksMove: a task that waits for a device goes to another node as soon as one is free there, from the node that
// submitted it and from another; and it leaves a node whose devices are sick.
func TestWaitingTasksMove(t *testing.T) {
	for name, from := range map[string]int{"driver": 0, "worker": 1} {
		t.Run(name, func(t *testing.T) {
			table := raysys.NewTable()
			gates := map[string]chan struct{}{}
			var began chan string
			hold := tasks.DefineIn(table, "hold", func(ctx context.Context, _ int) (raysys.NodeID, error) {
				node := at(ctx)
				began <- node
				select {
				case <-gates[node]:
				case <-ctx.Done(): // the test has failed
				}
				return raysys.NodeID(node), nil
			}).With(raysys.GPU(1))
			where := tasks.DefineIn(table, "where", func(ctx context.Context, _ int) (string, error) {
				return fmt.Sprint(at(ctx), " ", len(raysys.Devices(ctx))), nil
			}).With(raysys.GPU(1), raysys.Deadline(time.Minute))
			sources := map[string]*source{}
			testkit.Virtual(t, func(k *testkit.Kit) {
				began = make(chan string, 10) // in the bubble, or virtual time stands still while the test waits for it
				c := k.Cluster()
				ctx := c.Node(from).Context(k.Context())
				for i := range 2 {
					gates[fmt.Sprint("n", i+1)] = make(chan struct{})
				}
				for range 2 {
					hold.Go(ctx, 0)
				}
				one, other := <-began, <-began
				if one == other {
					t.Fatal("both tasks have the device of node ", one)
				}
				waiter := where.Go(ctx, 0)
				k.Advance(3*time.Second + 37*time.Millisecond)
				stays := string(waitsAt(t, c))
				free := one
				if one == stays {
					free = other
				}
				freed := time.Now()
				close(gates[free])
				if got, err := waiter.Get(ctx); err != nil || got != free+" 1" {
					t.Errorf("a task that waited on node %s ran on %s (%v), while the device of node %s was free", stays, got, err, free)
				}
				if d := time.Since(freed); d > waitLimit() {
					t.Errorf("it waited for %v while a device was free on another node", d)
				}
				gates[free] = make(chan struct{})
				again := hold.Go(ctx, 0)
				if at := <-began; at != free {
					t.Fatalf("the device of node %s is free, and a task has that of %s", free, at)
				}
				waiter = where.Go(ctx, 0)
				k.Advance(time.Second)
				from, to := string(waitsAt(t, c)), one
				if from == one {
					to = other
				}
				sources[from].set("lost")
				k.Advance(time.Second)
				if at := waitsAt(t, c); string(at) != to {
					t.Errorf("the devices of node %s are sick, those of %s are held, and the task waits on %q", from, to, at)
				}
				close(gates[to])
				if got, err := waiter.Get(ctx); err != nil || got != to+" 1" {
					t.Errorf("a task that waited on node %s ran on %s (%v)", to, got, err)
				}
				close(gates[from])
				if _, err := again.Get(ctx); err != nil {
					t.Error(err)
				}
			}, testkit.Table(table), testkit.Nodes(2), testkit.Each(func(i int, cfg *system.Config) {
				if i > 0 {
					sources[fmt.Sprint("n", i)] = newSource(i, 1)
					cfg.Resources.CPU, cfg.DeviceSource = 8, sources[fmt.Sprint("n", i)]
				}
			}))
		})
	}
}

// TestPlainTasksBesideDeviceQueue: tasks of one CPU begin at once on a node that has CPUs free, whatever waits there for its device, of
// the node that submits them and of others.
func TestPlainTasksBesideDeviceQueue(t *testing.T) {
	for name, c := range map[string]struct{ queue, plain, tasks int }{
		"one driver":           {queue: 0, plain: 0, tasks: 15}, // eight CPUs on node 2, and seven beside the task with the device
		"the node's own queue": {queue: 1, plain: 0, tasks: 15},
		"of another node":      {queue: 0, plain: 2, tasks: 15},
		"beside own queue":     {queue: 1, plain: 2, tasks: 15},
		"two that queue":       {queue: 2, plain: 2, tasks: 15},
	} {
		t.Run(name, func(t *testing.T) {
			table := raysys.NewTable()
			var o observed
			plain := o.lastingTask(table)
			waits := plain.With(raysys.GPU(1))
			testkit.Virtual(t, func(k *testkit.Kit) {
				cl := k.Cluster()
				cl.Ready()
				o.start = time.Now()
				var refs []raysys.Ref[int]
				for range long.Form(30, 100) {
					refs = append(refs, waits.Go(cl.Node(c.queue).Context(k.Context()), lasting{For: time.Second}))
				}
				for range 3 {
					k.Advance(370 * time.Millisecond)
					now := time.Since(o.start)
					var list []raysys.Ref[int]
					for range c.tasks {
						list = append(list, plain.Go(cl.Node(c.plain).Context(k.Context()), lasting{now, 900 * time.Millisecond}))
					}
					for _, r := range list {
						if _, err := r.Get(k.Context()); err != nil {
							t.Fatal(err)
						}
					}
				}
				late := 0
				o.mu.Lock() // the tasks with the device go on
				for _, r := range o.list {
					if r.end-r.began < time.Second && r.began-r.submitted > waitLimit() { // another plain one takes 900 ms
						late++
					}
				}
				o.mu.Unlock()
				if late > 0 {
					t.Errorf("%d of %d tasks of one CPU waited for more than %v, where a CPU was free for each", late, 3*c.tasks, waitLimit())
				}
				for _, r := range refs {
					if _, err := r.Get(k.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}, testkit.Table(table), testkit.Nodes(2), testkit.Each(func(i int, cfg *system.Config) {
				if i > 0 {
					cfg.Resources.CPU = 8
				}
				if i == 1 {
					cfg.DeviceSource = newSource(i, 1)
				}
			}))
		})
	}
}

// TestPlainTasksBesideHeldCPUs: tasks of one CPU do not wait at a node where work has all CPUs that holds devices too, while another
// node runs such tasks; and where that work waits, they have its CPUs.
func TestPlainTasksBesideHeldCPUs(t *testing.T) {
	const holds = 10 * time.Second // for how long the work goes on that has the CPUs
	for name, c := range map[string]struct {
		waits bool
		most  time.Duration // in which eight tasks of 300 ms must have begun, in the long form
		nodes []string      // where they run
	}{
		"runs":  {false, 900 * time.Millisecond, []string{"n2"}},      // by two
		"waits": {true, 300 * time.Millisecond, []string{"n1", "n2"}}, // by four
	} {
		t.Run(name, func(t *testing.T) {
			table := raysys.NewTable()
			var o observed
			plain := o.lastingTask(table)
			holder := tasks.DefineIn(table, "holds", func(ctx context.Context, waits bool) (int, error) {
				if waits {
					return plain.With(raysys.CPU(0)).Go(ctx, lasting{For: holds}).Get(ctx)
				}
				<-time.After(holds)
				return 0, nil
			}).With(raysys.GPU(1))
			testkit.Virtual(t, func(k *testkit.Kit) {
				cl, ctx := k.Cluster(), k.Context()
				cl.Ready()
				o.start = time.Now()
				holders := []raysys.Ref[int]{holder.Go(ctx, c.waits), holder.Go(ctx, c.waits)}
				k.Advance(time.Second)
				now := time.Since(o.start)
				var refs []raysys.Ref[int]
				for range 8 {
					refs = append(refs, plain.Go(ctx, lasting{now, 300 * time.Millisecond}))
				}
				for _, r := range append(refs, holders...) {
					if _, err := r.Get(ctx); err != nil {
						t.Fatal(err)
					}
				}
				longest, nodes := time.Duration(0), []string(nil)
				for _, r := range o.list {
					if r.submitted == now {
						longest, nodes = max(longest, r.began-now), append(nodes, r.node)
					}
				}
				slices.Sort(nodes)
				if nodes = slices.Compact(nodes); !slices.Equal(nodes, c.nodes) {
					t.Errorf("tasks of one CPU ran on %v, want %v", nodes, c.nodes)
				}
				if most := long.Form(holds/2, c.most+50*time.Millisecond); longest > most { // long before the others end
					t.Errorf("a task of one CPU waited for %v, want %v at most", longest, most)
				}
			}, testkit.Table(table), testkit.Nodes(2), testkit.Each(func(i int, cfg *system.Config) {
				if i > 0 {
					cfg.Resources.CPU = 2
				}
				if i == 1 {
					cfg.DeviceSource = newSource(i, 2)
				}
			}))
		})
	}
}

// TestLabelledTasksKeepTheirTurn: tasks that ask for a label wait in the line of the node that has it, in the order in which they came, while another node has
// what they ask for beside that.
func TestLabelledTasksKeepTheirTurn(t *testing.T) {
	table := raysys.NewTable()
	var order []int
	task := tasks.DefineIn(table, "task", func(_ context.Context, n int) (int, error) {
		order = append(order, n) // one at a time has the device
		<-time.After(100 * time.Millisecond)
		return 0, nil
	}).With(raysys.GPU(1), raysys.Label("zone", "a"))
	testkit.Virtual(t, func(k *testkit.Kit) {
		k.Cluster().Ready()
		var refs []raysys.Ref[int]
		for n := range 20 {
			refs = append(refs, task.Go(k.Context(), n))
		}
		if _, err := raysys.GetAll(k.Context(), refs).Values(); err != nil {
			t.Fatal(err)
		}
		if !slices.IsSorted(order) {
			t.Errorf("tasks began in the order %v", order)
		}
	}, testkit.Table(table), testkit.Nodes(2), testkit.Each(func(i int, cfg *system.Config) {
		if i > 0 {
			cfg.DeviceSource, cfg.Cluster.Labels = newSource(i, 1), map[string]string{"zone": []string{"a", "b"}[i-1]}
		}
	}))
}
