package system_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
)

// TestRestartNode: a node that is asked to restart tells its supervisor, also when it shall stay, or go for good, after all. A named task holds it for two
// seconds, and begins again on another node, unless it is to be kept. One that nothing would start again refuses.
func TestRestartNode(t *testing.T) {
	f := newFleet(t)
	var told words
	w1, _ := f.join("w1", system.Worker, func(cfg *system.Config) {
		cfg.Cluster.Labels, cfg.Cluster.Supervisor = map[string]string{"node": "w1"}, &told
	})
	f.place("w2", system.Worker)
	d, ctx := f.join("d", system.Driver)
	over := follow(within(t, time.Minute), w1)
	eventually(t, "the driver sees the workers", func() bool { return stateOf(t, d, "w1") == "active" && stateOf(t, d, "w2") == "active" })
	if _, err := d.RestartNode(ctx, "w2", false); err == nil || !strings.Contains(err.Error(), "its program does not drain on request") {
		t.Errorf("a node that nothing keeps: %v", err)
	}
	if _, err := d.RestartNode(ctx, "w9", false); !errors.Is(err, system.ErrNoSuchNode) {
		t.Errorf("a node that is not there: %v", err)
	}
	s, kept := stallAt(t, "kept"), raysys.Detached("kept")
	job := stallFor.With(raysys.Prefer(raysys.OnNode("w1")), kept, raysys.Retries(0)).Go(ctx, "kept")
	<-s.begun
	if _, err := d.RestartNode(ctx, "w1", true); err != nil {
		t.Fatal(err)
	}
	if _, err := d.RestartNode(ctx, "w1", false); err == nil || !strings.Contains(err.Error(), "it drains already") {
		t.Errorf("a second restart: %v", err)
	}
	eventually(t, "the job keeps the node", func() bool {
		list, err := d.Holding(ctx, "w1")
		return err == nil && slices.Contains(list, "task drain.stall of node d runs")
	})
	if _, err := d.DrainNode(ctx, "w1"); err != nil {
		t.Fatal(err)
	}
	if err := d.CancelDrain(ctx, "w1"); err != nil {
		t.Fatal(err)
	}
	if err := <-over; !errors.Is(err, system.ErrDrainCancelled) {
		t.Fatalf("a restart that was taken back: %v", err)
	}
	if got := told.String(); got != "restarting\nrestarting\ndraining\nstaying\n" {
		t.Errorf("the supervisor was told %q", got)
	}
	over = follow(within(t, time.Minute), w1)
	if _, err := d.RestartNode(ctx, "w1", false); err != nil {
		t.Fatal(err)
	}
	if err := <-over; err != nil {
		t.Fatalf("the job is to begin again elsewhere: %v", err)
	}
	if got := told.String(); !strings.HasSuffix(got, "staying\nrestarting\nrestarting\n") {
		t.Errorf("the supervisor was told %q", got)
	}
	stallAt(t, "kept").release() // of the next attempt
	if err := w1.Close(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if v, err := job.Get(ctx); err != nil || v != "kept" {
		t.Errorf("the job, whose node restarted: %q, %v", v, err)
	}
}

// TestDrainLeavesJoined: neither a restart nor a drain waits for a named task of another node, which was joined here.
func TestDrainLeavesJoined(t *testing.T) {
	for name, leave := range map[string]func(context.Context, *system.Node) error{
		"restart": func(ctx context.Context, d *system.Node) error { _, err := d.RestartNode(ctx, "w1", false); return err },
		"drain":   func(ctx context.Context, d *system.Node) error { _, err := d.DrainNode(ctx, "w1"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			var told words
			w1, on1 := f.join("w1", system.Worker, func(cfg *system.Config) { cfg.Cluster.Supervisor = &told })
			_, on2 := f.join("w2", system.Worker)
			d, ctx := f.join("d", system.Driver)
			over := follow(within(t, time.Minute), w1)
			eventually(t, "the driver sees the workers", func() bool {
				return stateOf(t, d, "w1") == "active" && stateOf(t, d, "w2") == "active"
			})
			s, joined := stallAt(t, name), raysys.Detached("joined")
			stall := stallFor.With(raysys.Prefer(raysys.OnNode("w2")), joined)
			job := stall.Go(on2, name)
			<-s.begun
			_ = stall.Go(on1, name)
			if err := leave(ctx, d); err != nil {
				t.Fatal(err)
			}
			if err := <-over; err != nil {
				t.Errorf("the %s waits for a task of another node: %v", name, err)
			}
			s.release()
			if v, err := job.Get(on2); err != nil || v != name {
				t.Errorf("the job: %q, %v", v, err)
			}
		})
	}
}
