package groupengine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
)

// model is a cluster without a network: the log of one shard, its leader, and nodes with real ledgers. What is under way between
// them arrives in any order.
type model struct {
	t      *rapid.T
	now    int64
	log    map[string][]byte    // the records that are committed
	by     map[string]*Progress // of the leader of now
	term   int                  // of the leader of now
	nodes  map[core.NodeKey]*modelNode
	born   uint64
	flying []message
	free   map[core.NodeKey]raysys.Resources // as the leader's view has it
	made   int
	expect bool // workers that the leader's view does not have
}

type modelNode struct {
	*Node
	line     *ledger.Line
	draining bool
	work     []*modelWork
}

// modelWork is work that runs in a bundle.
type modelWork struct {
	group   core.TaskID
	hold    *ledger.Hold
	line    *ledger.Line
	evicted bool
}

func (w *modelWork) Over() bool               { return w.evicted }
func (w *modelWork) Begins(*ledger.Need) bool { return true }
func (w *modelWork) Class() core.Class        { return core.Normal }
func (w *modelWork) Job() *core.Job           { return nil }
func (w *modelWork) Grant(h *ledger.Hold)     { w.hold = h }
func (w *modelWork) Evict(cause error, begun bool) {
	w.evicted = w.evicted || cause != nil || !begun // else it goes on to its end
}

// message is a question or an answer under way.
type message struct {
	to     To
	term   int
	answer bool
	err    error
}

var nodeHas = raysys.Resources{CPU: 4, Memory: 100}

func (m *model) join() {
	m.born++
	k := core.NodeKey{Node: raysys.NodeID(fmt.Sprintf("n%d", m.born)), Incarnation: m.born}
	n := &modelNode{line: &ledger.Line{}}
	n.line.Init(ledger.Of(core.Resources(nodeHas)), nil, ledger.Hooks{Queue: func() (pushed, popped uint64) { return 0, 0 }, Now: func() int64 { return m.now }, Freed: func() {}, Above: func(ledger.Standing) (above, less bool) { return false, false }})
	n.Node = NewNode(func() core.NodeKey { return k }, n.line, func() int64 { return m.now })
	m.nodes[k] = n
}

// Alive implements World.
func (m *model) Alive(k core.NodeKey) bool { return m.nodes[k] != nil }

// Draining implements World.
func (m *model) Draining(k core.NodeKey) bool { n := m.nodes[k]; return n != nil && n.draining }

// Now implements World.
func (m *model) Now() int64 { return m.now }

// Expecting implements World.
func (m *model) Expecting() bool { return m.expect }

// Assign implements World, by a view that may be older than what the nodes have.
func (m *model) Assign(g placement.GroupRequest) ([]core.NodeKey, error) { return m.assign(g, m.free) }

// Gatherable implements World.
func (m *model) Gatherable(g placement.GroupRequest) ([]core.NodeKey, error) { return m.assign(g, nil) }

func (m *model) assign(g placement.GroupRequest, of map[core.NodeKey]raysys.Resources) ([]core.NodeKey, error) {
	var list []placement.Node
	for _, k := range m.sorted() {
		n := m.nodes[k]
		free, known := of[k]
		if !known {
			free = nodeHas
		}
		list = append(list, placement.Node{ID: k.Node, Incarnation: k.Incarnation, Total: nodeHas, Free: free, Worker: true, Draining: n.draining})
	}
	v := placement.NewView("", list)
	at, err := placement.Assign(v, g)
	if err != nil {
		return nil, err
	}
	keys := make([]core.NodeKey, len(at))
	for i, id := range at {
		keys[i] = core.NodeKey{Node: id, Incarnation: v.Find(id).Incarnation}
	}
	return keys, nil
}

func (m *model) record(key string) *Record {
	b, ok := m.log[key]
	if !ok {
		return nil
	}
	in := wire.NewReader(b)
	r, err := Read(&in)
	if err != nil || in.Len() != 0 {
		m.t.Fatalf("a record cannot be read: %v", err)
	}
	return &r
}

