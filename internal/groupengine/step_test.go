package groupengine

import (
	"errors"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/placement"
)

// given is a World of nodes with room for one bundle each.
type given struct {
	nodes    []core.NodeKey // in the order in which they are chosen
	draining core.NodeKey
	avoided  []raysys.NodeID
	now      int64
	full     bool // nothing is free
	expects  bool // workers that are not among the nodes
}

func key(name raysys.NodeID) core.NodeKey { return core.NodeKey{Node: name, Incarnation: 1} }

func (w *given) Alive(k core.NodeKey) bool {
	for _, n := range w.nodes {
		if n == k {
			return true
		}
	}
	return false
}

func (w *given) Draining(k core.NodeKey) bool { return k == w.draining }

func (w *given) Now() int64 { return w.now }

func (w *given) Expecting() bool { return w.expects }

func (w *given) Assign(g placement.GroupRequest) ([]core.NodeKey, error) {
	w.avoided = g.Avoid
	if w.full {
		return nil, placement.ErrNoNode
	}
	return w.Gatherable(g)
}

func (w *given) Gatherable(g placement.GroupRequest) ([]core.NodeKey, error) {
	var list []placement.Node
	for _, n := range w.nodes {
		list = append(list, placement.Node{ID: n.Node, Incarnation: 1, Worker: true, Draining: n == w.draining, Total: raysys.Resources{CPU: 1}, Free: raysys.Resources{CPU: 1}})
	}
	for _, at := range g.At {
		for i := range list {
			if list[i].ID == at {
				list[i].Free.CPU = 0
			}
		}
	}
	at, err := placement.Assign(placement.NewView("", list), g)
	var keys []core.NodeKey
	for _, id := range at {
		keys = append(keys, key(id))
	}
	return keys, err
}

// TestNewHasNotBegun: what a node that makes a group says of its course does not count.
func TestNewHasNotBegun(t *testing.T) {
	w := &given{nodes: []core.NodeKey{key("a"), key("b")}}
	r := two(1<<64-1, true, "x", "y")
	r.Removing, r.Left = true, []core.NodeKey{key("a")}
	next, err := New(*r, w)
	if err != nil || next.Removing || next.Attempt != 1 || len(next.Left) > 0 {
		t.Fatalf("it is removed: %v, attempt %d, left %v, %v", next.Removing, next.Attempt, next.Left, err)
	}
	for i, b := range next.Bundles {
		if b.Held || b.Attempt != 1 || b.At == r.Bundles[i].At {
			t.Errorf("bundle %d: %+v", i, b)
		}
	}
}

// two is a group of two bundles, at these nodes under an attempt.
func two(attempt uint64, held bool, at ...raysys.NodeID) *Record {
	r := &Record{Strategy: placement.Spread, Attempt: attempt}
	for _, n := range at {
		r.Bundles = append(r.Bundles, Bundle{Needs: raysys.Resources{CPU: 1}, At: key(n), Attempt: attempt, Held: held})
	}
	return r
}

func verbs(s Step) (list []Verb) {
	for _, a := range s.Asks {
		list = append(list, a.Verb)
	}
	return list
}

// TestRefusedAttempt: where one node refuses its bundle the attempt is over, all of its nodes are told so, the next goes past the
// node, and a group without room waits longer after each.
func TestRefusedAttempt(t *testing.T) {
	w := &given{nodes: []core.NodeKey{key("a"), key("b")}}
	p, r := &Progress{}, two(1, false, "a", "b")
	s := p.Step("g", r, w)
	if len(s.Asks) != 2 || s.Asks[0].Verb != Prepare || s.Record != nil {
		t.Fatalf("the first step: %+v", s)
	}
	if !p.Answer(s.Asks[0], nil) || !p.Answer(s.Asks[1], errors.New("full")) {
		t.Fatal("answers without a step")
	}
	s = p.Step("g", r, w)
	if s.Record == nil || s.Record.Bundles[0].At != (core.NodeKey{}) || s.Record.Bundles[1].At != (core.NodeKey{}) {
		t.Fatalf("after a refusal: %+v", s)
	}
	s = p.Step("g", s.Record, w)
	if got := verbs(s); len(got) != 2 || got[0] != Drop || got[1] != Drop {
		t.Errorf("the nodes of an attempt that is over are asked to do %v", got)
	}
	if len(w.avoided) != 1 || w.avoided[0] != "b" || s.Wait != 2*pause {
		t.Errorf("the next attempt avoids %v, and waits for %v where there is no room", w.avoided, s.Wait)
	}
}

// TestDeathWhilePreparing: the death of a node ends an attempt at once: nothing is to be awaited from it.
func TestDeathWhilePreparing(t *testing.T) {
	w := &given{nodes: []core.NodeKey{key("a"), key("b")}}
	p, r := &Progress{}, two(1, false, "a", "b")
	p.Step("g", r, w)
	w.nodes = w.nodes[:1]
	if s := p.Step("g", r, w); s.Record == nil || s.Record.Bundles[0].At != (core.NodeKey{}) {
		t.Errorf("one of two nodes has died: %+v", s)
	}
}

