package schedule_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/schedule"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// odd is of no registered type: as an any it does not encode.
type odd struct{ X int }

var (
	oddCall = grains.Method0(clocks, "odd", func(*clock, context.Context) (any, error) { write("ran", "odd"); return odd{1}, nil })
	bigCall = grains.Method0(durable, "big", func(*clock, context.Context) ([]byte, error) { write("ran", "big"); return make([]byte, 100<<10), nil })
	oddTask = tasks.Define0("schedule.oddtask", func(context.Context) (any, error) { write("ran", "odd"); return odd{1}, nil })
	patient = tasks.Define("schedule.patient", func(ctx context.Context, d time.Duration) (int, error) {
		write("patient", "begin")
		select {
		case <-time.After(d):
			return 1, nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	})
)

// TestCancelEndsAFiring: who cancels the task of a schedule ends that firing, which no worker makes again; the next time comes.
func TestCancelEndsAFiring(t *testing.T) {
	for _, nodes := range []int{0, 2} {
		for what, asked := range map[string]bool{"due": false, "Run": true} {
			t.Run(fmt.Sprint(what, " ", nodes), func(t *testing.T) {
				testkit.Virtual(t, func(k *testkit.Kit) {
					clear()
					ctx, t := k.Context(), k.T()
					must(t, schedule.Task(ctx, "nightly", schedule.Every(10*time.Minute), patient, 5*time.Minute))
					if asked {
						must(t, schedule.Run(ctx, "nightly"))
					} else {
						k.Advance(10 * time.Minute)
					}
					k.Advance(5 * time.Second)
					raysys.Lookup[int](ctx, "nightly").Cancel()
					k.Advance(8 * time.Minute)
					i, err := schedule.Get(ctx, "nightly")
					if want(t, "patient", "begin"); err != nil || len(i.Running) > 0 || i.LastError == "" || i.Why != "" {
						t.Errorf("cancelled: %+v, %v", i, err)
					}
					k.Advance(10 * time.Minute)
					want(t, "patient", "begin", "begin")
				}, some(nodes)...)
			})
		}
	}
}

// some is a cluster of so many nodes, or one node without.
func some(nodes int) []testkit.Option {
	if nodes == 0 {
		return nil
	}
	return []testkit.Option{testkit.Nodes(nodes)}
}

// TestResultThatCannotTravel: what came of a run cannot be encoded, or is too large. That is an outcome: it runs once for each due time.
func TestResultThatCannotTravel(t *testing.T) {
	each := schedule.Every(time.Minute)
	for what, c := range map[string]struct {
		line string
		set  func(ctx context.Context) error
	}{
		"a call":           {"odd", func(ctx context.Context) error { return schedule.Call0(ctx, "s", each, oddCall, clocks.Get("x")) }},
		"of a Durable one": {"big", func(ctx context.Context) error { return schedule.Call0(ctx, "s", each, bigCall, durable.Get("x")) }},
		"a task":           {"odd", func(ctx context.Context) error { return schedule.Task0(ctx, "s", each, oddTask) }},
	} {
		for _, nodes := range []int{0, 2} {
			t.Run(fmt.Sprint(what, " ", nodes), func(t *testing.T) {
				testkit.Virtual(t, func(k *testkit.Kit) {
					clear()
					ctx, t := k.Context(), k.T()
					must(t, c.set(ctx))
					k.Advance(4*time.Minute + 30*time.Second)
					want(t, "ran", slices.Repeat([]string{c.line}, 4)...)
					if i, err := schedule.Get(ctx, "s"); err != nil || i.Missed > 0 || i.Why != "" {
						t.Errorf("got %+v, %v", i, err)
					}
				}, some(nodes)...)
			})
		}
	}
}