func (m *model) commit(key string, r *Record) {
	if before := m.record(key); before != nil && r != nil && before.ID == r.ID {
		if r.Attempt < before.Attempt {
			m.t.Fatalf("attempt %d follows %d", r.Attempt, before.Attempt)
		}
		for i := range r.Bundles {
			was, is := before.Bundles[i], r.Bundles[i]
			if was.At != is.At && is.At != (core.NodeKey{}) && is.Attempt <= was.Attempt {
				m.t.Fatalf("bundle %d goes from %v to %v under attempt %d", i, was.At, is.At, is.Attempt)
			}
		}
	}
	if r == nil {
		for k, n := range m.nodes {
			for _, w := range n.work {
				if w.hold != nil && w.group == m.record(key).ID {
					m.t.Fatalf("the record of %s goes while its work runs at %v", Shown(key), k)
				}
			}
		}
		delete(m.log, key)
		delete(m.by, key)
		return
	}
	m.log[key] = r.Append(nil)
}

// drive is what registry does.
func (m *model) drive(key string) {
	for {
		r := m.record(key)
		if r == nil {
			return
		}
		p := m.by[key]
		if p == nil {
			p = &Progress{}
			m.by[key] = p
		}
		s := p.Step(key, r, m)
		for _, t := range s.Asks {
			m.flying = append(m.flying, message{to: t, term: m.term})
		}
		if !s.Delete && s.Record == nil {
			return
		}
		m.commit(key, s.Record)
	}
}

func (m *model) driveAll() {
	for _, key := range slices.Sorted(maps.Keys(m.log)) {
		m.drive(key)
	}
}

// deliver takes message i: a question that arrives, an answer, or the end of its connection.
func (m *model) deliver(i int, lost bool) {
	msg := m.flying[i]
	m.flying = slices.Delete(m.flying, i, i+1)
	n := m.nodes[msg.to.Node]
	answer := func(err error) {
		if msg.to.Answered {
			m.flying = append(m.flying, message{to: msg.to, term: msg.term, answer: true, err: err})
		}
	}
	switch {
	case msg.answer:
		if msg.term != m.term { // of a leader that is no more
			return
		}
		if p := m.by[msg.to.Group]; p != nil {
			if r := m.record(msg.to.Group); r != nil && r.ID == msg.to.ID {
				if p.Answer(msg.to, msg.err) && (msg.err == nil || msg.to.Verb != Release) { // else after a pause
					m.drive(msg.to.Group)
				}
			}
		}
	case n == nil || lost:
		answer(raysys.ErrUnreachable)
	default:
		n.Do(msg.to.Ask, answer)
	}
}

// silent is what time does where nobody speaks: each node asks about the groups of which it has heard nothing, and stops to gather for a leader that is silent.
func (m *model) silent() {
	for _, k := range m.sorted() {
		n := m.nodes[k]
		n.EndOverdue()
		for _, key := range n.Silent() {
			m.drive(key)
			n.Compare(key, m.record(key))
		}
	}
}

func (m *model) sorted() []core.NodeKey {
	return slices.SortedFunc(maps.Keys(m.nodes), func(a, b core.NodeKey) int { return int(a.Incarnation) - int(b.Incarnation) })
}

// report has the leader's view be as the nodes are.
func (m *model) report() {
	m.free = map[core.NodeKey]raysys.Resources{}
	for k, n := range m.nodes {
		m.free[k] = raysys.Resources(n.line.Free().Resources())
	}
}

// small has work of one CPU come to the node that is in no group.
func (m *model) small(k core.NodeKey) {
	n := m.nodes[k]
	w := &modelWork{line: n.line}
	n.work = append(n.work, w)
	n.line.Push(ledger.Need{CPU: 1000}, w)
}

