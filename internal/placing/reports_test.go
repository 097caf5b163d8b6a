package placing

import (
	"slices"
	"testing"

	"github.com/raysys/raysys/internal/core"
)

// TestReportsSince: each node that has reported since is found once, and no other.
func TestReportsSince(t *testing.T) {
	var r reports
	a, b, c := core.NodeKey{Node: "a"}, core.NodeKey{Node: "b"}, core.NodeKey{Node: "c"}
	if got := r.since(0); got != nil {
		t.Fatalf("%v of none", got)
	}
	for _, k := range []core.NodeKey{a, b, a, c} {
		r.add(k)
	}
	at := r.last
	for number, want := range map[uint64][]core.NodeKey{0: {c, a, b}, 2: {c, a}, 3: {c}, at: nil} {
		if got := r.since(number); !slices.Equal(got, want) {
			t.Errorf("since report %d: %v, want %v", number, got, want)
		}
	}
	r.add(a)
	r.remove(c)
	if got := r.since(2); !slices.Equal(got, []core.NodeKey{a}) {
		t.Errorf("%v after c went, want a", got)
	}
}
