package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var rich = raysys.Resources{CPU: 4, GPU: 2, Memory: 1000, Custom: map[string]float64{"licence": 3}}

// crowd keeps the tasks that enter it until a number of them is inside, once.
type crowd struct {
	mu        sync.Mutex
	now, most int
	full      chan struct{}
}

func (c *crowd) enter(number int) {
	c.mu.Lock()
	c.now++
	c.most = max(c.most, c.now)
	if c.now == number {
		select {
		case <-c.full:
		default:
			close(c.full)
		}
	}
	c.mu.Unlock()
	<-c.full
}

func (c *crowd) leave() {
	c.mu.Lock()
	c.now--
	c.mu.Unlock()
}

// What tasks ask for is never exceeded, and as many run at the same time as may.
func TestResourcesBoundConcurrency(t *testing.T) {
	for _, c := range []struct {
		ask  []raysys.Option
		most int
	}{
		{nil, 4},
		{[]raysys.Option{raysys.CPU(2)}, 2},
		{[]raysys.Option{raysys.CPU(4)}, 1},
		{[]raysys.Option{raysys.CPU(0.5)}, 8},
		{[]raysys.Option{raysys.CPU(0)}, 20},
		{[]raysys.Option{raysys.GPU(1)}, 2},
		{[]raysys.Option{raysys.GPU(0.5), raysys.CPU(0)}, 4},
		{[]raysys.Option{raysys.CPU(0), raysys.Resource("licence", 1)}, 3},
		{[]raysys.Option{raysys.CPU(0), raysys.Resource("licence", 2)}, 1},
		{[]raysys.Option{raysys.CPU(0), raysys.Memory(400)}, 2},
		{[]raysys.Option{raysys.CPU(0.1), raysys.Resource("licence", 0), raysys.Resource("unheard of", 0)}, 20},
	} {
		o := core.NewOptions(c.ask)
		t.Run(o.Resources.String(), func(t *testing.T) {
			table := raysys.NewTable()
			in := crowd{full: make(chan struct{})}
			run := tasks.DefineIn(table, "run", func(_ context.Context, x int) (int, error) {
				in.enter(c.most)
				defer in.leave()
				return x, nil
			})
			if c.ask != nil {
				run = run.With(c.ask...)
			}
			n, ctx := nodetest.Start(t, system.Config{Table: table, Resources: rich})
			refs := run.Map(ctx, make([]int, 10))
			for range 10 {
				refs = append(refs, run.Go(ctx, 0))
			}
			for _, r := range refs {
				nodetest.Want(t, ctx, r, 0)
			}
			if in.most != c.most {
				t.Errorf("%d ran at the same time, want %d", in.most, c.most)
			}
			nodetest.Eventually(t, "all CPUs are free again", func() bool { return engineOf(n).FreeCPU() == 4 })
		})
	}
}

// What can never run fails at once, also while others hold what there is.
func TestNoCapacity(t *testing.T) {
	table := raysys.NewTable()
	hold, began, open := blockers(table)
	defer close(open)
	_, ctx := nodetest.Start(t, system.Config{Table: table, Resources: rich})
	all := hold.With(raysys.CPU(4), raysys.GPU(2), raysys.Memory(1000), raysys.Resource("licence", 3))
	all.Go(ctx)
	nodetest.Arrive(t, began, "a task holds everything")
	for says, o := range map[string]raysys.Option{
		"CPU 5 of 4": raysys.CPU(5), "GPU 3, where 2 of 2 devices would do": raysys.GPU(3), "Memory 1001 B of 1000 B": raysys.Memory(1001),
		"licence 4 of 3": raysys.Resource("licence", 4), "unheard of 1 of 0": raysys.Resource("unheard of", 1),
	} {
		r := hold.With(o).Go(ctx)
		if s := raysys.PhaseOf(r); s != raysys.PhaseFailed {
			t.Errorf("%s: %v right after Go, want failed", says, s)
		}
		if _, err := r.Get(ctx); !errors.Is(err, raysys.ErrNoCapacity) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "hold") {
			t.Errorf("%v; want ErrNoCapacity that says %q", err, says)
		}
	}
	again := all.Go(ctx)
	if s := raysys.PhaseOf(again); s != raysys.PhasePending {
		_, err := again.Get(ctx)
		t.Errorf("a request for everything while it is held: %v (%v), want pending", s, err)
	}
}

// A process sees one instance of a divided device, whose name matters only to who asks for instances.
func TestDeviceEnvOfInstances(t *testing.T) {
	table := raysys.NewTable()
	held := tasks.Define0In(table, "held", func(ctx context.Context) (string, error) {
		return fmt.Sprint(raysys.Devices(ctx), raysys.DeviceEnv(ctx)), nil
	})
	const model = "NVIDIA A100-SXM4-40GB MIG 3g.20gb"
	_, ctx := nodetest.Start(t, system.Config{Table: table, Resources: raysys.Resources{CPU: 1}, Devices: []raysys.Device{
		{UUID: "MIG-a", Model: model}, {UUID: "MIG-b", Model: model}, {UUID: "GPU-c", Model: "NVIDIA H100 80GB HBM3"},
	}})
	nodetest.Want(t, ctx, held.With(raysys.GPU(2), raysys.GPUModel("A100 MIG")).Go(ctx), "[MIG-a MIG-b] [CUDA_VISIBLE_DEVICES=MIG-a]")
	nodetest.Want(t, ctx, held.With(raysys.GPU(1), raysys.GPUModel("H100")).Go(ctx), "[GPU-c] [CUDA_VISIBLE_DEVICES=GPU-c]")
	if _, err := held.With(raysys.GPU(1), raysys.GPUModel("A100")).Go(ctx).Get(ctx); !errors.Is(err, raysys.ErrNoCapacity) {
		t.Errorf("a whole A100, of which there are instances only: %v, want ErrNoCapacity", err)
	}
}

