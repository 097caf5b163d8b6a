package groupengine

import (
	"errors"
	"slices"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/ledger"
)

// alone is one node with 4 CPUs, and a clock that stands still.
type alone struct {
	*Node
	t    *testing.T
	line ledger.Line
	now  int64
}

func newAlone(t *testing.T) *alone {
	n := &alone{t: t}
	n.line.Init(ledger.Need{CPU: 4000}, nil, ledger.Hooks{
		Queue: func() (pushed, popped uint64) { return 0, 0 }, Now: func() int64 { return n.now }, Freed: func() {}, Above: func(ledger.Standing) (above, less bool) { return false, false },
	})
	n.Node = NewNode(func() core.NodeKey { return core.NodeKey{Node: "n", Incarnation: 1} }, &n.line, func() int64 { return n.now })
	return n
}

// do does what a leader asks for a group: bundles of so many CPUs are prepared.
func (n *alone) do(v Verb, id, attempt uint64, cpus ...float64) (err error) {
	a := Ask{Verb: v, Group: "g", ID: core.TaskID{Hi: id}, Attempt: attempt}
	for i, c := range cpus {
		a.Bundles = append(a.Bundles, Asked{i, raysys.Resources{CPU: c}})
	}
	n.Do(a, func(e error) { err = e })
	return err
}

// want says how many bundles are here, and how many CPUs are free.
func (n *alone) want(what string, bundles int, free int64) {
	n.t.Helper()
	if got := n.line.Free().CPU; n.Len() != bundles || got != free*1000 {
		n.t.Errorf("%s: %d bundles, and %d thousandths of CPU are free, want %d and %d CPUs", what, n.Len(), got, bundles, free)
	}
}

// TestNodeAllOrNothing: a node prepares all bundles of an attempt or none of them.
func TestNodeAllOrNothing(t *testing.T) {
	n := newAlone(t)
	if err := n.do(Prepare, 1, 1, 2, 3); !errors.Is(err, raysys.ErrOverloaded) {
		t.Errorf("two bundles of which one has no room: %v", err)
	}
	n.want("after a refusal", 0, 4)
	if err := n.do(Prepare, 1, 2, 2, 1); err != nil {
		t.Error(err)
	}
	n.want("after an attempt that fits", 2, 1)
	if err := n.do(Prepare, 1, 1, 1, 1); !errors.Is(err, raysys.ErrMoved) {
		t.Errorf("an attempt that is over: %v", err)
	}
	n.want("after an earlier attempt", 2, 1)
}

// TestNodeBundleTwice: a leader that names a bundle twice gets it once, and all of its room is free again.
func TestNodeBundleTwice(t *testing.T) {
	n := newAlone(t)
	two := Asked{0, raysys.Resources{CPU: 2}}
	a := Ask{Verb: Prepare, Group: "g", ID: core.TaskID{Hi: 1}, Attempt: 1, Bundles: []Asked{two, two}}
	n.Do(a, func(err error) {
		if err != nil {
			t.Error(err)
		}
	})
	n.want("named twice", 1, 2)
	n.do(Release, 1, 1)
	n.want("released", 0, 4)
}

// TestNodeDrop: a bundle that the log has as held stays where an attempt is dropped, and where an earlier one is released.
func TestNodeDrop(t *testing.T) {
	n := newAlone(t)
	for _, err := range []error{n.do(Prepare, 1, 2, 2), n.do(Hold, 1, 2), n.do(Drop, 1, 2), n.do(Release, 1, 1)} {
		if err != nil {
			t.Error(err)
		}
	}
	n.want("held", 1, 2)
	n.do(Prepare, 1, 3, 2, 1)
	n.do(Drop, 1, 2)
	n.want("dropped under another attempt", 2, 1)
	n.do(Drop, 1, 3)
	n.want("dropped", 0, 4)
}

// TestNodeHoldsOneAttempt: a bundle of an attempt that is over, of which the drop was lost, does not count as held since a later
// attempt is: the node asks about it soon, and a late drop gives its room back.
func TestNodeHoldsOneAttempt(t *testing.T) {
	n := newAlone(t)
	n.do(Prepare, 1, 1, 1, 1)
	at := func(attempt uint64, index int) Ask {
		return Ask{Verb: Prepare, Group: "g", ID: core.TaskID{Hi: 1}, Attempt: attempt, Bundles: []Asked{{index, raysys.Resources{CPU: 1}}}}
	}
	n.Do(at(2, 1), func(error) {})
	n.do(Hold, 1, 2)
	n.now = int64(Patience)
	if got := n.Silent(); !slices.Equal(got, []string{"g"}) {
		t.Errorf("after %v the node asks about %q", Patience, got)
	}
	n.do(Drop, 1, 1)
	n.want("after the late drop", 1, 3)
	n.do(Drop, 1, 2)
	n.want("the held one", 1, 3)
}

// TestNodeLeaves: a node that leaves takes no bundles, and asks about those that it has.
func TestNodeLeaves(t *testing.T) {
	n, why := newAlone(t), errors.New("the node drains")
	n.do(Prepare, 1, 1, 1)
	if got := n.Silent(); got != nil {
		t.Errorf("a bundle without news for no time is asked about: %q", got)
	}
	n.Leave(why)
	if err := n.do(Prepare, 2, 1, 1); !errors.Is(err, why) {
		t.Errorf("a bundle for a node that leaves: %v", err)
	}
	if got := n.Silent(); !slices.Equal(got, []string{"g"}) {
		t.Errorf("a node that leaves asks about %q", got)
	}
}

// TestNodeOfTwoGroups: a group that has the name of an earlier one, of which bundles are here, gets none, and the node asks which of
// them there is.
func TestNodeOfTwoGroups(t *testing.T) {
	n := newAlone(t)
	n.do(Prepare, 1, 1, 1)
	n.do(Hold, 1, 1)
	if err := n.do(Prepare, 2, 1, 1); !errors.Is(err, raysys.ErrOverloaded) {
		t.Errorf("a bundle beside one of another group of that name: %v", err)
	}
	n.want("beside another group", 1, 3)
	if got := n.Silent(); !slices.Equal(got, []string{"g"}) {
		t.Errorf("the node asks about %q", got)
	}
	n.Compare("g", &Record{ID: core.TaskID{Hi: 2}})
	n.want("of a group that is gone", 0, 4)
}
