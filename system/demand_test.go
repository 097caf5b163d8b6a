package system_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
)

// TestDemandOfGroups: status says which groups wait for room, what waits in the bundles of a group, and what waits for bundles that
// have no node; all by shape, with the longest wait.
func TestDemandOfGroups(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		cpus := func(n float64) func(*system.Config) { return func(c *system.Config) { c.Resources.CPU = n } }
		b.join("a", system.Worker, cpus(4))
		b.join("b", system.Worker, cpus(4))
		c, _ := b.join("c", system.Worker, cpus(1))
		driver, ctx := b.join("d", system.Driver)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		<-time.After(time.Second) // of the bubble: the nodes have told their loads
		create := func(name string, s placement.GroupStrategy, bundles ...raysys.Resources) groups.Group {
			t.Helper()
			g, err := groups.Create(ctx, s, bundles, groups.Named(name))
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		one, two, three := raysys.Resources{CPU: 1}, raysys.Resources{CPU: 2}, raysys.Resources{CPU: 3}
		held := create("held", placement.StrictSpread, two, two)
		spread := create("spread", placement.StrictSpread, one, one, one)
		for _, g := range []groups.Group{held, spread} {
			if err := g.Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
		first := create("first", placement.Pack, three)
		<-time.After(time.Second)
		second := create("second", placement.Pack, three)
		if err := c.Kill(context.Background(), errors.New("killed")); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			groupWaits.With(held.Bundle(0), raysys.CPU(2)).Go(ctx, 0)
		}
		groupWaits.With(first.Bundle(0), raysys.CPU(3)).Go(ctx, 0)
		groupAt.With(first.Bundle(0), raysys.Deadline(time.Hour)).Call(ctx, groupKind.Get("waits"))
		<-time.After(20 * time.Second)
		st, err := driver.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := range st.Groups {
			if d := &st.Groups[i]; d.Oldest < 10*time.Second || d.Oldest > 22*time.Second {
				t.Errorf("a group that waits since 20s: %+v", d)
			} else {
				d.Oldest = 0
			}
		}
		for i := range st.Demand {
			if d := &st.Demand[i]; d.Oldest < 19*time.Second || d.Oldest > 20*time.Second {
				t.Errorf("work that waits since 20s: %+v", d)
			} else {
				d.Oldest = 0
			}
		}
		wantGroups := []inspect.GroupDemand{
			{Group: "first", Strategy: placement.Pack, Bundles: []raysys.Resources{three}, Count: 2},
			{Group: "spread", Strategy: placement.StrictSpread, Bundles: []raysys.Resources{one, one, one}, Held: 2, Count: 1},
		}
		if diff := cmp.Diff(wantGroups, st.Groups); diff != "" {
			t.Errorf("the groups that wait:\n%s", diff)
		}
		want := map[string]inspect.Demand{
			"CPU 1": {Resources: one, Group: "first", Count: 1, Unplaced: true},
			"CPU 2": {Resources: two, Group: "held", Count: 2},
			"CPU 3": {Resources: three, Group: "first", Count: 1, Unplaced: true},
		}
		got := map[string]inspect.Demand{}
		for _, d := range st.Demand {
			got[d.Resources.String()] = d
		}
		if diff := cmp.Diff(want, got); diff != "" || len(st.Demand) != len(want) {
			t.Errorf("what waits:\n%s", diff)
		}
		for _, g := range []groups.Group{first, second, spread, held} {
			if err := g.Remove(ctx); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Second)
		if st, err := driver.Status(ctx); err != nil || st.Groups != nil || st.Demand != nil {
			t.Errorf("nothing waits any more: %+v, %+v, %v", st.Groups, st.Demand, err)
		}
	})
}
