package gputest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/examples/gpu/mlp"
	"github.com/raysys/raysys/examples/gpu/train"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/placement/devices"
	"github.com/raysys/raysys/testkit"
)

// processes are n nodes, all with the one GPU.
func processes(t *testing.T, n int, d devices.Device) *testkit.Procs {
	t.Helper()
	return testkit.Processes(t, n, testkit.CPU(1), testkit.Env(on(d)...))
}

// reach trains until so many steps are made, on that GPU.
func reach(t *testing.T, ctx context.Context, d devices.Device, name string, job train.Job, steps int) train.Progress {
	t.Helper()
	p, err := train.Run(ctx, name, job, steps, func(train.Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(p.Where, d.UUID) {
		t.Fatalf("%+v is not on %s", p, d.UUID)
	}
	return p
}

// TestTrains: the loss on the device is the CPU's; a trainer whose node is killed goes on from its last snapshot, on the other node.
func TestTrains(t *testing.T) {
	d := gpu(t)
	k := processes(t, 2, d)
	job := train.Job{Spec: small(), Every: 10, BLAS: true}
	p := reach(t, k.Context(), d, "killed", job, 27)
	sameLoss(t, job.Spec, 27, p.Loss)
	for i := 1; p.From == 0; i++ {
		if i > k.Size() {
			t.Fatalf("each node was killed once, and the trainer is %+v: it has not begun anew", p)
		}
		steps, killed := p.Step, time.Now()
		k.Proc(i).Kill()
		p = reach(t, k.Context(), d, "killed", job, steps+10)
		if p.From > 0 {
			row("its node is killed: until it is 10 steps further", "%v, from the snapshot of step %d of %d", time.Since(killed).Round(time.Millisecond), p.From, steps)
		}
		if p.From > 0 && p.From < steps-steps%job.Every {
			t.Errorf("it went on from step %d, and step %d has a snapshot", p.From, steps-steps%job.Every)
		}
		k.Proc(i).Restart()
		k.Ready()
		p = reach(t, k.Context(), d, "killed", job, p.Step+job.Every) // a snapshot of a time with one node has one copy, which the next kill takes
	}
	sameLoss(t, job.Spec, p.Step, p.Loss)

	for _, blas := range []bool{true, false} {
		job := train.Job{Spec: large(), Every: 1000, BLAS: blas}
		steps := 200
		if standIn {
			steps = 20
		}
		p := reach(t, k.Context(), d, fmt.Sprint("large ", blas), job, steps)
		row(fmt.Sprintf("`examples/gpu`, sizes %v, batch %d", job.Spec.Sizes, job.Spec.Batch), "%s a step, %s", ms(p.Each), p.Where)
	}
}

// half is a grain that trains on half of a device.
type half struct{ model *mlp.Model }

// made is what half a device has made.
type made struct {
	Device string
	Loss   float64
	Each   time.Duration
}

var (
	halves    = grains.Define[half]("gputest.half", grains.Holds(raysys.GPU(0.5)))
	trainHalf = grains.Method(halves, "train", (*half).Train)
)

// Train makes so many steps.
func (h *half) Train(ctx context.Context, steps int) (m made, err error) {
	m.Device = raysys.Devices(ctx)[0]
	if h.model == nil {
		if h.model, err = mlp.OnDevice(large(), large().Start(), m.Device, true); err != nil {
			return m, err
		}
	}
	begun := time.Now()
	for range steps {
		if m.Loss, err = h.model.Step(); err != nil {
			return m, err
		}
	}
	m.Each = time.Since(begun) / time.Duration(steps)
	return m, nil
}

// OnDeactivate gives the memory back.
func (h *half) OnDeactivate(context.Context) error {
	if h.model == nil {
		return nil
	}
	return h.model.Close()
}

// TestHalves: two grains have half of the device each, compute on it at the same time, and what they compute is right.
func TestHalves(t *testing.T) {
	d := gpu(t)
	k := processes(t, 1, d)
	ctx := k.Context()
	call := func(name string, steps int) raysys.Ref[made] { return trainHalf.Call(ctx, halves.Get(name), steps) }
	get := func(r raysys.Ref[made]) made {
		t.Helper()
		m, err := r.Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if m.Device != d.UUID {
			t.Errorf("it holds %s, not half of %s", m.Device, d.UUID)
		}
		return m
	}
	const first = 2 // of which the CPU needs some seconds each
	for _, name := range []string{"a", "b"} {
		sameLoss(t, large(), first, get(call(name, first)).Loss)
	}
	steps := 200
	if standIn {
		steps = 20
	}
	alone := get(call("a", steps))
	a, b := call("a", steps), call("b", steps)
	row("half a device, alone and beside the other half", "%s, %s and %s a step", ms(alone.Each), ms(get(a).Each), ms(get(b).Each))
}
