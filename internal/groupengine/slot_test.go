package groupengine

import (
	"errors"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/ledger"
)

// toGather is a question to gather, with its answer.
type toGather struct {
	Ask
	answered bool
	err      error
}

// gather asks for bundles of so many CPUs for the group of that number, which is older the smaller it is.
func (n *alone) gather(id uint64, cpus ...float64) *toGather {
	q := &toGather{Ask: Ask{Verb: Gather, Group: "g", ID: core.TaskID{Hi: id}, Made: int64(id)}}
	for i, c := range cpus {
		q.Bundles = append(q.Bundles, Asked{i, raysys.Resources{CPU: c}})
	}
	n.Do(q.Ask, func(err error) { q.answered, q.err = true, err })
	return q
}

// take has other work take CPUs.
func (n *alone) take(cpus int64) *modelWork {
	w := &modelWork{line: &n.line}
	n.line.Push(ledger.Need{CPU: 1000 * cpus}, w)
	return w
}

func (q *toGather) want(t *testing.T, what string, answered bool, err error) {
	t.Helper()
	if q.answered != answered || !errors.Is(q.err, err) || err == nil && q.err != nil {
		t.Errorf("%s: answered %v, %v; want %v, %v", what, q.answered, q.err, answered, err)
	}
}

// TestNodeGathers: what becomes free is kept for the group and for no younger work, the answer comes when all is there, and the bundles
// are made of that.
func TestNodeGathers(t *testing.T) {
	n := newAlone(t)
	first, second := n.take(2), n.take(2)
	q := n.gather(1, 2, 1)
	small := n.take(1)
	n.line.Return(first.hold)
	q.want(t, "half of it is free", false, nil)
	if small.hold != nil {
		t.Error("younger work has got what is gathered")
	}
	again := n.gather(1, 2, 1)
	q.want(t, "asked again", true, raysys.ErrOverloaded)
	n.line.Return(second.hold)
	again.want(t, "all is free", true, nil)
	n.gather(1, 2, 1).want(t, "asked when it has all", true, nil)
	if small.hold == nil {
		t.Error("what is left is kept from other work")
	}
	n.want("gathered", 0, 0)
	if err := n.do(Prepare, 1, 1, 2, 1); err != nil {
		t.Error(err)
	}
	n.want("prepared", 2, 0)
	if n.EndOverdue() {
		t.Error("it gathers after the attempt has begun")
	}
	if held := n.line.Held(); held != 4000 {
		t.Errorf("%d thousandths of CPU are held, and the bundles and other work in the line have 4000", held)
	}
	n.do(Release, 1, 1)
	n.line.Return(small.hold)
	n.want("released", 0, 4)
	if held := n.line.Held(); held != 0 {
		t.Errorf("%d thousandths of CPU are held, and no bundle is left", held)
	}
}

// TestNodeGathersForOldest: a node gathers for one group. An older one takes the place of a younger, which is refused at once, also when it
// asks again.
func TestNodeGathersForOldest(t *testing.T) {
	n := newAlone(t)
	work := n.take(3)
	young := n.gather(5, 4)
	n.want("the rest is gathered", 0, 1)
	old := n.gather(3, 4)
	young.want(t, "displaced", true, raysys.ErrOverloaded)
	n.gather(5, 4).want(t, "younger", true, raysys.ErrOverloaded)
	old.want(t, "older", false, nil)
	small := n.take(1)
	n.gather(3).want(t, "ends", true, nil)
	if small.hold == nil {
		t.Fatal("what was gathered is kept from other work after the end")
	}
	n.line.Return(small.hold)
	old.want(t, "ended", true, raysys.ErrOverloaded)
	n.line.Return(work.hold)
	n.want("ended", 0, 4)
	n.gather(3).want(t, "ends again", true, nil)
}

// TestNodeEndsGathering: a node gathers no more when its leader asks no more, when it leaves, and when other bundles are prepared; and not
// at all for what bundles have, or under an attempt that is over.
func TestNodeEndsGathering(t *testing.T) {
	n, why := newAlone(t), errors.New("the node drains")
	work := n.take(3)
	q := n.gather(1, 2, 2)
	n.now += int64(GatherLease) - 1
	if !n.EndOverdue() {
		t.Error("it gathers no more before the lease is over")
	}
	again := n.gather(1, 2, 2)
	n.now += int64(GatherLease) - 1
	if !n.EndOverdue() {
		t.Error("it gathers no more although the leader has asked again")
	}
	n.now++
	if n.EndOverdue() {
		t.Error("it gathers after the lease")
	}
	q.want(t, "asked again", true, raysys.ErrOverloaded)
	again.want(t, "the lease is over", true, raysys.ErrOverloaded)

	q = n.gather(1, 2, 2)
	n.Leave(why)
	q.want(t, "the node leaves", true, why)
	n.gather(1, 2, 2).want(t, "a node that leaves", true, why)
	n.Leave(nil)

	q = n.gather(1, 1, 3)
	if err := n.do(Prepare, 1, 1, 1); err != nil { // of what it has gathered for more
		t.Error(err)
	}
	q.want(t, "another attempt", true, raysys.ErrOverloaded)
	n.want("prepared", 1, 0)
	n.gather(1, 1, 3).want(t, "an attempt that is over", true, raysys.ErrMoved)
	n.gather(2, 4).want(t, "another group of the name", true, raysys.ErrMoved)
	other := &Ask{Verb: Gather, Group: "h", ID: core.TaskID{Hi: 3}, Bundles: []Asked{{0, raysys.Resources{CPU: 4}}}}
	refused := error(nil)
	n.Do(*other, func(err error) { refused = err })
	if !errors.Is(refused, raysys.ErrOverloaded) {
		t.Errorf("what a bundle has is to be gathered: %v", refused)
	}
	n.do(Release, 1, 1)
	n.line.Return(work.hold)
	n.want("released", 0, 4)
}
