package train

import (
	"context"
	"errors"
	"fmt"
	"log"
	"reflect"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/examples/gpu/cuda"
	"github.com/raysys/raysys/examples/gpu/mlp"
	"github.com/raysys/raysys/grains"
)

// turn is how long a call trains. What waits for the trainer, such as a drain, waits about so long.
const turn = 500 * time.Millisecond

// ErrDevice says that a device failed while it trained. A trainer that is called again begins with its last snapshot.
var ErrDevice = errors.New("the device failed")

// ErrUnusable says that the process which has the GPU cannot compute on it: there is no driver's library, or it does not show the GPU.
var ErrUnusable = errors.New("no GPU can be used")

var (
	_ = raysys.RegisterError("gpu.device", ErrDevice)
	_ = raysys.RegisterError("gpu.unusable", ErrUnusable)
)

// Job is what a trainer does.
type Job struct {
	Spec  mlp.Spec
	Every int  // steps from one snapshot to the next
	BLAS  bool // cuBLAS multiplies, where it is found
}

// Validate reports a Job that cannot be done.
func (j Job) Validate() error {
	if j.Every < 1 {
		return errors.Join(fmt.Errorf("Job.Every is %d: give the steps from one snapshot to the next, 1 or more", j.Every), j.Spec.Validate())
	}
	return j.Spec.Validate()
}

// Progress is how far a trainer is.
type Progress struct {
	From  int           // the step that this activation began with
	Step  int           // steps that were made
	Saved int           // the step of the last snapshot
	Loss  float64       // before the last step of this activation
	Each  time.Duration // that a step takes: the mean of the last call that made some
	Where string        // what does the arithmetic
}

// saved is what a trainer's State holds: the reference keeps the snapshot's copies.
type saved struct {
	Job      Job
	Step     int
	Snapshot raysys.Ref[mlp.Snapshot]
}

// Trainer is a model in training.
type Trainer struct {
	saved    grains.State[saved]
	model    *mlp.Model // nil before Begin
	progress Progress
	said     bool // that a snapshot has one copy
}

// handles are a kind's: trainers that hold a GPU, and those that do not.
type handles struct {
	kind  grains.Kind[Trainer]
	begin grains.Func[Trainer, Job, Progress]
	step  grains.Func[Trainer, int, Progress]
}

func define(name string, opts ...grains.Option) handles {
	k := grains.Define[Trainer](name, opts...)
	return handles{
		kind:  k,
		begin: grains.Method(k, "begin", (*Trainer).Begin).Idempotent(),
		step:  grains.Method(k, "step", (*Trainer).Step).Idempotent(),
	}
}

var (
	onDevice = define("gpu.trainer", grains.Holds(raysys.GPU(1)))
	onCPU    = define("gpu.trainer-cpu")
)

// OnActivate begins with what is stored, if anything is.
func (t *Trainer) OnActivate(ctx context.Context) error {
	if !t.saved.Exists() {
		return nil
	}
	from, err := t.saved.Value.Snapshot.Get(ctx)
	if err != nil {
		return fmt.Errorf("snapshot of step %d: %w", t.saved.Value.Step, err)
	}
	return t.load(ctx, from)
}

// OnDeactivate keeps what was trained since the last snapshot. A node that cannot keeps to that one.
func (t *Trainer) OnDeactivate(ctx context.Context) error {
	if t.model == nil {
		return nil
	}
	var err error
	if t.progress.Step > t.saved.Value.Step {
		err = t.save(ctx)
	}
	if t.model == nil { // the device has failed, and what it had is given back
		return err
	}
	return errors.Join(err, t.model.Close())
}

// Begin gives a trainer its job, or finds it at that.
func (t *Trainer) Begin(ctx context.Context, job Job) (Progress, error) {
	if t.saved.Exists() {
		if !reflect.DeepEqual(t.saved.Value.Job, job) {
			return Progress{}, fmt.Errorf("this trainer has another job, %+v: give a new one another name", t.saved.Value.Job)
		}
		return t.progress, t.gone(ctx)
	}
	if err := job.Validate(); err != nil {
		return Progress{}, err
	}
	t.saved.Value.Job = job
	if err := t.load(ctx, job.Spec.Start()); err != nil {
		return Progress{}, errors.Join(err, grains.Deactivate(ctx)) // with the GPU that it holds
	}
	if err := takePlace(ctx); err != nil {
		err = errors.Join(err, t.model.Close(), grains.Deactivate(ctx))
		t.model = nil
		return Progress{}, err
	}
	return t.progress, t.save(ctx)
}

