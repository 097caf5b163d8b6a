package ledger

import (
	"testing"

	"github.com/raysys/raysys/internal/core"
)

// changesOf has a line count what it tells in changes.
func changesOf(l *Line) *int {
	n := new(int)
	l.hooks.Changed = func() { *n++ }
	return n
}

// TestCarveLeavesWhatIsOwed: a bundle does not get what older work gathers, be it devices, memory, CPU or a custom resource; it gets what
// is beside that, and all of it once the older work has gone.
func TestCarveLeavesWhatIsOwed(t *testing.T) {
	total := Need{CPU: 4000, Memory: 100, Custom: map[string]int64{"x": 2000}}
	for _, c := range []struct {
		name         string
		runs, waits  Need
		kept, beside Need
	}{
		{"devices", Need{GPU: 1000, GPUModel: "A100"}, Need{GPU: 2000, GPUModel: "A100"}, Need{GPU: 1000, GPUModel: "A100"}, Need{CPU: 1000, GPU: 1000, GPUModel: "H100"}},
		{"memory", Need{Memory: 50}, Need{Memory: 80}, Need{CPU: 1000, Memory: 10}, Need{CPU: 1000, GPU: 2000}},
		{"CPU", Need{CPU: 2000}, Need{CPU: 4000}, Need{CPU: 1000}, Need{Memory: 10, GPU: 1000}},
		{"a custom resource", Need{Custom: map[string]int64{"x": 1000}}, Need{Custom: map[string]int64{"x": 2000}}, Need{Custom: map[string]int64{"x": 500}}, Need{CPU: 4000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLine(total, []Device{{UUID: "a0", Model: "A100"}, {UUID: "a1", Model: "A100"}, {UUID: "h0", Model: "H100"}, {UUID: "h1", Model: "H100"}})
			var runs, waits inside
			l.Push(c.runs, &runs)
			l.Push(c.waits, &waits)
			if runs.hold == nil || waits.hold != nil {
				t.Fatal("the second does not wait for the first")
			}
			kept, beside := Part{core.Bundle{Group: "kept"}, c.kept}, Part{core.Bundle{Group: "beside"}, c.beside}
			if _, without, short := l.Carve(beside, kept); without != 1 || short.Empty() || !short.Touches(&c.kept) {
				t.Errorf("a bundle gets what older work gathers: without %d, %+v", without, short)
			}
			list, without, _ := l.Carve(beside)
			if without >= 0 {
				t.Fatal("no bundle gets what is beside that")
			}
			list[0].Close(nil, func() {})
			l.Return(runs.hold)
			if waits.hold == nil {
				t.Fatal("the older work does not begin")
			}
			l.Return(waits.hold)
			if _, without, short := l.Carve(beside, kept); without >= 0 {
				t.Errorf("nothing waits, and part %d has no room: %+v", without, short)
			}
		})
	}
}

// TestCarveLeavesWhatIsOwedTogether: of devices that are dealt out among several bundles, too.
func TestCarveLeavesWhatIsOwedTogether(t *testing.T) {
	l := newLine(Need{}, []Device{{UUID: "a0", Model: "A100"}, {UUID: "a1", Model: "A100"}, {UUID: "h0", Model: "H100"}, {UUID: "h1", Model: "H100"}})
	var runs, waits inside
	l.Push(Need{GPU: 1000, GPUModel: "A100"}, &runs)
	l.Push(Need{GPU: 2000, GPUModel: "A100"}, &waits)
	list, without, _ := l.Carve(Part{core.Bundle{Group: "g", Index: 0}, Need{GPU: 1000}}, Part{core.Bundle{Group: "g", Index: 1}, Need{GPU: 1000}})
	if without >= 0 || l.Devices(&list[0].hold)[0] != "h0" || l.Devices(&list[1].hold)[0] != "h1" {
		t.Errorf("two bundles do not get the two devices that are free and not kept: without %d", without)
	}
}

// TestCarveIsTold: that a bundle has devices is told at once, as what work takes is.
func TestCarveIsTold(t *testing.T) {
	l := newLine(Need{CPU: 4000}, eight("H100"))
	changes := changesOf(l)
	if _, without, _ := l.Carve(Part{core.Bundle{Group: "g"}, Need{GPU: 1000}}); without >= 0 || *changes != 1 {
		t.Errorf("a bundle took a device, and %d changes were told", *changes)
	}
}

// TestRemoveServes: what was kept for work that is taken out of the line goes to the rest at once, or is told to be free.
func TestRemoveServes(t *testing.T) {
	l := newLine(Need{CPU: 4000}, eight("H100")[:2])
	var runs, older, younger inside
	l.Push(Need{GPU: 1000}, &runs)
	l.Push(Need{GPU: 2000}, &older)
	l.Push(Need{GPU: 500}, &younger)
	if younger.hold != nil {
		t.Fatal("what older work lacks goes to younger")
	}
	if removed := l.Remove(func(w Work) bool { return w == &older }); len(removed) != 1 || younger.hold == nil {
		t.Errorf("%d are removed, and the device that was kept for it goes to nobody", len(removed))
	}
	l.Push(Need{GPU: 2000}, &older)
	l.Return(younger.hold)
	changes := changesOf(l)
	l.Remove(func(Work) bool { return true })
	if *changes == 0 || !l.HasNow(Need{GPU: 1000}) {
		t.Errorf("nothing is kept any more, and %d changes were told", *changes)
	}
}
