package testkit_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// wide is a grain whose States are together larger than a frame.
type wide struct {
	A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V grains.State[[]byte]

	A2, B2, C2, D2, E2, F2, G2, H2, I2, J2, K2, L2, M2, N2, O2, P2, Q2, R2, S2, T2, U2, V2 grains.State[[]byte]
}

func (w *wide) each(f func(i int, s *grains.State[[]byte]) error) error {
	v := reflect.ValueOf(w).Elem()
	for i := range v.NumField() {
		if err := f(i, v.Field(i).Addr().Interface().(*grains.State[[]byte])); err != nil {
			return err
		}
	}
	return nil
}

// wides is a kind with the methods of the test.
type wides struct {
	kind grains.Kind[wide]
	set  grains.Act[wide, int]
	sum  grains.Func0[wide, whereabouts]
}

// whereabouts says where a grain is, and what its States sum up to.
type whereabouts struct {
	Node raysys.NodeID
	Sum  int
}

func newWides(table *raysys.Table, name string, write bool, opts ...grains.Option) wides {
	k := grains.DefineIn[wide](table, name, opts...)
	return wides{
		kind: k,
		set: grains.Action(k, "set", func(w *wide, ctx context.Context, which int) error {
			return w.each(func(i int, s *grains.State[[]byte]) error {
				if i != which {
					return nil
				}
				s.Value = make([]byte, 110_000)
				s.Value[0] = byte(i + 1)
				if write {
					return s.Write(ctx)
				}
				return nil
			})
		}),
		sum: grains.Method0(k, "sum", func(w *wide, ctx context.Context) (whereabouts, error) {
			at := whereabouts{Node: system.NodeOf(ctx).Name()}
			return at, w.each(func(_ int, s *grains.State[[]byte]) error {
				if len(s.Value) != 110_000 {
					return fmt.Errorf("a State has %d bytes", len(s.Value))
				}
				at.Sum += int(s.Value[0])
				return nil
			})
		}).ReadOnly(),
	}
}

// TestWideState: a grain whose States are together larger than a frame is activated on each node.
func TestWideState(t *testing.T) {
	table := raysys.NewTable()
	kinds := map[string]wides{"durable": newWides(table, "durable", false, grains.Durable()), "plain": newWides(table, "plain", true)}
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, ctx := k.T(), k.Context()
		for name, w := range kinds {
			g := w.kind.Get("x")
			want := 0
			for i := range reflect.TypeFor[wide]().NumField() {
				want += i + 1
				if _, err := w.set.Call(ctx, g, i).Get(ctx); err != nil {
					t.Fatal(name, i, err)
				}
			}
			on := map[raysys.NodeID]bool{}
			for i := 1; i <= 3; i++ {
				if err := grains.Unload(ctx, g); err != nil {
					t.Fatal(err)
				}
				at, err := w.sum.With(raysys.OnNode(k.Cluster().Name(i))).Call(ctx, g).Get(ctx)
				if err != nil || at.Sum != want {
					t.Errorf("%s on node %d: sum %d, %v; want %d", name, i, at.Sum, err, want)
				}
				on[at.Node] = true
			}
			if len(on) != 3 {
				t.Errorf("%s was on %v", name, on)
			}
		}
	}, testkit.Table(table), testkit.Nodes(3))
}
