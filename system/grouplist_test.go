package system_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
)

// TestGroupsListed: an operator sees the groups of all programs, the oldest first and not more than asked for, with their states,
// owners and the nodes of their bundles; and removes one by its name or its id, with what runs in it.
func TestGroupsListed(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		b.fourNodes()
		_, ctx, end := b.aDriver("driver")
		defer end()
		operator, _ := b.join("operator", system.Driver, func(c *system.Config) { c.Cluster.Observer = true })
		must := func(g groups.Group, err error) groups.Group {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Millisecond) // of the bubble: another is younger
			return g
		}
		named := must(makeGroup(ctx, groups.Named("training"), groups.Detached()))
		must(makeGroup(ctx))
		must(groups.Create(ctx, placement.Pack, oneCPUEach(5))) // of the four CPUs that are left
		runs := groupWaits.With(named.Bundle(0)).Go(ctx, 0)
		<-time.After(time.Second)

		list := func(id string, limit int) inspect.Groups {
			t.Helper()
			all, err := operator.Groups(context.Background(), id, limit)
			if err != nil || len(all.Silent) > 0 {
				t.Fatalf("list groups: %v, silent %q", err, all.Silent)
			}
			return all
		}
		all := list("", 10)
		if all.Count != 3 || len(all.Groups) != 3 {
			t.Fatalf("of three groups there are listed: %+v", all)
		}
		for i, want := range []inspect.GroupStatus{
			{Name: "training", Strategy: placement.StrictSpread, State: inspect.GroupHeld, Detached: true},
			{Strategy: placement.StrictSpread, State: inspect.GroupHeld, Owner: "driver"},
			{Strategy: placement.Pack, State: inspect.GroupWaiting, Owner: "driver"},
		} {
			g := all.Groups[i]
			if g.Name != want.Name || g.Strategy != want.Strategy || g.State != want.State || g.Owner != want.Owner || g.Detached != want.Detached || g.Namespace != "test" || g.Made.IsZero() {
				t.Errorf("group %d is listed as %+v, want %+v", i, g, want)
			}
			for _, b := range g.Bundles {
				if (b.Node == "") != (want.State == inspect.GroupWaiting) || b.Resources.CPU != 1 {
					t.Errorf("a bundle of group %d, %s: %+v", i, g.State, b)
				}
			}
		}
		if two := list("", 2); two.Count != 3 || len(two.Groups) != 2 || two.Groups[0].Name != "training" {
			t.Errorf("the two oldest: %+v", two)
		}

		if _, err := operator.RemoveGroup(context.Background(), "nothing"); !errors.Is(err, raysys.ErrNotFound) {
			t.Errorf("remove a group that is not there: %v", err)
		}
		g, err := operator.RemoveGroup(context.Background(), "training")
		if err != nil || g.ID != all.Groups[0].ID {
			t.Errorf("remove a group by its name: %+v, %v", g, err)
		}
		if _, err := runs.Get(ctx); !errors.Is(err, raysys.ErrGroupRemoved) {
			t.Errorf("a task that ran in it: %v", err)
		}
		if g, err := operator.RemoveGroup(context.Background(), all.Groups[1].ID); err != nil || g.ID != all.Groups[1].ID {
			t.Errorf("remove a group by its id: %+v, %v", g, err)
		}
		<-time.After(time.Minute) // of the bubble
		if last := list("", 10); last.Count != 1 || last.Groups[0].ID != all.Groups[2].ID || last.Groups[0].State != inspect.GroupHeld {
			t.Errorf("the group that has waited, once there is room: %+v", last)
		}
		must(groups.Create(ctx, placement.Pack, oneCPUEach(1), groups.Named("twin")))
		_, other := b.join("else", system.Both, twoCPUs, func(c *system.Config) { c.Namespace = "other" })
		<-time.After(time.Second) // of the bubble: it has told its load
		must(groups.Create(other, placement.Pack, oneCPUEach(1), groups.Named("twin")))
		if _, err := operator.RemoveGroup(context.Background(), "twin"); err == nil || !strings.Contains(err.Error(), "give the id of one") {
			t.Errorf("remove a name of two programs: %v", err)
		}
	})
}