// load begins on the device that the activation holds, or on the CPU.
func (t *Trainer) load(ctx context.Context, from mlp.Snapshot) error {
	if t.model != nil { // what it began with could not be stored
		if err := t.model.Close(); err != nil {
			return fmt.Errorf("%w: %w", ErrDevice, err)
		}
		t.model = nil
	}
	job := t.saved.Value.Job
	held := raysys.Devices(ctx)
	if len(held) == 0 {
		var err error
		if t.model, err = mlp.OnCPU(job.Spec, from); err != nil {
			return err
		}
	} else if m, err := mlp.OnDevice(job.Spec, from, held[0], job.BLAS); errors.Is(err, cuda.ErrNoDriver) || errors.Is(err, cuda.ErrNoDevice) {
		return fmt.Errorf("%w: %w", ErrUnusable, err) // the CPU must not train here, and keep a GPU from others
	} else if err != nil {
		return fmt.Errorf("%w: %w", ErrDevice, err)
	} else {
		t.model = m
	}
	t.progress = Progress{From: from.Step, Step: from.Step, Saved: from.Step, Where: t.model.Where()}
	return nil
}

// Step trains until that step has been made, or half a second is over, and at least one step.
func (t *Trainer) Step(ctx context.Context, to int) (Progress, error) { return t.train(ctx, to, turn) }

// train is Step with the time that it has.
func (t *Trainer) train(ctx context.Context, to int, turn time.Duration) (Progress, error) {
	if !t.saved.Exists() {
		return Progress{}, errors.New("this trainer has no job: call Begin first")
	}
	if err := t.gone(ctx); err != nil {
		return Progress{}, err
	}
	with, cancel := raysys.WithDevices(ctx)
	defer cancel()
	var busy time.Duration
	for begin, made := time.Now(), 1; t.progress.Step < to && with.Err() == nil && time.Since(begin) < turn; made++ {
		from := time.Now()
		loss, err := t.model.Step()
		if err != nil {
			return t.progress, t.broken(ctx, err)
		}
		busy += time.Since(from)
		t.progress.Step++
		t.progress.Loss, t.progress.Each = loss, busy/time.Duration(made)
		if t.progress.Step%t.saved.Value.Job.Every == 0 {
			if err := t.save(ctx); err != nil {
				return t.progress, err
			}
		}
	}
	if sick := context.Cause(with); errors.Is(sick, raysys.ErrDeviceSick) {
		return t.progress, t.leave(ctx, sick)
	}
	return t.progress, nil
}

// leave has the activation go from a device that is sick, with what the device can still say.
func (t *Trainer) leave(ctx context.Context, sick error) error {
	if t.progress.Step > t.saved.Value.Step {
		if err := t.save(ctx); t.model == nil {
			return err
		}
	}
	return t.broken(ctx, sick)
}

// save makes a snapshot, which two nodes have before the State says so.
func (t *Trainer) save(ctx context.Context) error {
	s, err := t.model.Snapshot()
	if err != nil {
		return t.broken(ctx, err)
	}
	copies := raysys.Put(ctx, s, raysys.Replicas(2))
	if _, err := copies.Get(ctx); errors.Is(err, raysys.ErrNoCapacity) {
		if !t.said {
			log.Printf("gpu: the snapshot of step %d has one copy, which goes with this node: %v", s.Step, err)
		}
		t.said = true
		copies = raysys.Put(ctx, s)
	} else if err != nil {
		return fmt.Errorf("snapshot of step %d: %w", s.Step, err)
	}
	before := t.saved.Value
	t.saved.Value.Step, t.saved.Value.Snapshot = s.Step, copies
	if err := t.saved.Write(ctx); err != nil {
		t.saved.Value = before // or OnDeactivate would take this step to be saved
		return fmt.Errorf("snapshot of step %d: %w", s.Step, err)
	}
	t.progress.Saved = s.Step
	return nil
}

// gone refuses a call that came before the activation went which broken has asked to go.
func (t *Trainer) gone(ctx context.Context) error {
	if t.model != nil {
		return nil
	}
	return errors.Join(fmt.Errorf("%w: the next activation begins with the last snapshot", ErrDevice), grains.Deactivate(ctx))
}

// broken has the activation go, with what it has made since the last snapshot.
func (t *Trainer) broken(ctx context.Context, err error) error {
	err = errors.Join(fmt.Errorf("%w: %w", ErrDevice, err), t.model.Close(), grains.Deactivate(ctx))
	t.model = nil
	return err
}
