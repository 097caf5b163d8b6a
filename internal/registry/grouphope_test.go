package registry

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/placement"
)

// TestHopeOutlivesItsLeader: a group was made while a worker was about to join. The next leader of its shard has it end when that is there and could
// not have it either. Then it is listed among those that wait no more, who waits for it hears why, and its name is free.
func TestHopeOutlivesItsLeader(t *testing.T) {
	a := core.NodeKey{Node: "a", Incarnation: 3}
	small := host(a, "p")
	small.Total = raysys.Resources{CPU: 1}
	small.Free = small.Total
	e, _ := newElsewhere(t, nil)
	e.hosts.Store(&[]placement.Node{small})
	var expects atomic.Bool
	expects.Store(true)
	e.reg.cfg.Expecting = expects.Load
	s := lead(t, e)
	key := groupengine.NameKey("p", "hopes")
	create := func(id uint64, cpu float64) *group {
		return &group{groupengine.Question{Op: groupengine.Create, Key: key, Record: groupengine.Record{
			ID: core.TaskID{Hi: 1, Lo: id}, Namespace: "p", Strategy: placement.Pack, Bundles: []groupengine.Bundle{{Needs: raysys.Resources{CPU: cpu}}},
		}}}
	}
	made := says(e, a, create(1, 2))
	if made.err != nil || !made.value.Exists {
		t.Fatalf("make a group while a worker is expected: %+v", made)
	}
	e.reg.StepDown(0, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	depose(t, e)
	lead(t, e)
	look := &group{groupengine.Question{Op: groupengine.Check, Key: key}}
	says(e, a, look) // the leader looks at the group after it has answered; the next answer comes after that
	if said := says(e, a, look); said.value.Gone(key) != nil || len(waiting(e)) != 1 {
		t.Fatalf("while the worker is expected: %+v, and %d groups are listed that wait", said, len(waiting(e)))
	}
	if said := says(e, a, create(2, 1)); !errors.Is(said.err, raysys.ErrNameTaken) {
		t.Errorf("another takes the name of a group that waits: %+v", said)
	}
	expects.Store(false)
	said := says(e, a, &group{groupengine.Question{Op: groupengine.Await, Key: key, Seen: made.value.Version}})
	if err := said.value.Gone(key); said.err != nil || !errors.Is(err, raysys.ErrNoCapacity) {
		t.Fatalf("no worker is expected: %v, %+v", err, said)
	}
	says(e, a, look)
	says(e, a, look)
	if list := waiting(e); len(list) != 0 {
		t.Errorf("among the groups that wait is one that has ended: %+v", list)
	}
	if said := says(e, a, create(3, 2)); !errors.Is(said.err, raysys.ErrNoCapacity) {
		t.Errorf("the like of it is made: %+v", said)
	}
	if said := says(e, a, create(4, 1)); said.err != nil || said.value.Record.ID.Lo != 4 || said.value.Gone(key) != nil || said.value.Record.Attempt != 1 {
		t.Errorf("a smaller one of the name is made: %+v", said)
	}
}

// waiting lists the groups that wait.
func waiting(e *elsewhere) []LedGroup {
	return slices.DeleteFunc(e.reg.Groups(), func(g LedGroup) bool { return !g.Waits })
}
