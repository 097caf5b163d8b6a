package taskengine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/taskengine"
)

// TestRecordedConditions: the record of a task has its conditions, but for those on where a value is.
func TestRecordedConditions(t *testing.T) {
	o := core.NewOptions([]raysys.Option{
		raysys.OnNode("a", "b"), raysys.Label("disk", "ssd"), raysys.Prefer(raysys.Label("zone", "east", "west")), raysys.Not(raysys.Label("spot")),
	})
	o.Want(core.Condition{Grain: core.GrainName{Kind: "counter", Key: "alice"}, NodeCondition: core.NodeCondition{Not: true, Soft: true}})
	want := o
	o.Want(core.Condition{Value: new(core.Future)})
	got, err := taskengine.Recorded(o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("options after the record (-before +after):\n%s", diff)
	}
}
