package guide_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// here fails, because a failure says on which node it was.
var here = tasks.Define0("guide.clusters.here", func(ctx context.Context) (int, error) { return 0, errors.New("here") })

func nodeOf(err error) raysys.NodeID {
	var failed *raysys.TaskError
	if !errors.As(err, &failed) {
		return ""
	}
	return failed.Node
}

var rows = tasks.Define("guide.clusters.rows", func(ctx context.Context, n int) ([]float64, error) { return make([]float64, n), nil })

var devices = tasks.Define0("guide.clusters.devices", func(ctx context.Context) ([]string, error) { return raysys.Devices(ctx), nil })

type tally struct{ n grains.State[int] }

func (c *tally) Add(ctx context.Context, d int) (int, error) {
	c.n.Value += d
	return c.n.Value, c.n.Write(ctx)
}

var (
	tallies = grains.Define[tally]("guide.clusters.tally")
	addTo   = grains.Method(tallies, "add", (*tally).Add)
)

// zones is three nodes: n1 and n2 in zone a, n3 in zone b with a made-up GPU.
var zones = testkit.Each(func(i int, cfg *system.Config) {
	switch i {
	case 1, 2:
		cfg.Cluster.Labels = map[string]string{"zone": "a"}
	case 3:
		cfg.Cluster.Labels = map[string]string{"zone": "b"}
		cfg.Devices = []raysys.Device{{UUID: "GPU-1", Model: "H100", Memory: 80 << 30}}
	}
})

func TestPlaces(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t := k.Context(), k.T()
		data := rows.With(raysys.OnNode("n2")).Go(ctx, 1<<16) // 512 KiB: an object

		inZone := here.With(raysys.Label("zone", "b"))                  // a node with the label zone=b
		outside := here.With(raysys.Not(raysys.Label("zone", "a")))     // any other
		onOne := here.With(raysys.OnNode("n3"))                         // this node, by its name
		gladly := here.With(raysys.Prefer(raysys.OnNode("n3")))         // this node if it can begin there at once
		beside := here.With(raysys.Near(data))                          // a node that has the value
		urgent := here.With(raysys.Priority(raysys.High))               // before other tasks of this program
		withGPU := devices.With(raysys.GPU(1), raysys.GPUModel("H100")) // a node with such a GPU that is free
		later := here.With(raysys.GPU(8), raysys.WaitForResources())    // waits for a node that has eight
		never := here.With(raysys.Label("zone", "c"))                   // ErrNoCapacity, at once

		for name, c := range map[string]struct {
			task tasks.Task0[int]
			on   raysys.NodeID
		}{"inZone": {inZone, "n3"}, "outside": {outside, "n3"}, "onOne": {onOne, "n3"}, "gladly": {gladly, "n3"}, "beside": {beside, "n2"}} {
			if _, err := c.task.Go(ctx).Get(ctx); nodeOf(err) != c.on {
				t.Errorf("%s: on %q, want %q: %v", name, nodeOf(err), c.on, err)
			}
		}
		if _, err := urgent.Go(ctx).Get(ctx); nodeOf(err) == "" {
			t.Error(err)
		}
		if ids, err := withGPU.Go(ctx).Get(ctx); len(ids) != 1 || ids[0] != "GPU-1" || err != nil {
			t.Error(ids, err)
		}
		if _, err := never.Go(ctx).Get(ctx); !errors.Is(err, raysys.ErrNoCapacity) {
			t.Error(err)
		}
		r := later.Go(ctx)
		k.Advance(time.Hour)
		if raysys.PhaseOf(r) != raysys.PhasePending {
			t.Error(raysys.PhaseOf(r))
		}
		r.Cancel()
	}, testkit.Nodes(3), zones)
}

func TestGroup(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t := k.Context(), k.T()
		g, err := groups.Create(ctx, placement.StrictSpread, []raysys.Resources{{CPU: 1}, {CPU: 1}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Remove(ctx)
		if err := g.Wait(ctx); err != nil { // both bundles are reserved, each on a node of its own
			t.Fatal(err)
		}
		first := here.With(g.Bundle(0)).Go(ctx)
		second := here.With(g.Bundle(1)).Go(ctx)

		_, one := first.Get(ctx)
		_, two := second.Get(ctx)
		if nodeOf(one) == "" || nodeOf(two) == "" || nodeOf(one) == nodeOf(two) {
			t.Error(one, two)
		}
	}, testkit.Nodes(3))
}

func TestDrainAndKill(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t, c := k.Context(), k.T(), k.Cluster()
		a := tallies.Get("a")
		if _, err := addTo.With(raysys.OnNode("n1")).Call(ctx, a, 1).Get(ctx); err != nil {
			t.Fatal(err)
		}
		c.Drain(1) // the grain moves
		if n, err := addTo.Call(ctx, a, 1).Get(ctx); n != 2 || err != nil {
			t.Error(n, err)
		}
	}, testkit.Nodes(3))
}

// TestCommandsExist: the commands and variables that the page names are in docs/operating.
func TestCommandsExist(t *testing.T) {
	page, err := os.ReadFile("clusters.md")
	if err != nil {
		t.Fatal(err)
	}
	var known []byte
	for _, page := range []string{"start", "commands", "variables"} {
		b, err := os.ReadFile("../operating/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		known = append(known, b...)
	}
	for _, word := range regexp.MustCompile(`RAYSYS_[A-Z_]+|raysys [a-z]+ --?[a-z-]+|`+"`raysys [a-z]+|"+` --[a-z-]+`).FindAllString(string(page), -1) {
		if !regexp.MustCompile(regexp.QuoteMeta(word)).Match(known) && !regexp.MustCompile("`"+regexp.QuoteMeta(word[1:])+"`").Match(known) {
			t.Errorf("clusters.md has %q, which docs/operating has not", word)
		}
	}
}
