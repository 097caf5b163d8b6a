package registry

import (
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/placement"
)

// TestLedGroups: a group without room is listed as one that waits while this node leads its shard, and no longer; the next leader lists it,
// too; and one that goes waits no more.
func TestLedGroups(t *testing.T) {
	a := core.NodeKey{Node: "a", Incarnation: 3}
	full := host(a, "p")
	full.Free = raysys.Resources{}
	e, _ := newElsewhere(t, nil)
	e.hosts.Store(&[]placement.Node{full})
	s := lead(t, e)
	key := groupengine.NameKey("p", "waits")
	record := groupengine.Record{
		ID: core.TaskID{Hi: 1, Lo: 1}, Namespace: "p", Strategy: placement.Pack, Bundles: []groupengine.Bundle{{Needs: raysys.Resources{CPU: 1}}},
	}
	if said := says(e, a, &group{groupengine.Question{Op: groupengine.Create, Key: key, Record: record}}); said.err != nil || !said.value.Exists {
		t.Fatalf("make a group: %+v", said)
	}
	look := &group{groupengine.Question{Op: groupengine.Check, Key: key}}
	says(e, a, look) // the leader looks at the group after it has answered; the next answer comes after that
	says(e, a, look)
	list := e.reg.Groups()
	if len(list) != 1 || list[0].Key != key || list[0].Record.ID != record.ID || !list[0].Waits {
		t.Fatalf("the groups that wait: %+v", list)
	}
	e.reg.StepDown(0, s)
	if list := e.reg.Groups(); len(list) != 0 {
		t.Errorf("another node leads the shard, and this one lists %+v", list)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	depose(t, e)
	lead(t, e)
	says(e, a, look)
	says(e, a, look)
	if list := e.reg.Groups(); len(list) != 1 || list[0].Key != key {
		t.Errorf("the next leader lists %+v", list)
	}
	said := says(e, a, &group{groupengine.Question{Op: groupengine.Delete, Key: key}})
	for said.err == nil && said.value.Exists { // it is going
		said = says(e, a, &group{groupengine.Question{Op: groupengine.Await, Key: key, Seen: said.value.Version}})
	}
	if said.err != nil {
		t.Fatal(said.err)
	}
	says(e, a, look)
	if list := e.reg.Groups(); len(list) != 0 {
		t.Errorf("a group that is gone is listed: %+v", list)
	}
}
