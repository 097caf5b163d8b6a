package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// purse is a durable grain.
type purse struct{ n grains.State[int] }

// addition asks a task to add to purses, and to have others do it.
type addition struct {
	Keys  []string
	N     int             // each time
	Times int             // to each purse
	Pause time.Duration   // after each purse
	On    []raysys.NodeID // where the task that does it in its place is to run, and that of that one
}

// purses are durable grains and the task that adds to them.
type purses struct {
	table *raysys.Table
	add   tasks.Task[addition, int]
	by    grains.Func[purse, int, int]
	read  grains.Func0[purse, int]
	kind  grains.Kind[purse]
	begun atomic.Int64
	node  atomic.Value // raysys.NodeID of the first attempt of the outermost task
}

func newPurses() *purses {
	p := &purses{table: raysys.NewTable()}
	p.kind = grains.DefineIn[purse](p.table, "purse", grains.Durable())
	p.by = grains.Method(p.kind, "add", func(g *purse, _ context.Context, n int) (int, error) {
		g.n.Value += n
		return g.n.Value, nil
	})
	p.read = grains.Method0(p.kind, "read", func(g *purse, _ context.Context) (int, error) { return g.n.Value, nil }).ReadOnly()
	p.add = tasks.DefineIn(p.table, "add", func(ctx context.Context, a addition) (int, error) {
		turn, _, err := core.TurnOf(ctx)
		if err != nil {
			return 0, err
		}
		if p.begun.Add(1) == 1 {
			p.node.Store(turn.Job().Node)
		}
		if len(a.On) > 0 {
			inner := a
			inner.On, inner.Pause = a.On[1:], 0
			if _, err := p.add.With(raysys.Prefer(raysys.OnNode(a.On[0]))).Go(ctx, inner).Get(ctx); err != nil {
				return 0, err
			}
			a.Times = 0
		}
		for _, key := range a.Keys {
			var refs []raysys.Ref[int]
			for range a.Times {
				refs = append(refs, p.by.Call(ctx, p.kind.Get(key), a.N))
			}
			for _, r := range refs {
				if _, err := r.Get(ctx); err != nil {
					return 0, err
				}
			}
			select {
			case <-time.After(a.Pause):
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		return 1, nil
	})
	return p
}

// TestRepeatedTaskGetsTheReply: a task that runs again since the node died that ran it, or that had submitted it, does not count
// twice at durable grains, whenever the death comes: also for what its own tasks did long ago.
func TestRepeatedTaskGetsTheReply(t *testing.T) {
	two := []string{"x", "y"}
	for name, c := range map[string]struct {
		a        addition
		detached bool
	}{
		"its own calls":                            {addition{Keys: two, N: 5, Times: 3, Pause: 20 * time.Second}, false},
		"those of a task on another node":          {addition{Keys: two, N: 5, Times: 3, Pause: 20 * time.Second, On: []raysys.NodeID{"n2"}}, false},
		"those of a task on its node":              {addition{Keys: two, N: 5, Times: 3, Pause: 20 * time.Second, On: []raysys.NodeID{"n1"}}, false},
		"those of a task of that one":              {addition{Keys: two, N: 5, Times: 3, Pause: 20 * time.Second, On: []raysys.NodeID{"n2", "n3"}}, false},
		"a detached task over two grains":          {addition{Keys: two, N: 5, Times: 1, Pause: 20 * time.Second}, true},
		"a detached task, whose task adds to both": {addition{Keys: two, N: 5, Times: 1, Pause: 20 * time.Second, On: []raysys.NodeID{"n3"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPurses()
			testkit.Virtual(t, func(k *testkit.Kit) {
				t, ctx, cl := k.T(), k.Context(), k.Cluster()
				p.begun.Store(0)
				at := raysys.Prefer(raysys.OnNode("n1"))
				if c.detached {
					sctx := cl.Node(1).Context(context.Background())
					p.add.With(raysys.Prefer(raysys.OnNode("n2")), raysys.Detached("both")).Go(sctx, c.a)
				} else {
					defer func(r raysys.Ref[int]) {
						if _, err := r.Get(ctx); err != nil {
							t.Error(err)
						}
						p.total(ctx, t, two, c.a.N*c.a.Times)
					}(p.add.With(at).Go(ctx, c.a))
				}
				k.Advance(10 * time.Second)
				for _, key := range two { // with its commit go the replies that may go
					if _, err := p.by.Call(ctx, p.kind.Get(key), 0).Get(ctx); err != nil {
						t.Error(err)
					}
				}
				k.Advance(5 * time.Second) // all is done at the first purse, or at both
				begun := p.begun.Load()
				if at := p.node.Load(); begun == 0 || !c.detached && at != raysys.NodeID("n1") {
					t.Errorf("%d tasks ran, the first on %v", begun, at)
				}
				cl.Kill(1)
				k.Advance(5 * time.Minute)
				if p.begun.Load() <= begun {
					t.Error("no task ran again")
				}
				if c.detached {
					if n, err := raysys.Lookup[int](ctx, "both").Get(ctx); n != 1 || err != nil {
						t.Error(n, err)
					}
					p.total(ctx, t, two, c.a.N*c.a.Times)
				}
			}, testkit.Nodes(4), testkit.Table(p.table))
		})
	}
}

// total checks what is in the purses.
func (p *purses) total(ctx context.Context, t testing.TB, keys []string, want int) {
	t.Helper()
	for _, key := range keys {
		if n, err := p.read.Call(ctx, p.kind.Get(key)).Get(ctx); n != want || err != nil {
			t.Errorf("purse %s has %d, %v, want %d", key, n, err, want)
		}
	}
}

// TestRepliesOfTasksGo: the replies to the calls of tasks go when the outermost task has ended, on whatever nodes they ran:
// else the grain would have no room for those of the last rounds.
func TestRepliesOfTasksGo(t *testing.T) {
	for _, nodes := range [][]raysys.NodeID{nil, {"n1"}, {"n2"}, {"n2", "n3"}, {"n2", "n2"}, {"n2", "n1"}} {
		for _, detached := range []bool{false, true} {
			t.Run(fmt.Sprint(nodes, detached), func(t *testing.T) {
				p := newPurses()
				testkit.Virtual(t, func(k *testkit.Kit) {
					t, ctx := k.T(), k.Context()
					const rounds, times = 6, 1000
					for i := range rounds {
						opts := []raysys.Option{raysys.Prefer(raysys.OnNode("n1"))}
						if detached {
							opts = append(opts, raysys.Detached(fmt.Sprint("round ", i)))
						}
						a := addition{Keys: []string{"x"}, N: 1, Times: times, On: nodes}
						if _, err := p.add.With(opts...).Go(ctx, a).Get(ctx); err != nil {
							t.Fatalf("round %d: %v", i, err)
						}
						k.Advance(time.Second)
					}
					p.total(ctx, t, []string{"x"}, rounds*times)
				}, testkit.Nodes(3), testkit.Table(p.table))
			})
		}
	}
}

// clerk is a plain grain.
type clerk struct{}

// TestRepliesOfFailedTurnsGo: the replies to the calls of tasks that a plain grain submitted go also when its turn fails.
func TestRepliesOfFailedTurnsGo(t *testing.T) {
	p := newPurses()
	clerks := grains.DefineIn[clerk](p.table, "clerk")
	errRefused := errors.New("refused")
	add := grains.Method(clerks, "add", func(_ *clerk, ctx context.Context, a addition) (int, error) {
		if _, err := p.add.With(raysys.Prefer(raysys.OnNode("n2"))).Go(ctx, a).Get(ctx); err != nil {
			return 0, err
		}
		return 0, errRefused
	})
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, ctx := k.T(), k.Context()
		const rounds, times = 6, 1000
		for i := range rounds {
			call := add.With(raysys.OnNode("n1")).Call(ctx, clerks.Get("x"), addition{Keys: []string{"x"}, N: 1, Times: times})
			if _, err := call.Get(ctx); err == nil || !strings.Contains(err.Error(), errRefused.Error()) {
				t.Fatalf("round %d: %v", i, err)
			}
			k.Advance(10 * time.Second)
		}
		p.total(ctx, t, []string{"x"}, rounds*times)
	}, testkit.Nodes(3), testkit.Table(p.table))
}
