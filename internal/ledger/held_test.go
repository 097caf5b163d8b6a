package ledger

import (
	"testing"

	"github.com/raysys/raysys/internal/core"
)

// TestHeld: the CPU counts of work that asks for other than one CPU and does not wait, and of bundles, until it is given back.
func TestHeld(t *testing.T) {
	l := newLine(Need{CPU: 8000}, eight("H100"))
	want := func(what string, held int64) {
		t.Helper()
		if got := l.Held(); got != held {
			t.Errorf("%s: %d thousandths are held, want %d", what, got, held)
		}
	}
	var plain, device inside
	l.Push(Need{CPU: 2000}, &plain)
	want("CPU alone", 2000)
	l.Push(Need{CPU: 1500, GPU: 1000}, &device)
	want("a device", 3500)
	pool := device.hold.Pool()
	pool.GiveCPU(1500)
	want("its holder waits", 2000)
	pool.RetakeCPU(1500)
	list, _, _ := l.Carve(Part{core.Bundle{Group: "g"}, Need{CPU: 2000}})
	want("a bundle beside it", 5500)
	l.Return(plain.hold)
	l.Return(device.hold)
	want("the bundle alone", 2000)
	list[0].Close(nil, func() {})
	want("nothing", 0)
	if free := l.Free().CPU; free != 8000 {
		t.Errorf("%d thousandths of 8000 are free in the end", free)
	}
}

// TestShared: while work waits for CPU, what work of jobs has of it is shared with one-CPU tasks. What bundles and work of no job have is not, nor what
// work has given back that waits.
func TestShared(t *testing.T) {
	l := newLine(Need{CPU: 8000}, nil)
	var grain inside
	l.Push(Need{CPU: 1000}, &grain)
	list, _, _ := l.Carve(Part{core.Bundle{Group: "g"}, Need{CPU: 2000}})
	var held []*Hold
	push := func() {
		l.Push(Need{CPU: 4000}, &piece{job: &core.Job{}, granted: func(_ *piece, h *Hold) { held = append(held, h) }})
	}
	want := func(what string, cpu, shared int64) {
		t.Helper()
		if got := l.Held(); got != cpu {
			t.Errorf("%s: %d thousandths are held, want %d", what, got, cpu)
		}
		if got := l.Shared(); got != shared {
			t.Errorf("%s: %d thousandths are shared, want %d", what, got, shared)
		}
	}
	push()
	want("nothing waits", 7000, 0)
	push()
	want("a job's work waits", 7000, 4000)
	held[0].Pool().GiveCPU(4000) // the second begins
	held[0].Pool().RetakeCPU(4000)
	want("both have begun", 11000, 0)
	l.Return(held[0])
	l.Return(held[1])
	list[0].Close(nil, func() {})
	l.Return(grain.hold)
	want("nothing", 0, 0)
}
