package pressure

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/raysys/raysys/internal/hostmemory"
)

// TestSoft: the collector has the least limit of a process's watches, whichever ends first, and none after the last; a
// limit of the program stays.
func TestSoft(t *testing.T) {
	const none, gib = math.MaxInt64, int64(1) << 30
	own := debug.SetMemoryLimit(none)
	defer debug.SetMemoryLimit(own)
	watch := func(limit int64) *Watch {
		return &Watch{Gauge: hostmemory.Gauge{Limit: limit}, Used: func() int64 { return 0 }}
	}
	a, b := watch(1000*gib), watch(2000*gib)
	check := func(what string, want int64) {
		t.Helper()
		for _, w := range []*Watch{a, b} {
			soften(w)
		}
		if got := debug.SetMemoryLimit(-1); got != want {
			t.Errorf("%s: the limit is %d, want %d", what, got, want)
		}
	}
	check("none watches", none)
	beginSoft(a)
	check("a watches", 750*gib)
	beginSoft(b)
	check("both watch", 750*gib)
	endSoft(a)
	check("b watches", 1500*gib)
	endSoft(b)
	check("none watches any more", none)
	debug.SetMemoryLimit(3 * gib)
	if beginSoft(a) {
		t.Error("a watch takes the place of the program's limit")
	}
	check("the program's limit", 3*gib)
	debug.SetMemoryLimit(none)
	beginSoft(a)
	check("a watches again", 750*gib)
	debug.SetMemoryLimit(4 * gib)
	check("the program sets a limit meanwhile", 4*gib)
	endSoft(a)
	check("and a watches no more", 4*gib)
}

// TestSoftLeavesRoom: what is in use has room on top, or the collector would run all the time, up to the limit.
func TestSoftLeavesRoom(t *testing.T) {
	for _, c := range []struct {
		name       string
		used, want int64
		of         hostmemory.Go
	}{
		{"little", 200, 750, hostmemory.Go{All: 200, Live: 160, Waste: 20}},
		{"garbage", 700, 750, hostmemory.Go{All: 700, Live: 160, Waste: 520}},
		{"much outside", 700, 350, hostmemory.Go{All: 300, Live: 160, Waste: 120}},
		{"much in use", 800, 850, hostmemory.Go{All: 800, Live: 800}},
		{"much in use and outside", 850, 650, hostmemory.Go{All: 650, Live: 480, Waste: 30}},
		{"nearly all in use", 940, 950, hostmemory.Go{All: 940, Live: 900}},
		{"all outside", 2000, 250, hostmemory.Go{All: 100, Live: 50}},
	} {
		if got := softOf(1000, c.used, c.of); got != c.want {
			t.Errorf("%s: the limit is %d, want %d", c.name, got, c.want)
		}
	}
}
