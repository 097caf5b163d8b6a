package ledger

import (
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// fixedTimes has each piece run for a second more, and take four seconds where it waits.
type fixedTimes struct{}

func (fixedTimes) Runs(w Work, _ int64) (time.Duration, bool) {
	if p, ok := w.(*piece); ok && p.name == "grain" {
		return time.Hour, false
	}
	return time.Second, true
}
func (fixedTimes) Waits(Work) time.Duration { return 4 * time.Second }

func kindOf(grain bool) string {
	if grain {
		return "grain"
	}
	return "task"
}

// TestAhead: what runs and what waits counts by the part of the node that it has or asks for; what is over, asks for nothing or is of a
// bundle does not. What grains and bundles have is not there for others.
func TestAhead(t *testing.T) {
	one, four, half := Need{GPU: 1000}, Need{GPU: 4000}, Need{GPU: 500}
	for _, c := range []struct {
		name   string
		needs  []Need
		grains int // of the first of them
		over   int // of the last of them
		want   time.Duration
	}{
		{"nothing", nil, 0, 0, 0},
		{"one of four runs", []Need{one}, 0, 0, time.Second / 4},
		{"all four run", []Need{one, one, one, one}, 0, 0, time.Second},
		{"two wait", []Need{one, one, one, one, one, one}, 0, 0, 3 * time.Second},
		{"one that asks for all waits", []Need{one, four}, 0, 0, time.Second/4 + 4*time.Second},
		{"shares", []Need{half, half}, 0, 0, time.Second / 4},
		{"CPUs", []Need{{CPU: 4000}, {CPU: 8000}}, 0, 0, time.Second/2 + 4*time.Second},
		{"memory more than CPU", []Need{{CPU: 1000, Memory: 75}}, 0, 0, 3 * time.Second / 4},
		{"a custom resource", []Need{{Custom: map[string]int64{"licence": 500}}}, 0, 0, time.Second / 2},
		{"memory of a device", []Need{{GPU: 1, GPUMemory: 40}}, 0, 0, time.Second / 8},
		{"nothing asked for", []Need{{}, {}}, 0, 0, 0},
		{"a grain has one of four, and two run", []Need{one, one, one}, 1, 0, time.Second * 2 / 3},
		{"a grain has one of four, and work for three waits", []Need{one, one, one, one, one, one, one}, 1, 0, time.Second + 4*time.Second},
		{"a grain has all of them", []Need{four, one}, 1, 0, time.Hour},
		{"grains have all of them, and much waits", append([]Need{four}, slices.Repeat([]Need{four}, 1000)...), 1, 0, 4000 * time.Second},
		{"a grain has CPUs", []Need{{CPU: 4000}, one}, 1, 0, time.Second / 2},
		{"grains have half of the CPUs, and half of the devices", []Need{{CPU: 4000}, one, one, one}, 3, 0, time.Second / 2},
		{"some are over", []Need{four, four, four}, 0, 1, time.Second + 4*time.Second},
	} {
		l := newLine(Need{CPU: 8000, Memory: 100, Custom: map[string]int64{"licence": 1000}}, []Device{{Memory: 80}, {Memory: 80}, {Memory: 80}, {Memory: 80}})
		var pieces []*piece
		var holds []*Hold
		for _, n := range c.needs {
			p := &piece{name: kindOf(len(pieces) < c.grains), granted: func(_ *piece, h *Hold) { holds = append(holds, h) }}
			pieces = append(pieces, p)
			l.Push(n, p)
		}
		for _, p := range pieces[len(pieces)-c.over:] {
			p.over.Store(true)
		}
		if got := l.Ahead(fixedTimes{}); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		for i := 0; i < len(holds); i++ { // what waits is granted meanwhile
			if holds[i] != nil {
				l.Return(holds[i])
			}
		}
		if got := l.Ahead(fixedTimes{}); got != 0 {
			t.Errorf("%s: %v, once all of it is given back", c.name, got)
		}
	}
	l := newLine(Need{CPU: 8000}, eight("H100"))
	bundle := core.Bundle{Group: "g"}
	if _, _, short := l.Carve(Part{bundle, Need{GPU: 1000}}); !short.Empty() {
		t.Fatal(short)
	}
	for range 3 {
		if pushed, _ := l.PushIn(Need{GPU: 1000, Bundle: bundle}, &inside{}); !pushed {
			t.Fatal("the bundle is not there")
		}
	}
	if got := l.Ahead(fixedTimes{}); got != 0 {
		t.Errorf("work of a bundle counts %v", got)
	}
	l.Push(Need{GPU: 7000}, &piece{granted: func(*piece, *Hold) {}})
	if got := l.Ahead(fixedTimes{}); got != time.Second {
		t.Errorf("all that a bundle leaves is busy for a second: %v", got)
	}
}
