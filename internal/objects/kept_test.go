package objects

import (
	"errors"
	"slices"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// TestAddReplicas: a node that keeps a copy is known until it is freed, also where the object is published again and another node takes a copy
// then.
func TestAddReplicas(t *testing.T) {
	a, b, c := core.NodeKey{Node: "a", Incarnation: 1}, core.NodeKey{Node: "b", Incarnation: 2}, core.NodeKey{Node: "c", Incarnation: 3}
	k := &reasons{}
	k.addReplicas([]core.NodeKey{a})
	before := k.replicas
	k.addReplicas([]core.NodeKey{b, c})
	k.addReplicas([]core.NodeKey{c})
	if want := []core.NodeKey{c, b, a}; !slices.Equal(k.replicas, want) || !slices.Equal(before, []core.NodeKey{a}) {
		t.Errorf("%v keep copies, want %v; the list of before is %v, which is never changed", k.replicas, want, before)
	}
}

// TestCopyAnswered: a node keeps a copy once one request for it was answered, whatever becomes of others that are
// answered at the same time, and gives it up when all have failed or the owner wants none any more.
func TestCopyAnswered(t *testing.T) {
	failed := raysys.ErrSuspended
	for _, c := range []struct {
		name   string
		do     string // each letter is a step: a, b begin; A, B are answered; x, y fail; f is an opFree
		stays  bool
		answer error // of the last answer
	}{
		{"answered", "aA", true, nil},
		{"failed", "ax", false, failed},
		{"freed before the answer", "afA", false, errUnwanted},
		{"freed after the answer", "aAf", false, nil},
		{"the earlier fails", "abxB", true, nil},
		{"the earlier fails after the answer", "abBx", true, failed},
		{"the later fails", "abyA", true, nil},
		{"both fail", "abyx", false, failed},
		{"both fail in order", "abxy", false, failed},
		{"freed, and asked again before the first has failed", "afbAB", true, nil},
		{"freed, and asked again; the first fails last", "afbBA", true, errUnwanted},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := alone(t)
			oid := raysys.TaskID{Hi: 1, Lo: 2}
			owner := core.NodeKey{Node: "owner", Incarnation: 1}
			obj, err := o.store.Add(t.Context(), oid, 1, &stateValue{make([]byte, 1<<20)})
			if err != nil {
				t.Fatal(err)
			}
			asked := map[rune]*pendingCopy{}
			end := func(of rune, err error) error {
				defer o.kept.copyAnswered(asked[of])
				return asked[of].end(o, err)
			}
			for _, step := range c.do {
				switch step {
				case 'a', 'b':
					asked[step] = o.kept.copyAsked(t.Context(), owner, objectRequest{oid: oid})
					if !asked[step].begin(o, obj) {
						t.Fatal("the object has left the store")
					}
				case 'A', 'B':
					err = end(step-'A'+'a', nil)
				case 'x', 'y':
					err = end(step-'x'+'a', failed)
				case 'f':
					o.dropCopy(oid, owner)
				}
			}
			if !errors.Is(err, c.answer) {
				t.Errorf("the last answer is %v, want %v", err, c.answer)
			}
			if stays := o.store.Lookup(oid) != nil; stays != c.stays {
				t.Errorf("the object stays: %v, want %v", stays, c.stays)
			}
			if k := o.kept.byID[oid]; c.stays && (!k.forOwner || k.owner != owner || k.copying != 0) || !c.stays && k != nil {
				t.Errorf("it is kept for %+v", k)
			}
		})
	}
}

// TestFreeing: of the opFrees for one copy only the last is sent until it is answered, and none once the copy is asked
// for again.
func TestFreeing(t *testing.T) {
	var kept keptObjects
	at := copyAt{core.NodeKey{Node: "a", Incarnation: 1}, raysys.TaskID{Lo: 1}}
	first := kept.beginFree(at)
	second := kept.beginFree(at)
	other := kept.beginFree(copyAt{at.node, raysys.TaskID{Lo: 2}})
	kept.endFree(first)
	if kept.freeUnanswered(at) != second {
		t.Error("the end of the first has ended the second")
	}
	kept.endFree(second)
	if kept.freeUnanswered(at) != nil || kept.freeUnanswered(other.copyAt) != other {
		t.Error("the end of one is not the end of that one alone")
	}
}
