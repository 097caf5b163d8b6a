package registry

import (
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/shardlog"
)

// TestPreferLocalIsTheAsker: a grain that holds something stays on the node that asks while that has room, whichever node leads the
// shard. One that a driver asks for goes to any.
func TestPreferLocalIsTheAsker(t *testing.T) {
	const room, asker = 4, 107
	choices := func(from core.NodeKey, change func(*manyNodes)) map[raysys.NodeID]int {
		t.Helper()
		m := newManyNodes(300)
		for i := range m.list {
			m.list[i].Total.GPU, m.list[i].Free.GPU = room, room
		}
		if change != nil {
			change(m)
		}
		l := &leader{reg: New(Config{Members: m, Runner: runner.New(&setClock{}), Namespace: "test"}), shard: &shardlog.Shard{}, counts: map[core.NodeKey]int{}}
		o := &locate{
			grain: grain{ns: "test", id: graindir.ID{Kind: "trainer", Key: "a"}}, needs: raysys.Resources{GPU: 1}, strategy: raysys.PreferLocal,
		}
		at := map[raysys.NodeID]int{}
		for range 2 * room {
			to, err := o.choose(l, from)
			if err != nil {
				t.Fatal(err)
			}
			at[to.Node]++
		}
		return at
	}
	from := core.NodeKey{Node: "node-107", Incarnation: asker + 1}
	if at := choices(from, nil); at["node-107"] != room || at["node-1"] > 1 {
		t.Errorf("%d grains went to %v: node-107 asked and had room for %d", 2*room, at, room)
	}
	for name, at := range map[string]map[raysys.NodeID]int{
		"a node that no report names": choices(core.NodeKey{Node: "unseen", Incarnation: 1}, nil),
		"a driver":                    choices(from, func(m *manyNodes) { m.list[asker].Worker = false }),
	} {
		if at["node-1"] > 1 || at["node-107"] > 1 {
			t.Errorf("%s asked: %d grains went to %v, want them balanced", name, 2*room, at)
		}
	}
}
