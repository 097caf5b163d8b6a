package groupengine

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// waiting is a group of two bundles that has waited for so long, and what its leader asks then.
func waiting(w *given, p *Progress, r *Record, waited time.Duration) Step {
	w.full, w.now = true, max(w.now, 1)
	p.Step("g", r, w)
	w.now += int64(waited)
	return p.Step("g", r, w)
}

func free(n int) *Record {
	r := two(1, false, slices.Repeat([]raysys.NodeID{"a"}, n)...)
	for i := range r.Bundles {
		r.Bundles[i] = Bundle{Needs: r.Bundles[i].Needs}
	}
	return r
}

// asks says which nodes a step asks for how many bundles.
func asks(s Step) (list []string) {
	for _, t := range s.Asks {
		word := "gather"
		if t.Verb != Gather {
			word = "other"
		} else if len(t.Bundles) == 0 {
			word = "end"
		}
		list = append(list, word+" "+string(t.Node.Node))
	}
	slices.Sort(list)
	return list
}

func wantAsks(t *testing.T, what string, s Step, want ...string) {
	t.Helper()
	if got := asks(s); !slices.Equal(got, want) {
		t.Errorf("%s: the nodes are asked to %q, want %q", what, got, want)
	}
}

var errFull = errors.New("full")

// TestGatheredAttempt: a group that has waited for core.AgeStep has nodes gather its room. They are asked again, what they answered before
// counts no more, and once all have it the attempt is at these.
func TestGatheredAttempt(t *testing.T) {
	w := &given{nodes: []core.NodeKey{key("a"), key("b"), key("c")}}
	p, r := &Progress{}, free(2)
	if s := waiting(w, p, r, core.AgeStep-1); len(s.Asks) != 0 || s.Wait != 1 {
		t.Fatalf("before it has waited for long: %+v", s)
	}
	w.now++
	s := p.Step("g", r, w)
	wantAsks(t, "now", s, "gather a", "gather b")
	if s.Wait == 0 || p.Gathers() {
		t.Errorf("while nodes gather: %+v", s)
	}
	first := s.Asks
	wantAsks(t, "at once", p.Step("g", r, w))
	if p.Answer(first[0], nil) {
		t.Error("one of two nodes has the room, and something follows")
	}
	w.now += int64(gatherEvery)
	s = p.Step("g", r, w)
	wantAsks(t, "later", s, "gather a", "gather b")
	if !p.Gathers() {
		t.Error("no node has refused, and the nodes are not said to gather")
	}
	if !slices.Equal(w.avoided, []raysys.NodeID{"a", "b"}) && !slices.Equal(w.avoided, []raysys.NodeID{"b", "a"}) {
		t.Errorf("attempts beside the gathering avoid %q", w.avoided)
	}
	if p.Answer(first[1], nil) || p.Answer(s.Asks[1], nil) || !p.Answer(s.Asks[0], nil) {
		t.Error("a step follows from the answers of all nodes to the last question, and no other")
	}
	s = p.Step("g", r, w)
	if b := s.Record; b == nil || b.Attempt != 2 || b.Bundles[0].At != key("a") || b.Bundles[1].At != key("b") || b.Bundles[0].Held {
		t.Fatalf("both nodes have the room: %+v", s)
	}
	r = s.Record
	s = p.Step("g", r, w)
	if got := verbs(s); !slices.Equal(got, []Verb{Prepare, Prepare}) {
		t.Fatalf("then the nodes are asked to do %v", got)
	}
	p.Answer(s.Asks[0], nil)
	p.Answer(s.Asks[1], errFull)
	r = p.Step("g", r, w).Record
	if s = p.Step("g", r, w); p.Gathers() || s.Wait == 0 {
		t.Errorf("at once after a node has refused what it had gathered: %+v", s)
	}
}

// TestGatheringFails: a node that refuses is avoided, and the others that gathered go on for what they are asked for then. Where
// nodes have gathered in vain there is a pause for as long, and they may take longer then.
func TestGatheringFails(t *testing.T) {
	w := &given{nodes: []core.NodeKey{key("a"), key("b"), key("c")}}
	p, r := &Progress{}, free(2)
	s := waiting(w, p, r, core.AgeStep)
	if p.Answer(s.Asks[0], errFull) {
		t.Error("the other node has not answered")
	}
	wantAsks(t, "after a refusal", p.Step("g", r, w), "gather b", "gather c")
	w.now += int64(gatherFirst) - 1
	s = p.Step("g", r, w)
	wantAsks(t, "while there is time", s, "gather b", "gather c")
	p.Answer(s.Asks[0], nil)
	w.now++
	s = p.Step("g", r, w)
	wantAsks(t, "in vain", s, "end b", "end c")
	w.now += int64(gatherFirst) - 1
	wantAsks(t, "in the pause", p.Step("g", r, w))
	w.now++
	s = p.Step("g", r, w) // a and c are avoided: b alone is not enough
	wantAsks(t, "when too few nodes are left", s)
	w.now += int64(gatherRest)
	wantAsks(t, "anew", p.Step("g", r, w), "gather a", "gather b")
	w.now += int64(2*gatherFirst) - 1
	wantAsks(t, "for twice as long", p.Step("g", r, w), "gather a", "gather b")
	w.now++
	wantAsks(t, "for no longer", p.Step("g", r, w), "end a", "end b")
}

// TestGatheringEnds: nodes gather no more when the group goes, when it has got its room elsewhere, and when one of them dies.
func TestGatheringEnds(t *testing.T) {
	start := func() (*given, *Progress, *Record) {
		w := &given{nodes: []core.NodeKey{key("a"), key("b"), key("c")}}
		p, r := &Progress{}, free(2)
		wantAsks(t, "at first", waiting(w, p, r, core.AgeStep), "gather a", "gather b")
		return w, p, r
	}
	w, p, r := start()
	s := p.Step("g", Remove(r), w)
	wantAsks(t, "removed", s, "end a", "end b")
	if !s.Delete {
		t.Errorf("a group without bundles at nodes is removed: %+v", s)
	}

	w, p, _ = start()
	placed := two(2, true, "c", "c")
	wantAsks(t, "placed", p.Step("g", placed, w), "end a", "end b", "other c")
	if s := p.Step("g", free(2), w); len(s.Asks) != 0 {
		t.Errorf("a group that waits again is as one that has not waited: %+v", s)
	}

	w, p, r = start()
	w.nodes = w.nodes[1:]
	wantAsks(t, "a has died", p.Step("g", r, w), "gather b", "gather c")

	w, p, _ = start()
	one := free(2)
	one.Bundles[0] = Bundle{Needs: one.Bundles[0].Needs, At: key("c"), Attempt: 1, Held: true}
	wantAsks(t, "a bundle has a node", p.Step("g", one, w), "end b", "gather a")
}
