package objects

import (
	"slices"
	"testing"

	"github.com/raysys/raysys/internal/core"
)

// TestAddReplicas: a node that keeps a copy is known until it is freed, also where the object is published again and another node takes a copy
// then.
func TestAddReplicas(t *testing.T) {
	a, b, c := core.NodeKey{Node: "a", Incarnation: 1}, core.NodeKey{Node: "b", Incarnation: 2}, core.NodeKey{Node: "c", Incarnation: 3}
	k := &reasons{}
	k.addReplicas([]core.NodeKey{a})
	before := k.replicas
	k.addReplicas([]core.NodeKey{b, c})
	k.addReplicas([]core.NodeKey{c})
	if want := []core.NodeKey{c, b, a}; !slices.Equal(k.replicas, want) || !slices.Equal(before, []core.NodeKey{a}) {
		t.Errorf("%v keep copies, want %v; the list of before is %v, which is never changed", k.replicas, want, before)
	}
}
