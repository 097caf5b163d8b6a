package taskengine_test

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// step is one task of a random graph.
type step struct {
	ID       int
	Deps     []raysys.Ref[*sum]
	Behave   string
	Children int
}

// sum is a result with pointers, so that Release frees something.
type sum struct{ Of []int }

// graph runs random steps and counts what they do.
type graph struct {
	work   tasks.Task[step, *sum]
	leaf   tasks.Task[int, *sum]
	runs   [200]atomic.Int32 // attempts
	values [200]atomic.Int32 // attempts that returned a value
}

func newGraph(table *raysys.Table) *graph {
	g := &graph{}
	g.leaf = tasks.DefineIn(table, "leaf", func(ctx context.Context, x int) (*sum, error) { return &sum{[]int{x}}, ctx.Err() })
	g.work = tasks.DefineIn(table, "work", func(ctx context.Context, s step) (*sum, error) {
		attempt := g.runs[s.ID].Add(1)
		out := &sum{[]int{s.ID}}
		for _, d := range s.Deps {
			v, err := d.Get(ctx)
			if err != nil {
				return nil, err // a dependency is there, also when it was released after the submission
			}
			out.Of = append(out.Of, v.Of...)
		}
		var refs []raysys.Ref[*sum]
		for i := range s.Children {
			refs = append(refs, g.leaf.Go(ctx, i))
		}
		switch s.Behave {
		case "fail":
			return nil, errBoom
		case "panic":
			panic("graph")
		case "exit":
			runtime.Goexit()
		case "flaky":
			if attempt < 3 {
				return nil, errOther
			}
		case "hang":
			<-ctx.Done()
			return nil, ctx.Err()
		case "wait":
			if _, _, err := raysys.Wait(ctx, refs, len(refs)); err != nil {
				return nil, err
			}
		case "yield":
			for range 50 {
				runtime.Gosched()
			}
		}
		for _, o := range raysys.GetAll(ctx, refs) {
			if o.Err != nil {
				return nil, o.Err
			}
		}
		g.values[s.ID].Add(1)
		return out, nil
	})
	return g
}

// Whatever a graph of tasks does, and whatever is done to it: every future settles, exactly once, with an outcome that
// all who look agree on; a task gives its value from one run; and no CPU is lost.
func TestEveryFutureSettlesOnce(t *testing.T) {
	behaviours := []string{"ok", "ok", "ok", "yield", "wait", "fail", "panic", "exit", "flaky", "hang"}
	rapid.Check(t, func(rt *rapid.T) {
		table := raysys.NewTable()
		g := newGraph(table)
		n, err := system.New(system.Config{Table: table, Resources: raysys.Resources{CPU: 2}, QueueTasks: rapid.SampledFrom([]int{3, 1000}).Draw(rt, "queue")})
		if err != nil {
			rt.Fatal(err)
		}
		if err := n.Start(t.Context()); err != nil {
			rt.Fatal(err)
		}
		closed := false
		defer func() {
			if !closed {
				nodetest.Close(t, n)
			}
		}()
		root := n.Context(context.Background())
		sub, cancel := context.WithCancel(root)
		defer cancel()
		ctx, stop := context.WithTimeout(root, nodetest.Patience)
		defer stop()

		var refs []raysys.Ref[*sum]
		var meddlers sync.WaitGroup
		size := rapid.IntRange(1, 40).Draw(rt, "size")
		for i := range size {
			s := step{ID: i, Behave: rapid.SampledFrom(behaviours).Draw(rt, "behaviour"), Children: rapid.IntRange(0, 3).Draw(rt, "children")}
			for k := rapid.IntRange(0, min(3, len(refs))).Draw(rt, "deps"); k > 0; k-- {
				s.Deps = append(s.Deps, refs[rapid.IntRange(0, len(refs)-1).Draw(rt, "dep")])
			}
			on := rapid.SampledFrom([]context.Context{root, root, sub}).Draw(rt, "ctx")
			opts := []raysys.Option{raysys.RetryIf(func(err error) bool { return errors.Is(err, errOther) }), raysys.Backoff(0, time.Millisecond)}
			switch rapid.IntRange(0, 9).Draw(rt, "option") {
			case 0:
				opts = append(opts, raysys.CPU(2))
			case 1:
				opts = append(opts, raysys.CPU(0))
			case 2:
				opts = append(opts, raysys.Deadline(time.Millisecond))
			case 3:
				opts = append(opts, raysys.Detached())
			}
			// A full queue would make this driver wait for what hangs, so the hanging are given a time.
			if s.Behave == "hang" {
				opts = append(opts, raysys.Deadline(20*time.Millisecond))
			}
			r := g.work.With(opts...).Go(on, s)
			refs = append(refs, r)
			switch rapid.IntRange(0, 9).Draw(rt, "meddling") {
			case 0:
				r.Cancel()
			case 1:
				meddlers.Go(func() { r.Cancel() })
			case 2:
				meddlers.Go(func() { r.Get(ctx) })
			case 3:
				meddlers.Go(func() { raysys.PhaseOf(r) })
			}
		}
		if rapid.Bool().Draw(rt, "cancel") {
			meddlers.Go(cancel)
		}
		all := append([]raysys.Ref[*sum](nil), refs...)
		if _, rest, err := raysys.Wait(ctx, all, len(all)); err != nil {
			rt.Fatalf("%d of %d futures are open: %v %v", len(rest), len(all), err, rest)
		}
		meddlers.Wait()
		for i, r := range refs {
			v, err := r.Get(root)
			again, err2 := r.Get(ctx)
			if v != again || !reflect.DeepEqual(err, err2) {
				rt.Errorf("step %d: two Gets differ: %v, %v and %v, %v", i, v, err, again, err2)
			}
			state := raysys.PhaseOf(r)
			switch {
			case err == nil && (state != raysys.PhaseReady || v == nil || v.Of[0] != i || g.values[i].Load() != 1):
				rt.Errorf("step %d: %v with %v after %d values", i, state, v, g.values[i].Load())
			case err != nil && errors.As(err, new(*raysys.TaskError)) && state != raysys.PhaseFailed,
				err != nil && state != raysys.PhaseFailed && state != raysys.PhaseCancelled:
				rt.Errorf("step %d: %v with %v", i, state, err)
			case g.values[i].Load() > 1:
				rt.Errorf("step %d gave %d values", i, g.values[i].Load())
			}
			if r.Cancel() || raysys.PhaseOf(r) != state {
				rt.Errorf("step %d: Cancel changed an outcome", i)
			}
			r.Release()
			if _, err := r.Get(root); state == raysys.PhaseReady && !errors.Is(err, raysys.ErrReleased) {
				rt.Errorf("step %d: Get after Release: %v", i, err)
			}
		}
		nodetest.Eventually(t, "all CPUs are free again", func() bool { return engineOf(n).FreeCPU() == 2 && engineOf(n).QueuedBytes() == 0 })
		closed = true
		nodetest.Close(t, n)
	})
}
