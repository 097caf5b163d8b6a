package registry

import (
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/placement"
)

// setClock is a clock that a test sets.
type setClock struct{ now int64 }

func (c *setClock) Now() int64           { return c.now }
func (c *setClock) SetAlarm(*core.Alarm) {}

// TestDecisionsCount: what a leader has given of a node is taken until that node reports, or did not get it. Reports of others do
// not give it back, and neither does a node that comes.
func TestDecisionsCount(t *testing.T) {
	m, clock := newManyNodes(300), &setClock{}
	l := &leader{reg: New(Config{Members: m, Runner: runner.New(clock), Namespace: "test"}), shard: &shardlog.Shard{}, counts: map[core.NodeKey]int{}}
	o := &locate{grain: grain{ns: "test", id: graindir.ID{Kind: "trainer", Key: "a"}}, needs: raysys.Resources{GPU: 2}}
	used := map[core.NodeKey]int{}
	give := func() {
		t.Helper()
		to, err := o.choose(l, core.NodeKey{})
		if err != nil {
			t.Fatal(err)
		}
		used[to]++
		l.counts[to]++
	}
	give()
	m.report(1)
	give()
	m.now.Members++ // a node comes
	give()
	if len(used) != 3 {
		t.Fatalf("three grains of two GPUs went to %v, and three nodes have two each", used)
	}
	free := func() int {
		n := 0
		for i := range l.view().Len() {
			if l.view().At(i).Free.GPU == 2 {
				n++
			}
		}
		return n
	}
	if n := free(); n != 0 {
		t.Fatalf("%d nodes have two GPUs free, and all were given", n)
	}
	m.report(107) // it has not got the grain
	if n := free(); n != 1 {
		t.Fatalf("%d nodes have two GPUs free after one has reported that", n)
	}
	clock.now += int64(takenFor)
	if n := free(); n != 3 {
		t.Fatalf("%d nodes have two GPUs free, and none of three has reported anything else for %v", n, takenFor)
	}
	before := l.view()
	m.report(2)
	if l.view() != before {
		t.Fatal("a report made a new view")
	}
	for k := range used {
		l.uncount(k)
		if n := l.view().Find(k.Node); n.Grains != 0 {
			t.Fatalf("%s has %d grains after its only one went", k, n.Grains)
		}
	}
	if _, err := (groupWorld{l}).Assign(placement.GroupRequest{Strategy: placement.StrictSpread, Bundles: []raysys.Resources{{GPU: 2}, {GPU: 2}}}); err != nil {
		t.Fatal(err)
	}
	m.report(5)
	if n := free(); n != 1 {
		t.Fatalf("%d nodes have two GPUs free, and a group was given those of two of three", n)
	}
}