// A task sees the devices that it holds, and no other; a share shares one device, and the model chooses. What a task that ran
// in its place held is not seen by the next.
func TestDevices(t *testing.T) {
	table := raysys.NewTable()
	began, open := make(chan []string, 10), make(chan struct{})
	plain := tasks.Define0In(table, "plain", func(ctx context.Context) ([]string, error) { return raysys.Devices(ctx), nil })
	hold := tasks.Define0In(table, "hold", func(ctx context.Context) ([]string, error) {
		mine := append(raysys.Devices(ctx), raysys.DeviceEnv(ctx)...)
		child, err := plain.Go(ctx).Get(ctx) // in place, on the same CPU
		if err != nil || len(child) > 0 {
			return nil, fmt.Errorf("the child sees %v, %w", child, err)
		}
		began <- mine
		select {
		case <-open:
			return mine, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	cfg := system.Config{Table: table, Resources: raysys.Resources{CPU: 8}, Devices: []raysys.Device{
		{UUID: "GPU-a", Model: "A100", Memory: 40 << 30}, {UUID: "GPU-b", Model: "H100", Memory: 80 << 30}, {UUID: "GPU-c", Model: "H100", Memory: 80 << 30},
	}}
	node, ctx := nodetest.Start(t, cfg)
	if got := node.Resources().GPU; got != 3 {
		t.Errorf("the node offers %v devices, and has 3", got)
	}
	var refs []raysys.Ref[[]string]
	for _, c := range []struct {
		opts []raysys.Option
		want string
	}{
		{[]raysys.Option{raysys.GPU(0.5), raysys.GPUMemory(41 << 30)}, "[GPU-b CUDA_VISIBLE_DEVICES=GPU-b]"},
		{[]raysys.Option{raysys.GPU(0.5)}, "[GPU-b CUDA_VISIBLE_DEVICES=GPU-b]"},
		{[]raysys.Option{raysys.GPU(2)}, "[GPU-a GPU-c CUDA_VISIBLE_DEVICES=GPU-a,GPU-c]"},
		{nil, "[CUDA_VISIBLE_DEVICES=]"},
	} {
		refs = append(refs, hold.With(c.opts...).Go(ctx))
		if got := fmt.Sprint(<-began); got != c.want {
			t.Errorf("a task holds %v, want %v", got, c.want)
		}
	}
	// All H100 are held in part or as a whole: this one waits until both tasks that share one have returned.
	wait := hold.With(raysys.GPU(1), raysys.GPUModel("H100"))
	refs = append(refs, wait.Go(ctx))
	close(open)
	for _, r := range refs {
		if _, err := nodetest.Get(t, ctx, r); err != nil {
			t.Error(err)
		}
	}
	for says, o := range map[string][]raysys.Option{
		`GPU 3, where 2 of 3 devices would do (GPUModel "H100")`:   {raysys.GPU(3), raysys.GPUModel("H100")},
		"GPU 0.5, where 0 of 3 devices would do (GPUMemory 1 TiB)": {raysys.GPU(0.5), raysys.GPUMemory(1 << 40)},
	} {
		if _, err := nodetest.Get(t, ctx, hold.With(o...).Go(ctx)); !errors.Is(err, raysys.ErrNoCapacity) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want ErrNoCapacity that says %q", err, says)
		}
	}
	if raysys.Devices(context.Background()) != nil {
		t.Error("devices without a runtime")
	}
}

func TestBadOptions(t *testing.T) {
	table := raysys.NewTable()
	one := tasks.Define0In(table, "one", func(context.Context) (int, error) { return 1, nil })
	_, ctx := nodetest.Start(t, system.Config{Table: table, Resources: rich})
	for name, o := range map[string]raysys.Option{
		"negative CPU": raysys.CPU(-1), "NaN": raysys.CPU(math.NaN()), "infinite": raysys.GPU(math.Inf(1)),
		"negative GPU": raysys.GPU(-0.5), "negative memory": raysys.Memory(-1), "negative custom": raysys.Resource("licence", -1),
		"too fine": raysys.CPU(0.0001), "between thousandths": raysys.CPU(1.0005), "nearly a device": raysys.GPU(0.9996), "absurd": raysys.CPU(1e300), "absurd GPU": raysys.GPU(1e300), "one device and a half": raysys.GPU(1.5), "model alone": raysys.GPUModel("H100"), "memory alone": raysys.GPUMemory(1), "negative GPU memory": raysys.GPUMemory(-1), "nameless": raysys.Resource("", 1), "nil": nil, "retries": raysys.Retries(-1),
		"RetryIf(nil)": raysys.RetryIf(nil), "backoff": raysys.Backoff(2, 1), "negative backoff": raysys.Backoff(-1, 1),
		"deadline": raysys.Deadline(0), "past deadline": raysys.Deadline(-1),
	} {
		for form, r := range map[string]raysys.Ref[int]{"Go": one.With(o).Go(ctx), "second": one.With(raysys.CPU(1), o).Go(ctx)} {
			if _, err := nodetest.Get(t, ctx, r); !errors.Is(err, raysys.ErrBadOption) || !strings.Contains(err.Error(), "task one") {
				t.Errorf("%s, %s: %v; want ErrBadOption", name, form, err)
			}
		}
	}
	nodetest.Want(t, ctx, one.With().Go(ctx), 1)
	if _, err := system.New(system.Config{Table: raysys.NewTable(), Resources: raysys.Resources{CPU: -1}}); !errors.Is(err, raysys.ErrBadOption) {
		t.Errorf("a node of -1 CPUs: %v; want ErrBadOption", err)
	}
}
