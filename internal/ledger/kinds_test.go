package ledger

import (
	"testing"

	"github.com/raysys/raysys/internal/core"
)

// carved is a bundle of the group g of a node.
func carved(t *testing.T, l *Line, index int, n Need) *Bundle {
	t.Helper()
	b, short := carve(l, core.Bundle{Group: "g", Index: index}, n)
	if !short.Empty() {
		t.Fatalf("a free node refuses a bundle: %+v", short)
	}
	return b
}

// TestAnyBundle: work for any bundle of a group goes where there is room now, else where the least waits.
func TestAnyBundle(t *testing.T) {
	l := newLine(Need{CPU: 8000}, nil)
	carved(t, l, 0, Need{CPU: 1000})
	carved(t, l, 1, Need{CPU: 1000})
	one := Need{CPU: 1000}
	var w [4]inside
	l.PushIn(in(0, one), &w[0])
	if l.PushIn(in(core.AnyBundle, one), &w[1]); w[1].hold == nil {
		t.Error("work waits, where another bundle of its group has room")
	}
	l.PushIn(in(0, one), &w[2])
	l.PushIn(in(core.AnyBundle, one), &w[3])
	if l.Return(w[1].hold); w[3].hold == nil {
		t.Error("work waits where more waits")
	}
}

// TestBundleOfAShare: a bundle that was given a part of a device's memory has no more of it.
func TestBundleOfAShare(t *testing.T) {
	l := newLine(Need{CPU: 8000}, eight("H100"))
	carved(t, l, 0, Need{GPU: 500, GPUMemory: 30 << 30})
	if ok, never := l.PushIn(in(0, Need{GPU: 100, GPUMemory: 31 << 30}), new(inside)); ok || !never.GPU {
		t.Errorf("work that asks for more of the memory than the bundle has: %t, %+v", ok, never)
	}
	var w inside
	if ok, _ := l.PushIn(in(0, Need{GPU: 100, GPUMemory: 30 << 30}), &w); !ok || w.hold == nil {
		t.Error("work that asks for what the bundle has does not begin")
	}
}

// TestMovedBundle: a bundle that is on another node by now tells what runs and what waits in it, without a cause, and grants nothing. One
// that has the name since then stays.
func TestMovedBundle(t *testing.T) {
	l := newLine(Need{CPU: 8000}, nil)
	old := carved(t, l, 0, Need{CPU: 1000})
	var runs, waits, late inside
	l.PushIn(in(0, Need{CPU: 1000}), &runs)
	l.PushIn(in(0, Need{CPU: 1000}), &waits)
	carved(t, l, 0, Need{CPU: 2000})
	over := false
	old.Close(nil, func() { over = true })
	if runs.evicted != 1 || runs.cause != nil || waits.evicted != 1 || waits.cause != nil || over {
		t.Errorf("what runs was told %d times (%v), what waits %d times (%v)", runs.evicted, runs.cause, waits.evicted, waits.cause)
	}
	if !l.Has(core.Bundle{Group: "g"}) {
		t.Error("the bundle that has the name since then is gone")
	}
	l.Return(runs.hold)
	if old.Push(in(0, Need{CPU: 500}), &late); late.hold != nil || !over {
		t.Error("a closed bundle grants what it has given back")
	}
	if got := l.Free().CPU; got != 6000 {
		t.Errorf("%d thousandths are free beside a bundle of 2 CPUs", got)
	}
}
