package raysys_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

func TestPlaceAndLabel(t *testing.T) {
	if o := core.NewOptions[core.Option](nil); o.Strategy != "" || o.Labels != nil {
		t.Errorf("the defaults are %q and %v", o.Strategy, o.Labels)
	}
	zone := raysys.Label("zone", "a")
	o := core.NewOptions([]raysys.Option{
		raysys.Placement(raysys.Spread), raysys.Placement("mine"), zone, raysys.Label("disk", ""), raysys.Label("zone", "b"),
	})
	if diff := cmp.Diff(map[string]string{"zone": "b", "disk": ""}, o.Labels); diff != "" || o.Strategy != "mine" || o.Err != nil {
		t.Errorf("%q, %v\n%s", o.Strategy, o.Err, diff)
	}
	if diff := cmp.Diff(map[string]string{"zone": "a"}, core.NewOptions([]raysys.Option{zone}).Labels); diff != "" {
		t.Errorf("an option used again shares what it fills:\n%s", diff)
	}
	for text, bad := range map[string]raysys.Option{
		`bad option: Placement(""): name a strategy, such as raysys.Spread`: raysys.Placement(""),
		`bad option: Label("", "a"): a label needs a key`:                   raysys.Label("", "a"),
	} {
		if err := core.NewOptions([]raysys.Option{bad}).Err; !errors.Is(err, raysys.ErrBadOption) || err.Error() != text {
			t.Errorf("got %v, want %s", err, text)
		}
	}
}