// finish has all work of a node return that runs, or begins meanwhile.
func (m *model) finish(k core.NodeKey) {
	n := m.nodes[k]
	for {
		i := slices.IndexFunc(n.work, func(w *modelWork) bool { return w.hold != nil })
		if i < 0 {
			return
		}
		w := n.work[i]
		n.work = slices.Delete(n.work, i, i+1)
		n.line.Return(w.hold)
	}
}

// TestGroupLaws: whatever groups are made and removed, nodes join, drain and die, leaders change, other work takes room, which is
// gathered, and in whatever order what is under way arrives, or is lost: no node gives more than it has, no group has two assignments under an attempt, the strict
// strategies hold, and in the end nodes have the bundles of the log and nothing else.
func TestGroupLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{t: t, log: map[string][]byte{}, by: map[string]*Progress{}, nodes: map[core.NodeKey]*modelNode{}}
		for range 3 {
			m.join()
		}
		anyNode := func(label string) core.NodeKey { return rapid.SampledFrom(m.sorted()).Draw(t, label) }
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			keys := slices.Sorted(maps.Keys(m.log))
			switch step := rapid.IntRange(0, 24).Draw(t, "step"); {
			case step < 3:
				m.made++
				// A name is used again by a later group.
				key := NameKey("ns", fmt.Sprintf("g%d", rapid.IntRange(0, 3).Draw(t, "name")))
				if was := m.record(key); was != nil && was.Never == "" {
					break
				}
				r := Record{ID: core.TaskID{Hi: uint64(m.made)}, Made: rapid.Int64Range(0, 2).Draw(t, "made"), Strategy: rapid.SampledFrom(placement.GroupStrategies).Draw(t, "strategy")}
				if rapid.Bool().Draw(t, "owned") {
					r.Owner = anyNode("owner")
				}
				for range rapid.IntRange(1, 3).Draw(t, "bundles") {
					r.Bundles = append(r.Bundles, Bundle{Needs: raysys.Resources{CPU: float64(rapid.IntRange(1, 3).Draw(t, "cpu"))}})
				}
				if next, err := New(r, m); err == nil {
					delete(m.by, key)
					m.commit(key, next)
					m.drive(key)
				} else if !errors.Is(err, raysys.ErrNoCapacity) {
					t.Fatal(err)
				}
			case step == 3 && len(keys) > 0:
				key := rapid.SampledFrom(keys).Draw(t, "removed")
				if r := m.record(key); !r.Removing {
					m.commit(key, Remove(r))
					m.drive(key)
				}
			case step == 4 && len(m.nodes) > 1:
				delete(m.nodes, anyNode("dead"))
				m.driveAll()
			case step == 5 && len(m.nodes) < 5:
				m.join()
			case step == 6:
				m.term, m.by = m.term+1, map[string]*Progress{}
				m.driveAll()
			case step == 7 && len(m.nodes) > 1:
				n := m.nodes[anyNode("draining")]
				n.draining = !n.draining
				n.Leave(nil)
				if n.draining {
					n.Leave(raysys.ErrOverloaded)
				}
			case step == 8:
				m.now += int64(Patience)
				m.silent()
			case step == 9:
				m.report()
				m.driveAll()
			case step == 10:
				k := anyNode("works")
				n := m.nodes[k]
				for _, b := range n.line.All() {
					if r := m.record(b.Group); r == nil || r.ID != n.groups[b.Group].id || r.Bundles[b.Index].At != k || !r.Bundles[b.Index].Held {
						continue // clients know of bundles that are held
					}
					w := &modelWork{line: n.line, group: n.groups[b.Group].id}
					if ok, _ := n.line.PushIn(ledger.Need{CPU: 1000, Bundle: b}, w); ok {
						n.work = append(n.work, w)
					}
				}
			case step == 11:
				m.finish(anyNode("finishes"))
			case step == 20:
				m.small(anyNode("small work"))
			case step == 21:
				m.now += int64(core.AgeStep)
				m.driveAll()
			case step == 23:
				m.expect = !m.expect
				m.driveAll()
			case step == 22:
				m.now += int64(gatherFirst)
				m.silent()
				m.driveAll()
			case len(m.flying) > 0:
				m.deliver(rapid.IntRange(0, len(m.flying)-1).Draw(t, "arrives"), step == 12)
			}
			m.check()
		}
		m.expect = false
		m.settle()
		want, got := m.wanted(), m.held()
		for _, key := range slices.Sorted(maps.Keys(m.log)) {
			if r := m.record(key); r.Hopes {
				t.Fatalf("no worker is expected, and %s hopes for one: %+v", Shown(key), r)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the nodes have other bundles than the log:\n%s", diff)
		}
		for _, key := range slices.Sorted(maps.Keys(m.log)) {
			m.commit(key, Remove(m.record(key)))
			m.drive(key)
		}
		m.settle()
		for k, n := range m.nodes {
			if free := n.line.Free().CPU; free != 4000 || len(m.log) != 0 {
				t.Fatalf("all groups are removed: %d records are left, and node %v has %d thousandths of CPU free of 4000", len(m.log), k, free)
			}
		}
	})
}

