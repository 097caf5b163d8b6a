package groupengine

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/internal/core"
)

// TestRounds: twice as many nodes are asked each time, the same first, and then it begins anew.
func TestRounds(t *testing.T) {
	var nodes []core.NodeKey
	for _, id := range []core.NodeID{"a", "b", "c", "d", "e"} {
		nodes = append(nodes, core.NodeKey{Node: id})
	}
	var r Rounds
	var got []string
	for range 6 {
		list := ""
		for _, k := range r.Next(nodes, 13) {
			list += string(k.Node)
		}
		got = append(got, list)
	}
	if diff := cmp.Diff([]string{"d", "de", "deab", "deabc", "d", "de"}, got); diff != "" {
		t.Errorf("other nodes are asked:\n%s", diff)
	}
	if list := r.Next(nil, 1); list != nil {
		t.Errorf("of no nodes %v are asked", list)
	}
}
