package objects

import (
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// silent is a clock whose alarms never ring by themselves.
type silent struct{ set []*core.Alarm }

func (*silent) Now() int64                  { return 0 }
func (s *silent) SetAlarm(a *core.Alarm)    { s.set = append(s.set, a) }
func (*silent) ClearAlarm(*core.Alarm) bool { return true }

// ring rings all alarms that are set, and returns how many are set by that.
func (s *silent) ring() int {
	all := s.set
	s.set = nil
	for _, a := range all {
		a.Ring()
	}
	return len(s.set)
}

// alone opens objects in a process without a cluster, whose States cannot be read.
func alone(t *testing.T) *Objects {
	t.Helper()
	o, err := Open(Config{
		Node: "n", Namespace: "test", Job: &core.Job{}, Clock: &silent{}, Log: zap.NewNop(), Store: objectstore.Config{Cluster: "test"},
		Records: func() (*registry.Registry, error) { return nil, raysys.ErrClosed },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

// retained is a new object to which a State's first n versions refer, and the key of that State.
func retained(t *testing.T, o *Objects, n int) (c *core.Future, key string, oid raysys.TaskID) {
	t.Helper()
	r := raysys.Ready(make([]byte, 1<<20))
	c = core.FutureOf(r.Link)
	oid, err := o.ensure(c)
	if err != nil {
		t.Fatal(err)
	}
	key = registry.StateKey("test", graindir.ID{Kind: "kind", Key: "key"}, "n")
	for range n {
		if err := o.retainHere(key, oid); err != nil {
			t.Fatal(err)
		}
	}
	return c, key, oid
}

// TestLaterRetentionStays: the end of a State's earlier retention of an object leaves a later one.
func TestLaterRetentionStays(t *testing.T) {
	o := alone(t)
	c, key, oid := retained(t, o, 2)
	o.Drop(c)
	(&retention{o: o, key: key, oid: oid, number: 1}).end()
	if o.store.Lookup(oid) == nil {
		t.Fatal("the end of the first retention freed what the second still retains")
	}
	(&retention{o: o, key: key, oid: oid, number: 2}).end()
	if o.store.Lookup(oid) != nil {
		t.Error("the object stays after its last retention")
	}
}

// TestOneWatch: however often a State that lists an object is written, one retention watches its record.
func TestOneWatch(t *testing.T) {
	o := alone(t)
	c, _, _ := retained(t, o, 10)
	const each = 2 // its next question, and the end of its grace
	if n := o.clock.(*silent).ring(); n != each {
		t.Errorf("after 10 writes %d alarms are set, want the %d of the last retention: each further write costs a watch", n, each)
	}
	o.Drop(c)
}