// settle lets all that is under way arrive, all work end, and time pass.
func (m *model) settle() {
	for range 20 {
		for left := 1000; len(m.flying) > 0; left-- {
			if left == 0 {
				m.t.Fatal("a group that waits for room tries again and again")
			}
			m.deliver(0, false)
		}
		for k := range m.nodes {
			m.finish(k)
		}
		m.report()
		m.driveAll()
		m.now += int64(Patience)
		m.silent()
	}
	for len(m.flying) > 0 {
		m.deliver(0, false)
	}
}

// check is what holds at any time.
func (m *model) check() {
	for key := range m.log {
		r := m.record(key)
		if r.Never != "" && (r.Hopes || r.Attempt > 0 || r.Waits) {
			m.t.Fatalf("a group has ended that the nodes once were enough for, or that is to wait: %+v", r)
		}
		nodes := map[core.NodeKey]int{}
		for _, b := range r.Bundles {
			if b.At != (core.NodeKey{}) && m.Alive(b.At) {
				nodes[b.At]++
			}
			if b.Held && m.Alive(b.At) && !r.Removing && !m.has(b.At, key, r.ID, b.Attempt) {
				m.t.Fatalf("the log has a bundle of %s as held at %v, which has none under attempt %d", Shown(key), b.At, b.Attempt)
			}
		}
		for k, n := range nodes {
			if r.Strategy == placement.StrictSpread && n > 1 {
				m.t.Fatalf("%d bundles at %v with %s", n, k, r.Strategy)
			}
		}
		if r.Strategy == placement.StrictPack && len(nodes) > 1 {
			m.t.Fatalf("bundles at %d nodes with %s", len(nodes), r.Strategy)
		}
	}
}

func (m *model) has(k core.NodeKey, key string, id core.TaskID, attempt uint64) bool {
	g := m.nodes[k].groups[key]
	if g == nil || g.id != id {
		return false
	}
	for _, b := range g.bundles {
		if b.attempt == attempt {
			return true
		}
	}
	return false
}

// wanted are the bundles by the log, held those at the nodes.
func (m *model) wanted() map[string]uint64 {
	list := map[string]uint64{}
	for key := range m.log {
		for i, b := range m.record(key).Bundles {
			if b.At != (core.NodeKey{}) && m.Alive(b.At) {
				list[fmt.Sprintf("%s %d at %v, held %v", Shown(key), i, b.At, b.Held)] = b.Attempt
			}
		}
	}
	return list
}

func (m *model) held() map[string]uint64 {
	list := map[string]uint64{}
	for k, n := range m.nodes {
		for key, g := range n.groups {
			for i, b := range g.bundles {
				list[fmt.Sprintf("%s %d at %v, held %v", Shown(key), i, k, b.held)] = b.attempt
			}
		}
	}
	return list
}
