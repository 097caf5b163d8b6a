package taskengine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/tasks"
)

// program is a random tree of tasks, and the one of them that is meant.
type program struct {
	Steps []move
	At    int
}

// move is what one task does.
type move struct {
	Op   int // how it submits: 0 Go and Get, 1 Map, 2 On a reference, 3 a reference inside the argument, 4 GetAll at the end
	V    int
	Kids []int
}

func (g program) step() move { return g.Steps[g.At] }

func (g program) kids() (all []program) {
	for _, k := range g.step().Kids {
		all = append(all, program{g.Steps, k})
	}
	return all
}

// value is what it computes when nothing is lost.
func (g program) value() int {
	v := g.step().V
	for _, k := range g.kids() {
		v = v*31 + k.value()
	}
	return v
}

type wrapped struct{ In raysys.Ref[int] }

func drawProgram(t *rapid.T) program {
	g := program{}
	var grow func(depth int) int
	grow = func(depth int) int {
		at := len(g.Steps)
		g.Steps = append(g.Steps, move{Op: rapid.IntRange(0, 4).Draw(t, "op"), V: rapid.IntRange(0, 99).Draw(t, "v")})
		if depth > 0 {
			for range rapid.IntRange(0, 4).Draw(t, "kids") {
				k := grow(depth - 1)
				g.Steps[at].Kids = append(g.Steps[at].Kids, k)
			}
		}
		return at
	}
	g.At = grow(3)
	return g
}

// runners defines the tasks that run graphs.
func runners(table *raysys.Table) tasks.Task[program, int] {
	leaf := tasks.DefineIn(table, "leaf", func(_ context.Context, v int) (int, error) { return v, nil })
	in := tasks.DefineIn(table, "in", func(ctx context.Context, w wrapped) (int, error) { return w.In.Get(ctx) })
	safe := []raysys.Option{raysys.Retries(1000), raysys.Backoff(0, time.Millisecond)}
	leaf, in = leaf.With(safe...), in.With(safe...)
	var run tasks.Task[program, int]
	run = tasks.DefineIn(table, "run", func(ctx context.Context, g program) (int, error) {
		run := run.With(safe...)
		kids, s := g.kids(), g.step()
		refs := make([]raysys.Ref[int], len(kids))
		switch s.Op {
		case 1:
			refs = run.Map(ctx, kids)
		default:
			for i, k := range kids {
				refs[i] = run.Go(ctx, k)
				switch s.Op {
				case 2:
					refs[i] = leaf.On(ctx, refs[i])
				case 3:
					refs[i] = in.Go(ctx, wrapped{refs[i]})
				case 0:
					if _, err := refs[i].Get(ctx); err != nil {
						return 0, err
					}
				}
			}
		}
		v := s.V
		values, err := raysys.GetAll(ctx, refs).Values()
		for _, u := range values {
			v = v*31 + u
		}
		return v, err
	})
	return run.With(safe...)
}

// Random programs on nodes that lose their links at random: every future resolves, and to the right value.
func TestRandomGraphsWithLoss(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		graphs := rapid.SliceOfN(rapid.Custom(drawProgram), 1, 5).Draw(rt, "graphs")
		own := rapid.IntRange(0, 1).Draw(rt, "CPUs of the driver")
		cpus := rapid.SliceOfN(rapid.IntRange(1, 3), 1, 3).Draw(rt, "CPUs")
		severed := rapid.SliceOfN(rapid.IntRange(0, 60), 0, 6).Draw(rt, "frames until a link is cut")
		again := rapid.Float64Range(0, 1).Draw(rt, "part of the results that come twice")
		full := rapid.Float64Range(0, 0.5).Draw(rt, "part of the frames that are refused")
		var problems []string
		synctest.Test(t, func(t *testing.T) {
			table := raysys.NewTable()
			run := runners(table)
			d := newHost(t, "driver", table, float64(own))
			var frames, cuts atomic.Int64
			rule := func(_ raysys.NodeID, c wire.Class, k wire.Kind, p []byte) fate {
				n := frames.Add(1)
				if i := cuts.Load(); int(i) < len(severed) && n > int64(severed[i]) && cuts.CompareAndSwap(i, i+1) {
					frames.Store(0)
					return sever
				}
				draw := float64(n*2654435761%1000) / 1000
				switch {
				case k == wire.KindTaskResult && draw < again:
					return twice
				case (c == wire.Requests || c == wire.Replies || c == bulk) && draw < full:
					return refuse
				}
				return deliver
			}
			links := make([]*link, len(cpus))
			for i, n := range cpus {
				links[i] = join(t, d, newHost(t, fmt.Sprintf("worker%d", i), table, float64(n)))
				links[i].rule(rule)
			}
			ctx := d.ctx()
			var refs []raysys.Ref[int]
			for _, g := range graphs {
				refs = append(refs, run.Go(ctx, g))
			}
			done := make(chan struct{})
			mended := make(chan struct{})
			go func() { // mends what is cut
				defer close(mended)
				tick := time.NewTicker(3 * time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-done:
						return
					case <-tick.C:
					}
					for i, l := range links {
						if l.isDown() {
							l.cut(errSevered)
							links[i] = join(t, d, l.ends[1].here)
							links[i].rule(rule)
						}
					}
				}
			}()
			for i, r := range refs {
				if v, err := nodetest.Get(t, ctx, r); v != graphs[i].value() || err != nil {
					problems = append(problems, fmt.Sprintf("graph %d: got %d, %v; want %d", i, v, err, graphs[i].value()))
				}
			}
			close(done)
			<-mended
			for _, l := range links {
				l.cut(errSevered)
			}
			<-time.After(time.Second)
			synctest.Wait()
			for _, h := range append([]*tasksRuntime{d}, workers(links)...) {
				if l := h.engine.Load(); l.Inbound != 0 || l.Queued != 0 || l.Busy != 0 || h.engine.FreeCPU() != h.cpus {
					problems = append(problems, fmt.Sprintf("node %s is left with %+v", h.name, l))
				}
			}
		})
		if problems != nil {
			rt.Fatal(problems)
		}
	})
}

func workers(links []*link) (hs []*tasksRuntime) {
	for _, l := range links {
		hs = append(hs, l.ends[1].here)
	}
	return hs
}

func (l *link) isDown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down
}
