package groups_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

type trainer struct {
	calls int
	ended chan<- string // by OnDeactivate; nil where no test looks
}

func (g *trainer) OnDeactivate(ctx context.Context) error {
	if g.ended != nil {
		g.ended <- strings.Join(raysys.Devices(ctx), ",")
	}
	return nil
}

// program is a kind that holds a device, and a task that its methods submit.
type program struct {
	table *raysys.Table
	kind  grains.Kind[trainer]
	step  grains.Func0[trainer, string] // devices, and how many calls there were
	child grains.Func0[trainer, string] // a task's devices
	hang  grains.Act0[trainer]          // until its context ends
	began chan struct{}                 // by hang
	ended chan string                   // by OnDeactivate after hang: the devices
}

func newProgram(opts ...grains.Option) *program {
	p := &program{table: raysys.NewTable(), began: make(chan struct{}, 8), ended: make(chan string, 1)}
	device := tasks.Define0In(p.table, "device", func(ctx context.Context) (string, error) {
		return strings.Join(raysys.Devices(ctx), ","), nil
	}).With(raysys.GPU(1))
	p.kind = grains.DefineIn[trainer](p.table, "trainer", opts...)
	p.step = grains.Method0(p.kind, "step", func(g *trainer, ctx context.Context) (string, error) {
		g.calls++
		return fmt.Sprint(raysys.Devices(ctx), " ", g.calls), nil
	})
	p.child = grains.Method0(p.kind, "child", func(_ *trainer, ctx context.Context) (string, error) { return device.Go(ctx).Get(ctx) })
	p.hang = grains.Action0(p.kind, "hang", func(g *trainer, ctx context.Context) error {
		g.ended = p.ended
		p.began <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	return p
}

func wants(t *testing.T, ctx context.Context, r raysys.Ref[string], want string) {
	t.Helper()
	if got, err := r.Get(ctx); got != want || err != nil {
		t.Errorf("a call returns %q, %v; want %q", got, err, want)
	}
}

// TestGrainInGroup: a grain that a call activates in a bundle holds what its kind asks for out of it, and the first call decides. What
// it submits is in the group where the call captures that.
func TestGrainInGroup(t *testing.T) {
	p := newProgram(grains.Holds(raysys.GPU(1), raysys.CPU(1)))
	_, ctx := start(t, p.table)
	g, err := groups.Create(ctx, placement.Pack, []raysys.Resources{{CPU: 2, GPU: 2}, {CPU: 1}})
	if err != nil {
		t.Fatal(err)
	}
	wants(t, ctx, p.step.With(g.Bundle(0), groups.CaptureChildren()).Call(ctx, p.kind.Get("a")), "[0] 1")
	for i, named := range []grains.Func0[trainer, string]{p.step, p.step.With(g.Bundle(1)), p.step.With(g.AnyBundle())} {
		wants(t, ctx, named.Call(ctx, p.kind.Get("a")), fmt.Sprint("[0] ", i+2))
	}
	wants(t, ctx, p.child.Call(ctx, p.kind.Get("a")), "1") // the node has no device but those of the bundle
	for i, want := range []error{raysys.ErrNoCapacity, raysys.ErrBadOption} {
		if _, err := p.step.With(g.Bundle(i+1)).Call(ctx, p.kind.Get("b")).Get(ctx); !errors.Is(err, want) {
			t.Errorf("a grain in bundle %d: %v, want %v", i+1, err, want)
		}
	}
	// The third finds no device free in the bundle: an idle grain there goes for it.
	for _, key := range []string{"b", "c"} {
		if got, err := p.step.With(g.AnyBundle()).Call(ctx, p.kind.Get(key)).Get(ctx); err != nil || got != "[0] 1" && got != "[1] 1" {
			t.Errorf("another grain in the group: %q, %v", got, err)
		}
	}
}

// TestGrainOfGroupRemoved: a removal cancels the turns of the grains in the group, and returns after OnDeactivate. Calls that waited,
// or come later, and name the group fail; others find the grain outside it.
func TestGrainOfGroupRemoved(t *testing.T) {
	p := newProgram(grains.Holds(raysys.GPU(1)))
	_, ctx := start(t, p.table)
	g, err := groups.Create(ctx, placement.Pack, []raysys.Resources{{GPU: 2}})
	if err != nil {
		t.Fatal(err)
	}
	a := p.kind.Get("a")
	hangs := p.hang.With(g.Bundle(0)).Call(ctx, a)
	<-p.began
	waits, others := p.step.With(g.AnyBundle()).Call(ctx, a), p.step.Call(ctx, a)
	if err := g.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case device := <-p.ended:
		if device != "0" {
			t.Errorf("OnDeactivate has the devices %q", device)
		}
	default:
		t.Error("the group is removed before OnDeactivate of its grain has returned")
	}
	if _, err := hangs.Get(ctx); !errors.Is(err, raysys.ErrGroupRemoved) {
		t.Errorf("a turn in a group that was removed: %v", err)
	}
	if _, err := waits.Get(ctx); !errors.Is(err, raysys.ErrGroupRemoved) {
		t.Errorf("a call that waited in the group: %v", err)
	}
	wants(t, ctx, others, "[0] 1")
	wants(t, ctx, p.step.With(g.Bundle(0)).Call(ctx, a), "[0] 2") // it is active
	if _, err := p.step.With(g.Bundle(0)).Call(ctx, p.kind.Get("b")).Get(ctx); !errors.Is(err, raysys.ErrGroupRemoved) {
		t.Errorf("a call of a grain that is not active: %v", err)
	}
}

// TestGrainWaitsForGroup: calls wait while their bundle has no room; they end with the group, or begin once it has room.
func TestGrainWaitsForGroup(t *testing.T) {
	p := newProgram() // it asks for nothing
	_, ctx := start(t, p.table)
	first, err := groups.Create(ctx, placement.Pack, cpus(3))
	if err == nil {
		err = first.Wait(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	var pending [2]groups.Group
	for i := range pending {
		if pending[i], err = groups.Create(ctx, placement.Pack, cpus(4)); err != nil {
			t.Fatal(err)
		}
	}
	a, b := p.step.With(pending[0].Bundle(0)).Call(ctx, p.kind.Get("a")), p.step.With(pending[1].Bundle(0)).Call(ctx, p.kind.Get("b"))
	if err := pending[0].Remove(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Get(ctx); !errors.Is(err, raysys.ErrGroupRemoved) {
		t.Errorf("a call that waited for a group which was removed: %v", err)
	}
	if err := first.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	wants(t, ctx, b, "[] 1")
}

func TestBadGrainInGroup(t *testing.T) {
	p, pool := newProgram(), newProgram(grains.StatelessWorker(1))
	_, ctx := start(t, p.table)
	_, ctxPool := start(t, pool.table)
	g, err := groups.Create(ctxPool, placement.Pack, cpus(1))
	if err != nil {
		t.Fatal(err)
	}
	for says, r := range map[string]raysys.Ref[string]{
		"stands beside":   p.step.With(groups.CaptureChildren()).Call(ctx, p.kind.Get("a")),
		"zero Group":      p.step.With(groups.Group{}.Bundle(0)).Call(ctx, p.kind.Get("a")),
		"StatelessWorker": pool.step.With(g.Bundle(0)).Call(ctxPool, pool.kind.Get("a")),
	} {
		if _, err := r.Get(ctx); !errors.Is(err, raysys.ErrBadOption) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want ErrBadOption that says %q", err, says)
		}
	}
	n, err := system.New(system.Config{Table: func() *raysys.Table {
		tb := raysys.NewTable()
		grains.DefineIn[trainer](tb, "held", grains.Holds(g.Bundle(0)))
		return tb
	}()})
	if !errors.Is(err, raysys.ErrBadDefinition) {
		t.Errorf("a bundle in Holds: %v, %v", n, err)
	}
}
