package train

import (
	"bytes"
	"context"
	"errors"
	"log"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/examples/gpu/cudatest"
	"github.com/raysys/raysys/examples/gpu/mlp"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

var job = Job{Spec: mlp.Spec{Sizes: []int{6, 9, 3}, Batch: 12, Batches: 3, Rate: 0.01, Seed: 1}, Every: 10}

// lossOf is the loss before the last of so many steps, of a model that nothing happens to.
func lossOf(t *testing.T, steps int) (loss float64) {
	t.Helper()
	m, err := mlp.OnCPU(job.Spec, job.Spec.Start())
	for i := 0; i < steps && err == nil; i++ {
		loss, err = m.Step()
	}
	if err != nil {
		t.Fatal(err)
	}
	return loss
}

// must is the progress of a call.
func must(t *testing.T) func(p Progress, err error) Progress {
	return func(p Progress, err error) Progress {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

// reach calls until a step has been made, and returns the progress of the last call: on a slow machine one call is not enough.
func reach(t *testing.T, ctx context.Context, h handles, to int) (p Progress) {
	t.Helper()
	for p.Step < to {
		p = must(t)(h.step.Call(ctx, h.kind.Get("a"), to).Get(ctx))
	}
	return p
}

// captured is what the log has while f runs.
func captured(f func()) string {
	var b bytes.Buffer
	log.SetOutput(&b)
	defer log.SetOutput(os.Stderr)
	f()
	return b.String()
}

// TestNoDevice: where no node has a GPU the CPU trains, one line says so, and a job that cannot be done is refused.
func TestNoDevice(t *testing.T) {
	k := testkit.New(t)
	var p Progress
	said := captured(func() {
		var err error
		if p, err = Run(k.Context(), "a", job, 25, func(Progress) {}); err != nil {
			t.Fatal(err)
		}
	})
	if p.Step != 25 || p.Saved != 20 || p.Where != "CPU" || math.Abs(p.Loss-lossOf(t, 25)) > 1e-6 {
		t.Errorf("got %+v, want 25 steps, of which 20 are saved, on the CPU, with the loss %g", p, lossOf(t, 25))
	}
	if n := strings.Count(said, "no GPU is used, the CPU trains"); n != 1 {
		t.Errorf("%d lines say that the CPU trains:\n%s", n, said)
	}
	ctx := k.Context()
	other := job
	other.Every = 11
	if _, err := Run(ctx, "a", other, 30, nil); err == nil || !strings.Contains(err.Error(), "this trainer has another job") {
		t.Errorf("another job of the same name: %v", err)
	}
	if _, err := Run(ctx, "b", Job{}, 30, nil); err == nil || !strings.Contains(err.Error(), "Every is 0") {
		t.Errorf("a job of nothing: %v", err)
	}
	if _, err := onCPU.step.Call(ctx, onCPU.kind.Get("c"), 3).Get(ctx); err == nil || !strings.Contains(err.Error(), "call Begin first") {
		t.Errorf("a step without a job: %v", err)
	}
}

// TestTurnsEnd: a call that would train for hours returns with what it has made, long before the deadline of a call.
func TestTurnsEnd(t *testing.T) {
	k := testkit.New(t)
	ctx, g := k.Context(), onCPU.kind.Get("a")
	endless := job
	endless.Every = math.MaxInt
	must(t)(onCPU.begin.Call(ctx, g, endless).Get(ctx))
	if p := must(t)(onCPU.step.Call(ctx, g, math.MaxInt).Get(ctx)); p.Step < 1 || p.Saved != 0 {
		t.Errorf("got %+v", p)
	}
}

// begun gets a value when a call of trainForHours or trainATurn has begun to train, and ended what it has made.
var begun, ended = make(chan struct{}, 1), make(chan Progress, 1)

// training is Step that tells, with the time that it has.
func training(name string, turn time.Duration) grains.Func[Trainer, int, Progress] {
	return grains.Method(onCPU.kind, name, func(t *Trainer, ctx context.Context, to int) (Progress, error) {
		begun <- struct{}{}
		p, err := t.train(ctx, to, turn)
		ended <- p
		return p, err
	})
}

var trainForHours, trainATurn = training("train-for-hours", 10*time.Hour), training("train", turn)

// TestCancelled: a cancellation ends a turn that trains, and no step of it is lost.
func TestCancelled(t *testing.T) {
	long.Only(t)
	k := testkit.New(t)
	ctx, g := k.Context(), onCPU.kind.Get("a")
	endless := job
	endless.Every = math.MaxInt // a snapshot would end with the call, too
	must(t)(onCPU.begin.Call(ctx, g, endless).Get(ctx))
	with, cancel := context.WithCancel(ctx)
	defer cancel()
	forHours := trainForHours.Call(with, g, math.MaxInt)
	<-begun
	cancel()
	if p, err := forHours.Get(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that was cancelled while it trained: %+v, %v", p, err)
	}
	made := <-ended
	if p := reach(t, ctx, onCPU, made.Step+1); p.Step != made.Step+1 || p.From != 0 {
		t.Errorf("after %d steps and a cancellation: %+v", made.Step, p)
	}
}

// onTestGPU has each worker offer the test library's first device.
func onTestGPU() testkit.Option {
	return testkit.Each(func(i int, cfg *system.Config) {
		if i > 0 {
			cfg.Devices = []raysys.Device{{UUID: cudatest.UUID, Model: "Test GPU"}}
		}
	})
}

// TestDevice: a trainer computes on the device that it holds.
func TestDevice(t *testing.T) {
	fake := cudatest.Open(t)
	if fake == nil {
		return
	}
	k := testkit.New(t, testkit.Nodes(1), onTestGPU())
	withBLAS := job
	withBLAS.BLAS = true
	for name, j := range map[string]Job{"our kernel": job, "cuBLAS": withBLAS} {
		p, err := Run(k.Context(), name, j, 25, func(Progress) {})
		if err != nil || !strings.Contains(p.Where, cudatest.UUID) || !strings.HasSuffix(p.Where, name) || math.Abs(p.Loss-lossOf(t, 25)) > 1e-3 {
			t.Errorf("got %+v, %v, want the loss %g by %s", p, err, lossOf(t, 25), name)
		}
	}
}

// TestDeviceFails: after an error of the device the trainer begins again with its last snapshot.
func TestDeviceFails(t *testing.T) {
	long.Only(t)
	fake := cudatest.Open(t)
	if fake == nil {
		return
	}
	k := testkit.New(t, testkit.Nodes(1), onTestGPU())
	ctx, g := k.Context(), onDevice.kind.Get("a")
	must(t)(onDevice.begin.Call(ctx, g, job).Get(ctx))
	reach(t, ctx, onDevice, 27)
	fake.Fail(1, 700)
	if p, err := onDevice.step.Call(ctx, g, 40).Get(ctx); !errors.Is(err, ErrDevice) {
		t.Errorf("a step on a device that fails: %+v, %v", p, err)
	}
	fake.Fail(100, 700) // in its turn, which Run repeats
	p := must(t)(Run(ctx, "a", job, 40, func(Progress) {}))
	if p.From < 20 || p.Step != 40 || math.Abs(p.Loss-lossOf(t, 40)) > 1e-3 {
		t.Errorf("after failures of the device: %+v, want to go on from step 20 or later, to the loss %g", p, lossOf(t, 40))
	}
}

// afterFailure calls a method of a trainer whose device has failed in the same turn: a call that comes before the activation has gone.
func afterFailure[A any](name string, method func(*Trainer, context.Context, A) (Progress, error)) grains.Func[Trainer, A, Progress] {
	return grains.Method(onCPU.kind, name, func(t *Trainer, ctx context.Context, arg A) (Progress, error) {
		_ = t.broken(ctx, errors.New("a device fails"))
		return method(t, ctx, arg)
	})
}

var (
	lateStep  = afterFailure("step-after-failure", (*Trainer).Step)
	lateBegin = afterFailure("begin-after-failure", (*Trainer).Begin)
)

// TestCallAfterFailure: a call that finds an activation whose device has failed is told so, and may be repeated: the next activation
// goes on from the last snapshot.
func TestCallAfterFailure(t *testing.T) {
	long.Only(t)
	ctx, g := testkit.New(t).Context(), onCPU.kind.Get("a")
	must(t)(onCPU.begin.Call(ctx, g, job).Get(ctx))
	reach(t, ctx, onCPU, 27)
	if p, err := lateStep.Call(ctx, g, 30).Get(ctx); !errors.Is(err, ErrDevice) {
		t.Errorf("a step: %+v, %v", p, err)
	}
	if p := reach(t, ctx, onCPU, 30); p.From != 20 {
		t.Errorf("after a failure in step 27 the trainer goes on from step %d, and had a snapshot of step 20", p.From)
	}
	if p, err := lateBegin.Call(ctx, g, job).Get(ctx); !errors.Is(err, ErrDevice) {
		t.Errorf("a further Begin: %+v, %v", p, err)
	}
}

// TestDeviceFailsAtTheEnd: an activation whose device fails while it makes its last snapshot ends, and says so.
func TestDeviceFailsAtTheEnd(t *testing.T) {
	fake := cudatest.Open(t)
	if fake == nil {
		return
	}
	m, err := mlp.OnDevice(job.Spec, job.Spec.Start(), cudatest.UUID, false)
	if err != nil {
		t.Fatal(err)
	}
	trainer := &Trainer{model: m, progress: Progress{Step: 1}}
	fake.Fail(1, 700) // and all that follows on that device
	if _, err := m.Step(); err == nil {
		t.Fatal("the device does not fail")
	}
	if err := trainer.OnDeactivate(t.Context()); !errors.Is(err, ErrDevice) || trainer.model != nil {
		t.Errorf("the end of an activation whose device fails: %v, with a model: %t", err, trainer.model != nil)
	}
}

// TestDrained: a node that leaves keeps all steps, those of the turn that trains as it is asked to leave, too.
func TestDrained(t *testing.T) {
	long.Only(t)
	k := testkit.New(t, testkit.Nodes(3))
	ctx, g := k.Context(), onCPU.kind.Get("a")
	endless := job
	endless.Every = math.MaxInt // the node makes the only snapshot
	must(t)(onCPU.begin.Call(ctx, g, endless).Get(ctx))
	reach(t, ctx, onCPU, 27)
	st, err := k.Cluster().Status()
	if err != nil {
		t.Fatal(err)
	}
	last := trainATurn.Call(ctx, g, math.MaxInt)
	<-begun
	for i := 1; i <= 3; i++ {
		for _, n := range st.Nodes {
			if n.Name == k.Cluster().Node(i).Name() && n.Grains["gpu.trainer-cpu"] > 0 {
				if err := k.Cluster().Node(i).Drain(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	made := must(t)(last.Get(ctx))
	if p := <-ended; p.Step != made.Step || p.Step < 28 {
		t.Errorf("the last turn made %+v, and its caller has %+v", p, made)
	}
	if p := reach(t, ctx, onCPU, made.Step+1); p.From != made.Step || p.Step != made.Step+1 {
		t.Errorf("after its node has left: %+v, want it to go on from step %d", p, made.Step)
	}
}

// TestUnusable: where the process that offers a GPU cannot compute on it the CPU trains, and the GPU is free for others.
func TestUnusable(t *testing.T) {
	long.Only(t)
	if cudatest.Open(t) == nil {
		return
	}
	k := testkit.New(t, testkit.Nodes(1), testkit.Each(func(i int, cfg *system.Config) {
		if i > 0 {
			cfg.Devices = []raysys.Device{{UUID: "MIG-another"}}
		}
	}))
	ctx := k.Context()
	for _, steps := range []int{5, 9} { // the second finds the trainer of the first
		var p Progress
		said := captured(func() { p = must(t)(Run(ctx, "a", job, steps, func(Progress) {})) })
		if p.Step != steps || p.Where != "CPU" || p.From != 0 || strings.Count(said, "no GPU is used, the CPU trains") != 1 {
			t.Errorf("got %+v, and it says %q", p, said)
		}
	}
	testkit.Eventually(t, 20*time.Second, "the GPU is free", func() bool {
		st, err := k.Cluster().Status()
		return err == nil && slices.ContainsFunc(st.Nodes, func(n inspect.NodeStatus) bool {
			return len(n.Devices) == 1 && n.Devices[0].Free == 1
		})
	})
}

// TestGPUGoes: a trainer that has begun on a GPU does not begin anew on the CPU when there is no GPU any more; another one does begin
// there, and stays when there is one.
func TestGPUGoes(t *testing.T) {
	long.Only(t)
	if cudatest.Open(t) == nil {
		return
	}
	k := testkit.New(t, testkit.Nodes(3), testkit.Each(func(i int, cfg *system.Config) {
		if i == 1 {
			cfg.Devices = []raysys.Device{{UUID: cudatest.UUID, Model: "Test GPU"}}
		}
	}))
	ctx := k.Context()
	if p := must(t)(Run(ctx, "a", job, 5, func(Progress) {})); p.Where == "CPU" {
		t.Fatalf("got %+v", p)
	}
	k.Cluster().Drain(1)
	if p, err := Run(ctx, "a", job, 9, func(Progress) {}); !errors.Is(err, ErrElsewhere) || !errors.Is(err, raysys.ErrNoCapacity) || !strings.Contains(err.Error(), "a has begun on a GPU") {
		t.Errorf("the GPU is gone: %+v, %v", p, err)
	}
	if p := must(t)(Run(ctx, "b", job, 5, func(Progress) {})); p.Where != "CPU" {
		t.Errorf("another trainer: %+v", p)
	}
	k.Cluster().Restart(1)
	var p Progress
	var err error
	testkit.Eventually(t, 20*time.Second, "the others know of the GPU", func() bool {
		p, err = Run(ctx, "a", job, 9, func(Progress) {})
		return !errors.Is(err, ErrElsewhere)
	})
	if err != nil || p.Where == "CPU" || p.From != 5 || p.Step != 9 || math.Abs(p.Loss-lossOf(t, 9)) > 1e-3 {
		t.Errorf("a GPU is there again: %+v, %v, want it to go on from step 5", p, err)
	}
	if p := must(t)(Run(ctx, "b", job, 9, func(Progress) {})); p.Where != "CPU" || p.From != 0 {
		t.Errorf("a GPU is there, and the trainer has begun on the CPU: %+v", p)
	}
}

// TestSaveFails: a snapshot that the State could not store does not count as one.
func TestSaveFails(t *testing.T) {
	k := testkit.New(t)
	m, err := mlp.OnCPU(job.Spec, job.Spec.Start())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.Step(); err != nil {
		t.Fatal(err)
	}
	trainer := &Trainer{model: m} // its State is no activation's: nothing can be written
	captured(func() { err = trainer.save(k.Context()) })
	if err == nil || trainer.saved.Value.Step != 0 || trainer.saved.Value.Snapshot.ID() != (raysys.Ref[mlp.Snapshot]{}).ID() || trainer.progress.Saved != 0 {
		t.Fatalf("save: %v; step %d counts as saved, and %d is told", err, trainer.saved.Value.Step, trainer.progress.Saved)
	}
}
