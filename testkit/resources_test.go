package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// halfGPU is a grain that holds half a device.
type halfGPU struct{ heldGrain }

func (g *halfGPU) Where(ctx context.Context) (raysys.NodeID, error) {
	if n := len(raysys.Devices(ctx)); n != 1 {
		return "", fmt.Errorf("it has %d devices", n)
	}
	return raysys.NodeID(at(ctx)), nil
}

// TestResourcesNeverOver: tasks and grains of three nodes ask for shares and whole devices while nodes drain or die and come back. No
// device is ever held beyond what there is of it, a node that leaves in good order has nothing, and when all is over all of it is free.
// A round is 400 tasks and calls and one node that goes: the long form has 100,000 of them.
func TestResourcesNeverOver(t *testing.T) {
	table := raysys.NewTable()
	use := tasks.DefineIn(table, "use", func(ctx context.Context, thousandths int) (int, error) {
		list := raysys.Devices(ctx)
		leave := accountsNow.enter(list, min(thousandths, 1000))
		defer leave()
		<-time.After(time.Duration(thousandths) * time.Microsecond) // virtual
		return len(list), nil
	}).With(raysys.Retries(100))
	kind := grains.DefineIn[halfGPU](table, "half", grains.Holds(raysys.GPU(0.5)))
	where := grains.Method0(kind, "where", (*halfGPU).Where)
	a := newAccounts()
	accountsNow = a
	testkit.Virtual(t, func(k *testkit.Kit) {
		c, ctx := k.Cluster(), k.Context()
		c.Ready()
		r := k.Rand()
		least := long.Form(2, 250) // one with a drain, one with a death
		unknown, round := 0, 0
		// The goroutines decide who holds what as a node goes: a run goes on until grains have moved and a killed node held something.
		for ; round < least || !a.stirred() && round < 10*least; round++ {
			var used []raysys.Ref[int]
			var placed []raysys.Ref[raysys.NodeID]
			for range 200 {
				amount := []int{100, 300, 500, 1000, 2000}[r.IntN(5)]
				used = append(used, use.With(raysys.GPU(float64(amount)/1000)).Go(ctx, amount))
				placed = append(placed, where.With(raysys.Deadline(10*time.Minute)).Call(ctx, kind.Get(fmt.Sprint(r.IntN(12)))))
			}
			i := 1 + r.IntN(3)
			if round%2 == 0 {
				c.Drain(i)
			} else {
				<-time.After(time.Duration(r.IntN(long.Form(5, 20))) * time.Millisecond)
				i = a.busy(i)
				a.kill(c, i)
			}
			c.Restart(i)
			c.Ready()
			for _, ref := range used {
				if _, err := ref.Get(ctx); err != nil {
					t.Fatal(err)
				}
			}
			for _, ref := range placed {
				if _, err := ref.Get(ctx); errors.Is(err, raysys.ErrOutcomeUnknown) {
					unknown++
				} else if err != nil {
					t.Fatal(err)
				}
			}
		}
		<-time.After(time.Hour) // of virtual time: idle grains go
		synctest.Wait()
		a.mu.Lock()
		defer a.mu.Unlock()
		for i := range a.lives {
			a.emptyLocked(a.lives[i].name, "been idle for an hour")
		}
		for _, wrong := range a.wrong {
			t.Error(wrong)
		}
		if a.moves == 0 || a.dropped == 0 {
			t.Errorf("%d grains were active on another node than before, and killed nodes held %d devices and grains: want some of both", a.moves, a.dropped)
		}
		t.Logf("%d tasks and calls, %d calls of unknown outcome, %d grains on another node than before, %d devices and grains of killed nodes",
			400*round, unknown, a.moves, a.dropped)
		st, err := c.Status()
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range st.Nodes {
			if n.Free.GPU != n.Resources.GPU {
				t.Errorf("node %s has %v of %v GPUs free in the end", n.Name, n.Free.GPU, n.Resources.GPU)
			}
		}
	}, seedOfForm(), testkit.Table(table), testkit.Nodes(3), testkit.Each(func(i int, cfg *system.Config) {
		if i > 0 {
			a.begin(i, 2, cfg)
		}
	}))
}

// noteless is a grain that enters nothing.
type noteless struct{}

