package system_test

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
)

// TestWhoAsked: a node's log says who asked for its drain, for the end of that, and for the removal of a group that is not the asker's.
func TestWhoAsked(t *testing.T) {
	logs, seen := observer.New(zap.InfoLevel)
	f := newFleet(t)
	f.join("w1", system.Worker, func(cfg *system.Config) { cfg.Logger = zap.New(logs) })
	owner, ctx := f.join("owner", system.Driver)
	operator, _ := f.join("operator", system.Driver)
	one := []raysys.Resources{{CPU: 1}}
	for _, name := range []string{"kept", "own"} {
		g, err := groups.Create(ctx, placement.Pack, one, groups.Named(name))
		if err == nil && name == "own" {
			err = g.Remove(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the operator sees the group and removes it", func() bool {
		_, err := operator.RemoveGroup(ctx, "kept")
		return err == nil
	})
	// The test's program does not wait for such requests, and the node refuses them: it was asked all the same.
	if _, err := operator.DrainNode(ctx, "w1"); err == nil {
		t.Error("a program that does not wait for it drains")
	}
	if err := owner.CancelDrain(ctx, "w1"); err == nil {
		t.Error("a drain that is none is cancelled")
	}
	var got []string
	for _, e := range seen.FilterMessage("asked for").All() {
		m := e.ContextMap()
		got = append(got, m["operation"].(string)+" by "+m["peer"].(string))
	}
	want := []string{`remove group "kept" by operator`, "drain this node by operator", "cancel the drain of this node by owner"}
	if len(got) != len(want) {
		t.Fatalf("%q, want %q", got, want)
	}
	for i := range want {
		if len(got[i]) < len(want[i]) || got[i][:len(want[i])] != want[i] { // the incarnation follows
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
}
