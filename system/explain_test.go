package system_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

type explained struct{}

func (*explained) Answer(context.Context) (int, error) { return 42, nil }

var (
	explainAfter = tasks.DefineIn(table, "explain after", func(_ context.Context, of struct{ On raysys.Ref[int] }) (int, error) { return 0, nil })
	explainKind  = grains.DefineIn[explained](table, "explained", grains.Holds(raysys.GPU(1)), grains.Keep())
	explainModel = grains.DefineIn[explained](table, "explained model", grains.Holds(raysys.GPU(1), raysys.GPUModel("B200"), raysys.WaitForResources()))
	explainAny   = grains.DefineIn[explained](table, "explained anywhere", grains.StatelessWorker(1))
	explainCall  = grains.Method0(explainKind, "answer", (*explained).Answer)
	explainLate  = grains.Method0(explainModel, "answer", (*explained).Answer)
	explainFree  = grains.Method0(explainAny, "answer", (*explained).Answer)
)

// TestExplain: of each cause for which work waits, the nodes say where it waits, for how long, behind what, and what keeps each
// node from it.
func TestExplain(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		b.join("a", system.Worker, func(c *system.Config) {
			c.Resources.CPU, c.Cluster.Labels = 4, map[string]string{"zone": "west"}
			c.Devices = []raysys.Device{{UUID: "0", Model: "H100"}}
		})
		b.join("b", system.Worker, func(c *system.Config) { c.Resources.CPU = 4 })
		driver, ctx := b.join("d", system.Driver)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		<-time.After(time.Second) // of the bubble: the nodes have told their loads
		west := raysys.Label("zone", "west")
		north := raysys.Label("zone", "north")
		onGPU := groupWaits.With(raysys.GPU(1))
		holder := onGPU.Go(ctx, 0)
		<-time.After(time.Second)
		behind := onGPU.Go(ctx, 1)
		<-time.After(time.Second)
		last := onGPU.Go(ctx, 2)
		model := groupWaits.With(raysys.GPU(1), raysys.GPUModel("B200"), raysys.WaitForResources()).Go(ctx, 0)
		label := groupWaits.With(north, raysys.WaitForResources()).Go(ctx, 0)
		inputs := explainAfter.Go(ctx, struct{ On raysys.Ref[int] }{label})
		group, err := groups.Create(ctx, placement.StrictSpread, []raysys.Resources{{CPU: 4}, {CPU: 4}})
		if err != nil {
			t.Fatal(err)
		}
		bundle := groupWaits.With(group.Bundle(0)).Go(ctx, 0)
		for range 7 { // all CPUs but that of the task on the GPU
			groupWaits.Go(ctx, 0)
		}
		<-time.After(time.Second)
		for range 3 {
			groupWaits.Go(ctx, 0)
		}
		<-time.After(3 * time.Second)
		queued := groupWaits.Go(ctx, 0)
		waits := explainCall.With(raysys.Deadline(time.Hour)).Call(ctx, explainKind.Get("waits"))
		late := explainLate.With(raysys.Deadline(time.Hour)).Call(ctx, explainModel.Get("late"))
		for range 4 { // the rest of the CPUs of a
			groupWaits.With(west).Go(ctx, 0)
		}
		<-time.After(time.Second)
		local := groupWaits.With(west).Go(ctx, 0)
		<-time.After(10 * time.Second)

		for _, c := range []struct {
			name  string
			of    raysys.Ref[int]
			stage string
			at    raysys.NodeID
			says  []string // in lines
		}{
			{"runs", holder, core.StageRunning, "a", []string{
				"on d: node a, to which it was sent", "on a: nothing: it runs here, for node d", "asks for CPU 1, GPU 1", "placed on a by d", "balanced: only a is left", "a: wait 0s, chosen",
				"b: never, less than CPU 1, GPU 1 even when idle",
			}},
			{"GPU taken", behind, core.StageLine, "a", []string{
				"on d: node a, to which it was sent", "on a: what others hold of this node, for 1", "short: GPU 1: 1 asked for, 0 of 1 such devices free", "b: never,",
			}},
			{"behind older", last, core.StageLine, "a", []string{"    1 before it", "      group waits " + behind.ID().String()}},
			{"model", model, core.StageNode, "d", []string{
				"on d: a node: none can take it now, for 15s", "asks for CPU 1, GPU 1, GPUModel \"B200\"", "a: never, less than", "b: never, less than",
			}},
			{"label", label, core.StageNode, "d", []string{"asks for CPU 1, label zone=north", "a: never, without the labels zone=north", "d: never, a driver, no worker"}},
			{"inputs", inputs, core.StageInputs, "d", []string{"1 of its inputs, which are not computed yet, for 15s", "input group waits " + label.ID().String()}},
			{"bundle", bundle, core.StageBundle, "d", []string{"on d: its placement group: ", "has no room yet: bundle 0 asks for CPU 4", "a: less than CPU 4 free", "short: CPU: 4 asked for, 0 of 4 free"}},
			{"queue", queued, core.StageQueue, "d", []string{"on d: a CPU: it is in the queue of this node, and of all nodes that have room", "b: wait ", "short: CPU: 1 asked for, 0 of 4 free"}},
			{"placed behind others", local, core.StageQueue, "a", []string{"on d: node a, to which it was sent", "on a: a CPU: it is in the queue of tasks of other nodes", "b: never, without the labels zone=west"}},
			{"grain in the line", waits, core.StageLine, "a", []string{
				"grain explained/waits", "on d: node a, to which its calls go", "on a: what others hold of this node", "asks for GPU 1", "    2 before it", "placed on a by ", "b: never,",
			}},
			{"grain without a node", late, core.StageNode, "d", []string{"on d: a node: none has what it asks for, and 1 calls wait, for 1", "a: never, less than"}},
		} {
			s, err := raysys.Explain(ctx, c.of)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if !slices.ContainsFunc(s.Waits, func(w raysys.Waiting) bool { return w.Stage == c.stage && w.Node == c.at }) {
				t.Errorf("%s: no stage %q on %s\n%v", c.name, c.stage, c.at, s)
			}
			for _, want := range c.says {
				if !strings.Contains(s.String(), want) {
					t.Errorf("%s: %q is missing in\n%v", c.name, want, s)
				}
			}
			named, err := driver.Explain(ctx, s.ID)
			if err != nil || named.String() != s.String() {
				t.Errorf("%s: by its id %s: %v\n%s", c.name, s.ID, err, cmp.Diff(s.String(), named.String()))
			}
			text, err := json.Marshal(s)
			var read raysys.Scheduling
			if err == nil {
				err = json.Unmarshal(text, &read)
			}
			if read.String() != s.String() || err != nil {
				t.Errorf("%s as JSON: %v\n%s", c.name, err, cmp.Diff(s.String(), read.String()))
			}
		}

		cancel()
		<-time.After(time.Second)
		for _, id := range []string{"nobody", "explained/nobody", behind.ID().String()[:31] + "z", queued.ID().String()} {
			if s, err := driver.Explain(driver.Context(context.Background()), id); !errors.Is(err, raysys.ErrNotFound) || !strings.Contains(err.Error(), fmt.Sprintf("%s waits nowhere, and is not in the last 1024 decisions", id)) {
				t.Errorf("%s, which is not there: %v, %v", id, s, err)
			}
		}
		free := driver.Context(context.Background())
		if n, err := explainFree.Call(free, explainAny.Get("x")).Get(free); n != 42 || err != nil {
			t.Error(n, err)
		}
		if s, err := driver.Explain(free, "explained anywhere/x"); err != nil || len(s.Placed) != 1 || s.Placed[0].By != "d" {
			t.Errorf("a call of a stateless kind, whose placement is remembered: %v, %v", s, err)
		}
		if s, err := raysys.Explain(driver.Context(context.Background()), holder); err != nil || len(s.Placed) != 1 || len(s.Waits) != 0 {
			t.Errorf("a task that has ended, and whose placement is remembered: %v, %v", s, err)
		}
	})
}
