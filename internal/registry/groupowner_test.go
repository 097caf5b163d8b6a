package registry

import (
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/placement"
)

// TestOwnerOfGroup: a group goes with the node that the asker names, or with the asker where that node has died.
func TestOwnerOfGroup(t *testing.T) {
	a, driver := core.NodeKey{Node: "a", Incarnation: 3}, other
	e, _ := newElsewhere(t, nil)
	e.hosts.Store(&[]placement.Node{host(a, "p")})
	lead(t, e)
	e.dead.Store(deadNode, true)
	for name, c := range map[string]struct{ says, want core.NodeKey }{
		"of a driver that lives": {driver, driver},
		"of one that has died":   {deadNode, a},
		"detached":               {core.NodeKey{}, core.NodeKey{}},
	} {
		record := groupengine.Record{
			ID: core.TaskID{Hi: 1, Lo: 1}, Namespace: "p", Strategy: placement.Pack, Owner: c.says, Bundles: []groupengine.Bundle{{Needs: raysys.Resources{CPU: 1}}},
		}
		said := says(e, a, &group{groupengine.Question{Op: groupengine.Create, Key: groupengine.NameKey("p", name), Record: record}})
		if said.err != nil || said.value.Record.Owner != c.want {
			t.Errorf("a group %s goes with %v, %v; want %v", name, said.value.Record.Owner, said.err, c.want)
		}
	}
}
