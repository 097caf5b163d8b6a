package system_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
)

// TestGetLostObject: get NAME says of an object that is lost that it is, and why; and of one whose owner is dead which nodes have copies.
func TestGetLostObject(t *testing.T) {
	f := newFleet(t)
	f.join("w1", system.Worker)
	d, _ := f.join("d", system.Driver)
	_, octx := f.join("o", system.Driver)
	for name, copies := range map[string]int{"alone": 1, "copied": 2} {
		if _, err := raysys.Put(octx, fill(200_000, 1), raysys.Named(name), raysys.Replicas(copies)).Get(octx); err != nil {
			t.Fatal(err)
		}
	}
	says := func(name, state string, copies []raysys.NodeID, why ...string) {
		t.Helper()
		v := one(t, d, name).Value
		if v == nil {
			t.Fatalf("%s: nothing is said of it", name)
		}
		at := slices.Sorted(slices.Values(v.Copies))
		if v.State != state || v.Owner != "o" || !slices.Equal(at, copies) || (v.Error == "") != (why == nil) {
			t.Errorf("%s: %+v, want it %s, with copies on %v", name, v, state, copies)
		}
		for _, w := range why {
			if !strings.Contains(v.String(), w) {
				t.Errorf("%s: %q is not said in %q", name, w, v)
			}
		}
	}
	f.kill("o")
	says("alone", "lost", nil, "lost, 200", "its owner o (incarnation", "of 1 copies none is left")
	says("copied", "ready", []raysys.NodeID{"w1"})
	f.join("w2", system.Worker)
	settles(t, "a worker that joins gets the missing copy", func() bool { return len(one(t, d, "copied").Value.Copies) == 2 })
	f.kill("w1")
	says("copied", "ready", []raysys.NodeID{"w2"})
}
