package ledger

import (
	"testing"
)

// TestModelsDoNotBlockEachOther: what older work lacks is kept from younger device by device: work that can have another goes past.
func TestModelsDoNotBlockEachOther(t *testing.T) {
	devices := []Device{{UUID: "a0", Model: "A100", Memory: 40}, {UUID: "a1", Model: "A100", Memory: 40}, {UUID: "h0", Model: "H100", Memory: 80}}
	l := newLine(Need{CPU: 8000}, devices)
	var holds, first, second, h, any, small inside
	l.Push(Need{GPU: 1000, GPUModel: "A100"}, &holds)
	l.Push(Need{GPU: 2000, GPUModel: "A100"}, &first) // a1 is kept for it
	l.Push(Need{GPU: 1000, GPUModel: "A100"}, &second)
	l.Push(Need{GPU: 500, GPUModel: "H100"}, &h)
	if first.hold != nil || second.hold != nil {
		t.Fatal("what older work lacks goes to younger")
	}
	if h.hold == nil {
		t.Fatal("work for a free device waits behind work for another model")
	}
	if l.Owes(h.hold) || !l.Owes(holds.hold) {
		t.Error("what is owed is the devices of the model that is short")
	}
	l.Push(Need{GPU: 500}, &any)
	if any.hold == nil || l.Devices(any.hold)[0] != "h0" {
		t.Error("work for any device does not get the one that is free and not kept")
	}
	if n := (Need{GPU: 1000, GPUMemory: 60}); l.HasNow(n) {
		t.Error("a device that is held is free")
	}
	l.Push(Need{GPU: 250, GPUMemory: 41}, &small) // h0 alone, which is taken: now that is owed too
	l.Return(any.hold)
	if small.hold == nil {
		t.Error("the share that has become free goes to nobody")
	}
	l.Return(holds.hold)
	if first.hold == nil || second.hold != nil {
		t.Error("the older work does not get what was kept for it")
	}
}

// TestReportOfOwed: what is kept for work that waits is reported as taken, at once, and as free when that work is gone.
func TestReportOfOwed(t *testing.T) {
	var changes int
	l := &Line{}
	l.Init(Need{CPU: 8000, Memory: 100, Custom: map[string]int64{"x": 2000}}, eight("H100"), Hooks{
		Queue: func() (pushed, popped uint64) { return 0, 0 }, Freed: func() {}, Now: func() int64 { return 0 }, Above: func(Standing) (above, less bool) { return false, false },
		Changed: func() { changes++ },
	})
	report := func() (got Report) {
		l.Report(func(r *Report) string { got = *r; return "." })
		return got
	}
	free := func() (n int64) {
		for _, d := range report().Devices {
			n += d.Share
		}
		l.report.Store(nil)
		return n
	}
	var three, all, some, memory inside
	l.Push(Need{GPU: 3000}, &three)
	if n := free(); n != 5000 {
		t.Errorf("%d thousandths of the devices are reported free, want 5000", n)
	}
	before := changes
	l.Push(Need{GPU: 8000}, &all)
	if n := free(); n != 0 {
		t.Errorf("%d thousandths of the devices are reported free that are kept for work that waits", n)
	}
	if changes == before {
		t.Error("no change is told when free devices are kept for work")
	}
	l.Push(Need{CPU: 1000, Memory: 1, Custom: map[string]int64{"x": 1}}, &some)
	l.Push(Need{CPU: 8000, Memory: 100, Custom: map[string]int64{"x": 2000}}, &memory)
	if r := report(); r.Memory != 0 || r.Custom["x"] != 0 {
		t.Errorf("memory %d and x %d are reported free that are kept for work that waits", r.Memory, r.Custom["x"])
	}
	for _, w := range l.Remove(func(w Work) bool { return w != Work(&three) }) {
		w.Grant(nil)
	}
	if n := free(); n != 5000 {
		t.Errorf("%d thousandths of the devices are reported free after what waited is gone, want 5000", n)
	}
}
