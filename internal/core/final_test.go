package core_test

import (
	"context"
	"slices"
	"testing"

	"github.com/raysys/raysys/internal/core"
)

// final notes in a list that it was called.
type final struct {
	list *[]string
	name string
}

func (f final) Final()   { *f.list = append(*f.list, f.name) }
func (f final) Dropped() { *f.list = append(*f.list, "dropped "+f.name) }

// TestFinal: what waits for a turn is called when every turn above it has been handed up, in any order, to a driver, or to one of
// which another node says that it is final; also what comes later.
func TestFinal(t *testing.T) {
	var called []string
	wants := func(when string, want ...string) {
		t.Helper()
		if slices.Sort(called); !slices.Equal(called, want) {
			t.Errorf("%s: %v were called, want %v", when, called, want)
		}
		called = nil
	}
	id := uint64(0)
	task := func(up *core.Turn) *core.Turn {
		id++
		return core.NewTurn(core.TurnSpec{Kind: core.TurnTask, ID: core.TaskID{Lo: id}, Up: up, Attempt: 1})
	}
	j := &core.Job{}
	root := core.NewRoot(j, context.Background(), nil, core.TaskID{Hi: 1})
	j.Top = root
	root.WhenFinal(final{&called, "a driver's"})
	wants("a driver", "a driver's")

	outer := task(root)
	inner := task(outer)
	inmost := task(inner)
	inmost.WhenFinal(final{&called, "c"})
	inner.HandUp(outer) // it ends before its own task
	inner.WhenFinal(final{&called, "b"})
	inmost.HandUp(inner)
	inmost.HandUp(inner)
	if !outer.Awaits() {
		t.Error("nothing waits for the outermost task")
	}
	wants("before the outermost task has ended")
	outer.HandUp(root)
	wants("at the driver", "b", "c")
	task(inner).WhenFinal(final{&called, "of a task that runs"})
	late := task(inmost)
	late.WhenFinal(final{&called, "late"})
	late.HandUp(inmost)
	wants("after that", "late")

	far := core.NewRemote(core.RemoteSpec{Job: j, ID: core.TaskID{Hi: 2}})
	inbound := task(far)
	child := task(inbound)
	child.WhenFinal(final{&called, "child"})
	child.HandUp(inbound)
	inbound.HandUp(far)
	wants("of another node's task")
	inbound.Finish()
	inbound.WhenFinal(final{&called, "later"})
	wants("when that node says so", "child", "later")
	far.WhenFinal(final{&called, "of another node's turn"})
	wants("for a turn that this node knows nothing of", "dropped of another node's turn")
	adopted := task(far)
	adopted.WhenFinal(final{&called, "adopted"})
	adopted.Drop()
	adopted.WhenFinal(final{&called, "later"})
	adopted.Finish()
	wants("where the turn above is not known", "dropped adopted", "dropped later")

	full := task(root)
	for i := range 1<<16 + 1 {
		full.WhenFinal(final{&called, map[bool]string{true: "one too many"}[i == 1<<16]})
	}
	wants("when too many wait", "dropped one too many")
}