// TestHoldsCPU: a turn gives the CPU of its kind back while it waits, the turn that interleaves has it, and when all is over the
// activation holds it as before.
func TestHoldsCPU(t *testing.T) {
	table := raysys.NewTable()
	var n *system.Node
	free := func(ctx context.Context) float64 {
		st, err := n.Status(ctx)
		if err != nil {
			t.Error(err)
		}
		return st.Nodes[0].Free.CPU
	}
	look := tasks.Define0In(table, "look", func(ctx context.Context) (float64, error) { return free(ctx), nil })
	inner := grains.DefineIn[noteless](table, "inner", grains.Holds(raysys.CPU(2)))
	step := grains.Method0(inner, "free", func(_ *noteless, ctx context.Context) (float64, error) { return free(ctx), nil })
	outer := grains.DefineIn[noteless](table, "outer", grains.Holds(raysys.CPU(2)))
	again := grains.Method0(outer, "again", func(_ *noteless, ctx context.Context) (float64, error) { return free(ctx), nil }).Reentrant()
	back := tasks.DefineIn(table, "back", func(ctx context.Context, key string) (float64, error) {
		return again.Call(ctx, outer.Get(key)).Get(ctx)
	}).With(raysys.CPU(0))
	ask := grains.Method(outer, "ask", func(_ *noteless, ctx context.Context, what string) (float64, error) {
		switch what {
		case "inner":
			_, err := step.Call(ctx, inner.Get("i")).Get(ctx)
			return free(ctx), err
		case "again":
			return back.Go(ctx, "o").Get(ctx)
		default:
			return look.With(raysys.Deadline(time.Minute)).Go(ctx).Get(ctx) // a task with a deadline does not run in place
		}
	})
	testkit.Virtual(t, func(k *testkit.Kit) {
		n = k.Cluster().Node(0)
		ctx := k.Context()
		for _, c := range []struct {
			what string
			want float64
		}{
			{"task", 1},  // the task has one of the two
			{"again", 0}, // the turn that interleaves has both
			{"inner", 0}, // the other grain is activated with them: both have two
		} {
			if got, err := ask.Call(ctx, outer.Get("o"), c.what).Get(ctx); err != nil || got != c.want {
				t.Errorf("%s: %v CPUs are free (%v), want %v", c.what, got, err, c.want)
			}
		}
		if got := free(ctx); got != 0 {
			t.Errorf("%v CPUs are free beside activations that hold all", got)
		}
	}, testkit.Table(table), testkit.Nodes(1), testkit.Each(func(_ int, cfg *system.Config) { cfg.Resources.CPU = 2 }))
}

func withDevices(i int, cfg *system.Config) {
	if i == 0 {
		return
	}
	cfg.Resources.CPU = 8
	for d := range 2 {
		cfg.Devices = append(cfg.Devices, raysys.Device{UUID: fmt.Sprintf("GPU-%d-%d", i, d), Model: "H100", Memory: 80 << 30})
	}
}

// TestHoldsMoves: a grain that holds devices of a node that dies lives on with those of another; what no node has fails at
// once, and says what there is.
func TestHoldsMoves(t *testing.T) {
	table := raysys.NewTable()
	kind := grains.DefineIn[wholeGPU](table, "whole", grains.Holds(raysys.GPU(2), raysys.GPUModel("H100")))
	where := grains.Method0(kind, "where", (*wholeGPU).Where).Idempotent()
	never := grains.DefineIn[wholeGPU](table, "never", grains.Holds(raysys.GPU(3)))
	whereNever := grains.Method0(never, "where", (*wholeGPU).Where)
	testkit.Virtual(t, func(k *testkit.Kit) {
		c, ctx := k.Cluster(), k.Context()
		c.Ready()
		seen := map[raysys.NodeID]bool{}
		var first raysys.NodeID
		for _, key := range []string{"a", "b"} {
			n, err := where.Call(ctx, kind.Get(key)).Get(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if seen[n] {
				t.Errorf("two grains have all devices of node %s", n)
			}
			if seen[n] = true; first == "" {
				first = n
			}
		}
		for i := 1; i <= c.Size(); i++ {
			if c.Name(i) == first {
				c.Kill(i)
			}
		}
		n, err := where.With(raysys.Deadline(5*time.Minute)).Call(ctx, kind.Get("a")).Get(ctx)
		if err != nil || n == first || len(seen) == 2 && seen[n] {
			t.Errorf("after the death of node %s the grain is on %s (%v), others are on %v", first, n, err, seen)
		}
		if _, err := whereNever.Call(ctx, never.Get("x")).Get(ctx); !errors.Is(err, raysys.ErrNoCapacity) {
			t.Errorf("a grain that no node has room for: %v", err)
		}
	}, testkit.Table(table), testkit.Nodes(3), testkit.Each(withDevices))
}

type wholeGPU struct{}

func (g *wholeGPU) Where(ctx context.Context) (raysys.NodeID, error) {
	if n := len(raysys.Devices(ctx)); n != 2 {
		return "", fmt.Errorf("it has %d devices", n)
	}
	return raysys.NodeID(at(ctx)), nil
}
