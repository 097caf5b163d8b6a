package grains_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

type trainer struct{ began []string }

// trainerEnds gets what a trainer's OnDeactivate has.
var trainerEnds = make(chan []string, 100)

func (g *trainer) OnActivate(ctx context.Context) error { g.began = raysys.Devices(ctx); return nil }

func (g *trainer) OnDeactivate(ctx context.Context) error {
	select {
	case trainerEnds <- raysys.Devices(ctx):
	default: // no test looks
	}
	return nil
}

func (g *trainer) Step(ctx context.Context) (string, error) {
	return fmt.Sprint(g.began, raysys.Devices(ctx)), nil
}

// TestHolds: an activation holds what its kind asks for from OnActivate to OnDeactivate. Others wait for it; when they do, an
// idle activation goes at once, unless its kind says Keep, and what waits goes on.
func TestHolds(t *testing.T) {
	for len(trainerEnds) > 0 { // of other tests, whose nodes are closed
		<-trainerEnds
	}
	table := raysys.NewTable()
	kind := grains.DefineIn[trainer](table, "trainer", grains.Holds(raysys.GPU(1), raysys.GPUModel("H100")))
	step := grains.Method0(kind, "step", (*trainer).Step)
	kept := grains.DefineIn[trainer](table, "kept", grains.Holds(raysys.GPU(1)), grains.Keep())
	stepKept := grains.Method0(kept, "step", (*trainer).Step)
	large := grains.DefineIn[trainer](table, "large", grains.Holds(raysys.GPU(2)))
	stepLarge := grains.Method0(large, "step", (*trainer).Step)
	began, open := make(chan string), make(chan struct{})
	hold := tasks.Define0In(table, "hold", func(ctx context.Context) (string, error) {
		began <- fmt.Sprint(raysys.Devices(ctx))
		<-open
		return "done", nil
	}).With(raysys.GPU(0.5))
	_, ctx := nodetest.Start(t, system.Config{Table: table, Resources: raysys.Resources{CPU: 4}, Devices: []raysys.Device{{UUID: "GPU-a", Model: "H100"}}})

	for _, key := range []string{"a", "b", "a"} { // each in place of the one before, which is idle
		nodetest.Want(t, ctx, step.Call(ctx, kind.Get(key)), "[GPU-a] [GPU-a]")
	}
	for range 2 {
		if got := fmt.Sprint(<-trainerEnds); got != "[GPU-a]" {
			t.Errorf("OnDeactivate has %v", got)
		}
	}
	r := hold.Go(ctx)
	if got := <-began; got != "[GPU-a]" { // the idle grain gave it up
		t.Errorf("the task holds %s", got)
	}
	late := step.With(raysys.Deadline(20*time.Millisecond)).Call(ctx, kind.Get("c"))
	if _, err := nodetest.Get(t, ctx, late); !errors.Is(err, raysys.ErrDeadline) {
		t.Errorf("a call of a grain whose device is held: %v, want ErrDeadline", err)
	}
	waits := step.Call(ctx, kind.Get("d"))
	close(open)
	nodetest.Want(t, ctx, r, "done")
	nodetest.Want(t, ctx, waits, "[GPU-a] [GPU-a]")

	nodetest.Want(t, ctx, stepKept.Call(ctx, kept.Get("k")), "[GPU-a] [GPU-a]")
	late = step.With(raysys.Deadline(20*time.Millisecond)).Call(ctx, kind.Get("a"))
	if _, err := nodetest.Get(t, ctx, late); !errors.Is(err, raysys.ErrDeadline) {
		t.Errorf("a grain that says Keep was made to go: %v", err)
	}
	if _, err := nodetest.Get(t, ctx, stepLarge.Call(ctx, large.Get("l"))); !errors.Is(err, raysys.ErrNoCapacity) || !strings.Contains(err.Error(), "GPU 2, where 1 of 1 devices would do") {
		t.Errorf("more than the node has: %v", err)
	}
}

// TestHoldsOfWorkers: each activation of a stateless worker holds its own.
func TestHoldsOfWorkers(t *testing.T) {
	table := raysys.NewTable()
	kind := grains.DefineIn[trainer](table, "pool", grains.StatelessWorker(3), grains.Holds(raysys.GPU(0.5)))
	began, open := make(chan string, 10), make(chan struct{})
	step := grains.Method0(kind, "step", func(_ *trainer, ctx context.Context) (string, error) {
		began <- fmt.Sprint(raysys.Devices(ctx))
		<-open
		return "", nil
	})
	_, ctx := nodetest.Start(t, system.Config{Table: table, Resources: raysys.Resources{CPU: 4, GPU: 1}})
	var refs []raysys.Ref[string]
	for range 3 {
		refs = append(refs, step.Call(ctx, kind.Get("")))
	}
	for range 2 {
		if got := <-began; got != "[0]" {
			t.Errorf("an activation holds %s", got)
		}
	}
	select {
	case got := <-began:
		t.Errorf("three activations share the halves of one device: %s", got)
	default:
	}
	close(open)
	for _, r := range refs {
		nodetest.Want(t, ctx, r, "")
	}
}

func TestBadHolds(t *testing.T) {
	for says, o := range map[string]raysys.Option{
		"1.5": raysys.GPU(1.5), "-1": raysys.Memory(-1), "for tasks and calls": raysys.Detached(), "GPU too": raysys.GPUModel("H100"),
	} {
		table := raysys.NewTable()
		grains.DefineIn[trainer](table, "trainer", grains.Holds(o))
		if _, err := system.New(system.Config{Table: table}); !errors.Is(err, raysys.ErrBadDefinition) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want ErrBadDefinition that says %q", err, says)
		}
	}
}
