package groupengine

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/placement"
)

// busy keeps work of one CPU waiting at each node, more than it has room for.
func (m *model) busy() {
	for _, k := range m.sorted() {
		for n := m.nodes[k]; len(n.work) < 8; {
			m.small(k)
		}
	}
}

// end has one piece of the work that runs on each node return, and more come.
func (m *model) end() {
	for _, k := range m.sorted() {
		n := m.nodes[k]
		if i := slices.IndexFunc(n.work, func(w *modelWork) bool { return w.hold != nil }); i >= 0 {
			w := n.work[i]
			n.work = slices.Delete(n.work, i, i+1)
			n.line.Return(w.hold)
		}
	}
	m.busy()
}

// oldest is the group that was made first of those that wait; "" for none.
func (m *model) oldest() (key string) {
	var first Ask
	for _, k := range slices.Sorted(maps.Keys(m.log)) {
		r := m.record(k)
		if a := (Ask{ID: r.ID, Made: r.Made}); !r.Removing && (key == "" || a.before(&first)) {
			key, first = k, a
		}
	}
	return key
}

// TestGatheringLaws: while each node has more small work than room, which takes whatever becomes free, and other groups come and go, the
// oldest group gets its room soon, if it fits on the idle nodes. It does so in whatever order answers come, and soon after a leader
// has changed or a message is lost. In the end nothing is kept for any.
func TestGatheringLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{t: t, log: map[string][]byte{}, by: map[string]*Progress{}, nodes: map[core.NodeKey]*modelNode{}}
		for range 3 {
			m.join()
		}
		m.busy()
		m.report()
		create := func() {
			m.made++
			r := Record{ID: core.TaskID{Hi: uint64(m.made)}, Made: int64(m.made / 2), Strategy: rapid.SampledFrom(placement.GroupStrategies).Draw(t, "strategy")}
			for range rapid.IntRange(1, 3).Draw(t, "bundles") {
				r.Bundles = append(r.Bundles, Bundle{Needs: raysys.Resources{CPU: float64(rapid.IntRange(1, 4).Draw(t, "cpu"))}})
			}
			if next, err := New(r, m); err == nil {
				key := NameKey("ns", fmt.Sprint(m.made))
				m.commit(key, next)
				m.drive(key)
			}
		}
		most, disturbances := rapid.IntRange(1, 8).Draw(t, "groups"), rapid.IntRange(0, 4).Draw(t, "disturbances")
		since, oldest := m.now, ""
		for m.made < most || oldest != "" {
			for m.made < most && len(m.log) < 3 {
				create()
			}
			if key := m.oldest(); key != oldest {
				oldest, since = key, m.now
			} else if m.now-since > int64(core.AgeStep+20*time.Second) {
				t.Fatalf("%s of %d groups, made first, waits beside %d others: %+v", Shown(key), most, len(m.log)-1, m.record(key))
			}
			for under := len(m.flying); under > 0; under-- {
				if rapid.IntRange(0, 3).Draw(t, "later") == 0 && m.now%int64(time.Second) != 0 { // each arrives within a second
					continue
				}
				lost := disturbances > 0 && rapid.IntRange(0, 49).Draw(t, "lost") == 0
				if lost {
					disturbances, since = disturbances-1, m.now
				}
				m.deliver(rapid.IntRange(0, under-1).Draw(t, "arrives"), lost)
			}
			if disturbances > 0 && rapid.IntRange(0, 99).Draw(t, "leader") == 0 {
				disturbances, since = disturbances-1, m.now
				m.term, m.by = m.term+1, map[string]*Progress{}
			}
			m.now += int64(pause)
			if m.now%int64(time.Second) == 0 {
				m.end()
			}
			if m.now%int64(Patience) == 0 {
				m.silent()
			}
			m.report()
			m.driveAll()
			for _, key := range slices.Sorted(maps.Keys(m.log)) {
				if r := m.record(key); r.Ready() {
					m.commit(key, Remove(r))
					m.drive(key)
				}
			}
			m.check()
		}
		m.settle()
		for k, n := range m.nodes {
			if n.gatherer != nil || n.line.Free().CPU != 4000 {
				t.Fatalf("no group is left, and node %v gathers for %+v and has %d thousandths of CPU free of 4000", k, n.gatherer, n.line.Free().CPU)
			}
		}
	})
}
