package waitcycles

import (
	"reflect"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

var (
	here  = core.NodeKey{Node: "here", Incarnation: 1}
	there = core.NodeKey{Node: "there", Incarnation: 2}
)

func id(n uint64) raysys.TaskID { return raysys.TaskID{Lo: n} }

// newGraph is what a look has found before the first list.
func newGraph() *waitGraph {
	return &waitGraph{index: map[probed]int{}, roots: map[far]int{}}
}

// seen is a look of a node at turn 1, which waits for a call of another node, and that node's answer: there turn 2 waits for a queued
// call with id last, which waits for turn 1 if back, else for work that can go on. gave gave way before.
func seen(last uint64, back bool, gave map[probed]bool) *waitGraph {
	g := newGraph()
	call := far{there, farCall, here, 7}
	g.merge(far{}, here, []core.Waiting{{ID: id(1), Need: 1, On: []int{1}}, {Far: true, Need: 1}}, []far{{}, call}, gave)
	home := far{here, farRef, there, 8}
	answer := []core.Waiting{{ID: id(2), Need: 1, On: []int{1}}, {ID: id(last), Queued: true, Need: 1, On: []int{2}}, {Far: true, Need: 1}}
	if !back {
		answer[1].Free = 1
	}
	g.waits[1].On = []int{g.merge(call, there, answer, []far{{}, {}, home}, gave)}
	g.waits[len(g.waits)-1].On = []int{g.merge(home, here, []core.Waiting{{ID: id(1), Need: 1, On: []int{0}}}, []far{{}}, gave)}
	return g
}

// TestStuck: a turn is stuck where each way leads back to it, over two nodes; not where work at the end can go on, nor once a call of
// the cycle gave way. A wait that is found twice is one.
func TestStuck(t *testing.T) {
	g := seen(3, true, nil)
	if !g.stuck() || len(g.waits) != 5 {
		t.Errorf("stuck %v with %d waits, want a cycle of 5", g.stuck(), len(g.waits))
	}
	if seen(3, false, nil).stuck() {
		t.Error("stuck although the queued call can go on")
	}
	if seen(3, true, map[probed]bool{{there, id(3)}: true}).stuck() {
		t.Error("stuck although the queued call gave way")
	}
	if g := seen(3, true, map[probed]bool{{here, id(3)}: true}); !g.stuck() {
		t.Error("a call of the same id at another node gave way, and the turn is not stuck any more")
	}
}

// TestWithin: a cycle is real where the look before found the same waits; one that is new since then may have come after another ended.
func TestWithin(t *testing.T) {
	first := seen(3, true, nil)
	if !seen(3, true, nil).within(first) {
		t.Error("the same cycle is not in the look before")
	}
	if seen(4, true, nil).within(first) {
		t.Error("another wait took the place of one, and the cycle counts as the same")
	}
}

// TestVictim: of two calls all nodes choose the same, that with the lesser id.
func TestVictim(t *testing.T) {
	for _, c := range []struct {
		a, b raysys.TaskID
		want bool
	}{
		{raysys.TaskID{Hi: 1, Lo: 9}, raysys.TaskID{Hi: 2, Lo: 1}, true},
		{raysys.TaskID{Hi: 2, Lo: 1}, raysys.TaskID{Hi: 1, Lo: 9}, false},
		{raysys.TaskID{Hi: 1, Lo: 1}, raysys.TaskID{Hi: 1, Lo: 2}, true},
		{raysys.TaskID{Hi: 1, Lo: 1}, raysys.TaskID{Hi: 1, Lo: 1}, false},
	} {
		if got := before(c.a, c.b); got != c.want {
			t.Errorf("%v before %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// TestAnswerAsBytes: waits are read as they were appended. An edge to a wait that is not in the answer is refused, and of too many waits
// none is told.
func TestAnswerAsBytes(t *testing.T) {
	waits := []core.Waiting{{ID: id(1), Name: "a.F", Need: 2, Free: 1, On: []int{1, 2}}, {Far: true, Need: 1}, {ID: id(3), Queued: true, Need: 1, On: []int{0}}}
	fars := []far{{}, {there, farTask, here, 9}, {}}
	read := func(b []byte) (probeAnswer, error) {
		r := wire.NewReader(b)
		a, err := readProbeAnswer(&r)
		if err == nil {
			err = r.Err()
		}
		return a, err
	}
	a, err := read(appendWaits([]byte{1}, waits, fars))
	if err != nil || !a.gave || !reflect.DeepEqual(a.waits, waits) || !reflect.DeepEqual(a.fars, fars) {
		t.Errorf("read %+v, %v", a, err)
	}
	waits[2].On = []int{3}
	if _, err := read(appendWaits([]byte{0}, waits, fars)); err == nil {
		t.Error("an edge to nowhere is not refused")
	}
	if a, err := read(appendWaits([]byte{0}, make([]core.Waiting, maxProbed+1), make([]far, maxProbed+1))); err != nil || len(a.waits) != 0 {
		t.Errorf("of too many waits %d are told, %v", len(a.waits), err)
	}
}
