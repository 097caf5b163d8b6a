package testkit_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/testkit"
)

// limiter lets a sample go when there were so many inserts, and says then where it is.
type limiter struct {
	inserts int
	waiting []limited
}

type limited struct {
	at int
	*grains.Later[string]
}

// TestLimiter: a limiter keeps the calls of samplers until inserts open it, on three nodes, whose limiter dies, or is drained,
// between. What it knew is lost with it, and its samplers are not: the calls are made again at the next one. Calls that may not be
// made again fail.
func TestLimiter(t *testing.T) {
	for name, lose := range map[string]func(*testkit.Cluster, int){"killed": (*testkit.Cluster).Kill, "drained": (*testkit.Cluster).Drain} {
		t.Run(name, func(t *testing.T) {
			table := raysys.NewTable()
			kind := grains.DefineIn[limiter](table, "limiter")
			open := func(m *limiter, ctx context.Context) {
				m.waiting = slices.DeleteFunc(m.waiting, func(w limited) bool {
					if m.inserts < w.at {
						return false
					}
					_ = w.Settle(at(ctx)) // the caller of one that has ended asks again
					return true
				})
			}
			insert := grains.Method(kind, "insert", func(m *limiter, ctx context.Context, n int) (string, error) {
				m.inserts += n
				open(m, ctx)
				return at(ctx), nil
			})
			sample := grains.LaterMethod(kind, "sample", func(m *limiter, ctx context.Context, at int, l *grains.Later[string]) error {
				m.waiting = append(m.waiting, limited{at, l})
				open(m, ctx)
				return nil
			})
			again := sample.Idempotent().With(raysys.NoDeadline())
			testkit.Virtual(t, func(k *testkit.Kit) {
				t, ctx, c := k.T(), k.Context(), k.Cluster()
				c.Ready()
				g := kind.Get("replay")
				first := again.Call(ctx, g, 3)
				was, err := insert.Call(ctx, g, 1).Get(ctx)
				if err != nil {
					t.Fatal(err)
				}
				i := slices.IndexFunc([]raysys.NodeID{"n1", "n2", "n3"}, func(id raysys.NodeID) bool { return string(id) == was }) + 1
				beside := c.Node(i%3 + 1).Context(context.Background())       // of another node that hosts grains
				far, once := again.Call(beside, g, 4), sample.Call(ctx, g, 4) // which waits for as long
				k.Advance(time.Second)
				lose(c, i)
				k.Advance(time.Minute)
				if _, err := once.Get(ctx); !errors.Is(err, raysys.ErrOutcomeUnknown) || errors.Is(err, grains.ErrUnsettled) != (name == "drained") {
					t.Error("a call that may not be made again:", err)
				}
				for range 2 {
					for _, r := range []raysys.Ref[string]{first, far} {
						if p := raysys.PhaseOf(r); p != raysys.PhasePending {
							t.Fatal("the limiter that starts anew has had two inserts, and a sampler is", p)
						}
					}
					if now, err := insert.Call(ctx, g, 1).Get(ctx); err != nil || now == was {
						t.Fatal(now, err)
					}
				}
				if _, err := insert.Call(ctx, g, 1).Get(ctx); err != nil {
					t.Fatal(err)
				}
				now, err := first.Get(ctx)
				if err != nil || now == was {
					t.Error(now, err)
				}
				k.Advance(time.Minute)
				if p := raysys.PhaseOf(far); p != raysys.PhasePending {
					t.Error("three inserts do for a sampler that wants four:", p)
				}
				if _, err := insert.Call(ctx, g, 1).Get(ctx); err != nil {
					t.Fatal(err)
				}
				if got, err := far.Get(beside); err != nil || got != now {
					t.Error(got, err)
				}
			}, testkit.Table(table), testkit.Nodes(3))
		})
	}
}
