package system_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/tasks"
)

// TestWhyAdopted: of a task whose submitter is dead Why says which node has taken it over.
func TestWhyAdopted(t *testing.T) {
	f, sctx, ctx := newWill(t)
	r := firstParcel.With(on("w1")).Go(sctx, 3)
	g := writtenDrawers.kind.Get(newGate())
	if _, err := writtenDrawers.put.With(on("w2")).Call(sctx, g, r.Handle()).Get(sctx); err != nil {
		t.Fatal(err)
	}
	h, err := writtenDrawers.pass.Call(ctx, g).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := raysys.Wait(ctx, []raysys.Ref[parcel]{h.Ref()}, 1); err != nil {
		t.Fatal(err)
	}
	e, err := raysys.Why(ctx, h.Ref())
	if err != nil || e.Submitter != "s" || e.Adopter != "" || !e.Recipe || e.Owner != "w1" {
		t.Errorf("while all live: %v\n%v", err, e)
	}
	f.kill("s")
	settles(t, "a node has taken the task over", func() bool { return f.recordedAt("w1", "w2", "w3", "d") == 1 })
	e, err = raysys.Why(ctx, h.Ref())
	// A reference that d has got since names the adopter alone.
	if err != nil || e.Submitter != "s" && e.Submitter != e.Adopter || e.Adopter == "" || e.Adopter == "s" || !e.Recipe || e.Owner != "w1" || !strings.Contains(e.String(), "taken over by "+string(e.Adopter)) {
		t.Errorf("after the submitter's death: %v\n%v", err, e)
	}
}

// TestWhyName: a detached task is explained by its name: on every node, while it runs, after its submitter's death, and when it
// has settled.
func TestWhyName(t *testing.T) {
	f, sctx, ctx := newWill(t)
	gate := newGate()
	begun(sctx, t, "nightly", gate)
	w3 := f.node("w3")
	e, err := w3.Why(ctx, "nightly")
	if err != nil || e.State != "pending" || e.Submitter != "s" || e.Name == "" || !e.Recipe {
		t.Errorf("while it runs: %v\n%v", err, e)
	}
	f.kill("s")
	settles(t, "a worker has it", func() bool {
		e, err = w3.Why(ctx, "nightly")
		return err == nil && e.Submitter != "s"
	})
	if e.State != "pending" || e.Attempt < 2 {
		t.Errorf("after its submitter's death: %v", e)
	}
	openGate(gate)
	f.oneOutcome(t, "nightly")
	settles(t, "its outcome is recorded", func() bool {
		e, err = w3.Why(ctx, "nightly")
		return err == nil && e.State == "ready" && e.NoRecipe != ""
	})
	if _, err := w3.Why(ctx, "weekly"); !errors.Is(err, raysys.ErrNotFound) {
		t.Errorf("a name that no task has: %v", err)
	}
}

// whyStamped says why the value of a task that ran here, and called a grain, is not made again.
var whyStamped = tasks.DefineIn(table, "why stamped", func(ctx context.Context, at raysys.NodeID) (string, error) {
	r := stamped.With(on(at)).Go(ctx, "open")
	if _, _, err := raysys.Wait(ctx, []raysys.Ref[parcel]{r}, 1); err != nil {
		return "", err
	}
	e, err := raysys.Why(ctx, r)
	return e.NoRecipe, err
})

// TestWhyEffects: Why names the method that keeps a value from being made again, or the node of the task that called it.
func TestWhyEffects(t *testing.T) {
	_, _, _, ctx := newTrio(t)
	for at, want := range map[raysys.NodeID]string{
		"w1": "called account.deposit, a grain's method that is neither ReadOnly nor Idempotent",
		"w2": "called a grain's method that is neither ReadOnly nor Idempotent, by a task on node w2",
	} {
		if why, err := whyStamped.With(on("w1")).Go(ctx, at).Get(ctx); err != nil || !strings.Contains(why, want) {
			t.Errorf("of a task at %s: %q, %v; want %q", at, why, err, want)
		}
	}
}