// TestHeldIsTold: the nodes of a group are told once that their bundles are held.
func TestHeldIsTold(t *testing.T) {
	w := &given{nodes: []core.NodeKey{key("a"), key("b")}}
	p, r := &Progress{}, two(1, true, "a", "b")
	if got := verbs(p.Step("g", r, w)); len(got) != 2 || got[0] != Hold || got[1] != Hold {
		t.Errorf("the nodes are asked to do %v", got)
	}
	if got := verbs(p.Step("g", r, w)); got != nil {
		t.Errorf("the nodes are asked again, to do %v", got)
	}
}

// TestDeathWhileDraining: a bundle of a dead node is placed anew also where one of a draining node has nowhere to go, which stays.
func TestDeathWhileDraining(t *testing.T) {
	w := &given{nodes: []core.NodeKey{key("a"), key("c")}, draining: key("a")}
	s := (&Progress{}).Step("g", two(1, true, "a", "dead"), w)
	if s.Record == nil || s.Record.Bundles[0].At != key("a") || !s.Record.Bundles[0].Held || s.Record.Bundles[1].At != key("c") {
		t.Errorf("after a death beside a drain: %+v", s)
	}
}

// TestLostBundleWithoutRoom: a bundle whose node is dead is not held, also while no other node has room for it; the bundles that live
// stay, and the attempt begins once there is room.
func TestLostBundleWithoutRoom(t *testing.T) {
	w := &given{nodes: []core.NodeKey{key("a")}}
	p, r := &Progress{}, two(1, true, "a", "b")
	s := p.Step("g", r, w)
	if s.Record == nil || s.Record.Ready() || !s.Record.Bundles[0].Held || s.Record.Bundles[1].At != (core.NodeKey{}) || s.Record.Attempt != 1 {
		t.Fatalf("b is dead, and a has no room: %+v", s)
	}
	if s = p.Step("g", s.Record, w); s.Record != nil || s.Wait == 0 || len(s.Asks) != 0 {
		t.Fatalf("no room for a bundle without a node: %+v", s)
	}
	r = two(1, true, "a", "b")
	r.Bundles[1] = Bundle{Needs: r.Bundles[1].Needs}
	w.nodes = append(w.nodes, key("c"))
	if s = p.Step("g", r, w); s.Record == nil || s.Record.Attempt != 2 || s.Record.Bundles[1].At != key("c") || !s.Record.Bundles[0].Held {
		t.Errorf("c has room: %+v", s)
	}
}

// TestHope: a group that no node could ever have is made while workers are about to join, and ends once these are there and could not
// either. One that could be, with or without room, waits from then on whatever becomes of the nodes; so does one that is to wait.
func TestHope(t *testing.T) {
	a, b, c := key("a"), key("b"), key("c")
	for name, try := range map[string]struct {
		waits bool
		then  []core.NodeKey // the nodes once none is expected
		full  bool
		hopes bool // while workers are expected
		never bool
	}{
		"too few join":                           {then: []core.NodeKey{a, b}, hopes: true, never: true},
		"none joins":                             {then: []core.NodeKey{a}, hopes: true, never: true},
		"enough join":                            {then: []core.NodeKey{a, b, c}, hopes: true},
		"enough join without room":               {then: []core.NodeKey{a, b, c}, full: true, hopes: true},
		"too few join, and the group is to wait": {then: []core.NodeKey{a, b}, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := &given{nodes: []core.NodeKey{a}, expects: true}
			asked := *free(3)
			asked.Waits = try.waits
			r, err := New(asked, w)
			if err != nil || r.Hopes != try.hopes {
				t.Fatalf("a group of three bundles for one node, with others about to join: %+v, %v", r, err)
			}
			if s := (&Progress{}).Step("g", r, w); s.Record != nil || s.Wait == 0 {
				t.Fatalf("it does not wait for them: %+v", s)
			}
			w.nodes, w.expects, w.full = try.then, false, try.full
			p := &Progress{} // of another leader
			s := p.Step("g", r, w)
			if s.Record != nil {
				r = s.Record
			}
			e := Entry{Exists: true, Record: *r}
			if err := e.Gone("p/x\x00g"); errors.Is(err, raysys.ErrNoCapacity) != try.never || !try.never && err != nil || r.Hopes {
				t.Fatalf("once they are there: %v of %+v", err, r)
			}
			if s = p.Step("g", r, w); try.never && (s.Record != nil || s.Wait != 0 || len(s.Asks) != 0) {
				t.Errorf("what follows for a group that has ended: %+v", s)
			}
			w.nodes = []core.NodeKey{a}
			for range 3 {
				if s = p.Step("g", r, w); s.Record != nil {
					r = s.Record
				}
			}
			if !try.never && (r.Never != "" || r.Ready() || s.Wait == 0) {
				t.Errorf("all but one of its nodes have died, and it does not wait: %+v of %+v", s, r)
			}
			if s = p.Step("g", Remove(r), w); s.Delete == (len(s.Asks) > 0) {
				t.Errorf("it is removed, and its record stays: %+v", s)
			}
		})
	}
	if _, err := New(*free(3), &given{nodes: []core.NodeKey{a}}); !errors.Is(err, raysys.ErrNoCapacity) {
		t.Errorf("with no worker about to join: %v", err)
	}
}
