package ledger

import (
	"testing"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// TestPhase: room is kept for a phase and left free for one as long; then both phases are twice as long.
func TestPhase(t *testing.T) {
	for _, c := range []struct {
		waited time.Duration
		keeps  bool
		until  time.Duration
	}{
		{0, true, 10},
		{9, true, 10},
		{10, false, 20},
		{20, true, 40},
		{40, false, 60},
		{60, true, 100},
		{139, false, 140},
		{10 + 10 + 20 + 20 + 40 + 40 + 80 + 80 + 160 + 160 + 320 + 320, true, 1260 + 640},
		{1260 + 640, false, 1260 + 2*640},
		{1260 + 100*2*640 + 639, true, 1260 + 100*2*640 + 640},
		{1260 + 100*2*640 + 641, false, 1260 + 101*2*640},
	} {
		if keeps, until := phase(c.waited * time.Second); keeps != c.keeps || until != c.until*time.Second {
			t.Errorf("after %d s: %v until %v, want %v until %d s", c.waited, keeps, until, c.keeps, c.until)
		}
	}
	if _, until := phase(200 * 365 * 24 * time.Hour); until < 200*365*24*time.Hour {
		t.Error(until)
	}
}

// phased is a line with a clock that the test moves.
type phased struct {
	*Line
	now   int64
	at    int64
	later func()
	freed int
}

func newPhased(total Need, devices []Device) *phased {
	c := &phased{Line: &Line{}}
	c.Init(total, devices, Hooks{
		Queue: func() (pushed, popped uint64) { return 0, 0 }, Freed: func() { c.freed++ }, Now: func() int64 { return c.now },
		Above: func(Standing) (above, less bool) { return false, false }, Later: func(at int64, f func()) { c.at, c.later = at, f },
	})
	return c
}

// advance moves the clock to the next look, and makes it.
func (c *phased) advance(t *testing.T, want time.Duration) {
	t.Helper()
	if c.at != int64(want) {
		t.Fatalf("the next look is after %v, want %v", time.Duration(c.at), want)
	}
	c.now = c.at
	freed := c.freed
	if c.later(); c.freed == freed {
		t.Error("the run queue does not hear of it")
	}
}

// keeper is work of a kind that Keeps.
type keeper struct{ inside }

func (*keeper) Keeps() bool { return true }

// TestKeptInPhases: younger work begins beside what older work waits for while that is not kept, without another event.
func TestKeptInPhases(t *testing.T) {
	c := newPhased(Need{CPU: 4000}, eight("H100")[:2])
	var runs, older, cpus, younger, third inside
	c.Push(Need{CPU: 1000, GPU: 1000}, &runs)
	c.Push(Need{GPU: 2000}, &older)
	c.Push(Need{CPU: 4000}, &cpus)
	c.Push(Need{GPU: 1000}, &younger)
	if younger.hold != nil || !c.OwesCPU() || !c.Reserves() {
		t.Fatal("what older work lacks is not kept")
	}
	c.advance(t, 10*time.Second)
	if younger.hold == nil || c.OwesCPU() || c.Reserves() {
		t.Fatal("what older work lacks is kept for more than 10 s")
	}
	if !c.Owes(runs.hold) || !c.Owes(younger.hold) {
		t.Error("what older work lacks is not said to be lacked while it is not kept")
	}
	c.Return(younger.hold)
	if !c.HasNow(Need{CPU: 1000, GPU: 1000}) || older.hold != nil || cpus.hold != nil {
		t.Error("something is kept")
	}
	c.advance(t, 20*time.Second)
	if !c.OwesCPU() || !c.Reserves() || c.HasNow(Need{GPU: 1000}) {
		t.Error("it is not kept again after 20 s")
	}
	c.Push(Need{GPU: 1000}, &third)
	c.Return(runs.hold)
	if older.hold == nil || cpus.hold == nil || third.hold != nil {
		t.Error("the older work does not begin first")
	}
	c.Return(older.hold)
	if third.hold == nil || c.OwesCPU() {
		t.Error("something is kept for no work")
	}
}

// TestWhatStaysIsNotWaitedFor: nothing is kept for work that needs what a kind that Keeps has, a bundle, or a sick device, until that is
// given back.
func TestWhatStaysIsNotWaitedFor(t *testing.T) {
	for name, stays := range map[string]func(l *Line) (back func()){
		"a kind that Keeps": func(l *Line) func() {
			k := &keeper{}
			l.Push(Need{CPU: 1000, GPU: 1000}, k)
			return func() { l.Return(k.hold) }
		},
		"a bundle": func(l *Line) func() {
			b, _ := carve(l, core.Bundle{Group: "g"}, Need{CPU: 1000, GPU: 1000})
			return func() { b.Close(nil, func() {}) }
		},
		"a gathered bundle": func(l *Line) func() {
			g := l.NewGathering("g", []Need{{CPU: 1000, GPU: 1000}}, func() {})
			g.Start()
			b := g.Carve([]Part{{core.Bundle{Group: "g"}, Need{CPU: 1000, GPU: 1000}}})[0]
			return func() { b.Close(nil, func() {}) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newPhased(Need{CPU: 4000}, eight("H100")[:4])
			back := stays(c.Line)
			var runs, cpus, gpus, one inside
			c.Push(Need{CPU: 1000, GPU: 1000}, &runs)
			c.Push(Need{CPU: 4000}, &cpus)
			c.Push(Need{GPU: 4000}, &gpus)
			if c.OwesCPU() || c.Reserves() || !c.HasNow(Need{CPU: 1000, GPU: 1000}) {
				t.Error("something is kept")
			}
			c.Push(Need{CPU: 1000, GPU: 1000}, &one)
			if one.hold == nil {
				t.Fatal("work does not begin beside work that cannot")
			}
			if back(); !c.OwesCPU() || !c.Reserves() || c.HasNow(Need{GPU: 1000}) {
				t.Error("nothing is kept for work that can begin by now")
			}
			c.Return(runs.hold)
			c.Return(one.hold)
			if cpus.hold == nil || gpus.hold == nil {
				t.Error("the older work does not begin")
			}
		})
	}
	c := newPhased(Need{}, eight("H100")[:4])
	c.SetSick(c.Line.ledger.devices[3].UUID, true)
	var older, younger inside
	c.Push(Need{GPU: 4000}, &older)
	if c.Push(Need{GPU: 1000}, &younger); younger.hold == nil {
		t.Error("devices are kept for work that waits for a sick one")
	}
	c.Return(younger.hold)
	if c.SetSick(c.Line.ledger.devices[3].UUID, false); older.hold == nil {
		t.Error("it does not begin when the device is well")
	}
}

// TestBundleKeeps: the line of a bundle has phases too.
func TestBundleKeeps(t *testing.T) {
	c := newPhased(Need{CPU: 4000}, nil)
	b, _ := carve(c.Line, core.Bundle{Group: "g"}, Need{CPU: 2000})
	var runs, older, younger inside
	for n, w := range map[int64]*inside{1000: &runs} {
		c.PushIn(in(0, Need{CPU: n}), w)
	}
	c.PushIn(in(0, Need{CPU: 2000}), &older)
	c.PushIn(in(0, Need{CPU: 1000}), &younger)
	if younger.hold != nil {
		t.Fatal("what older work in the bundle lacks is not kept")
	}
	c.now = c.at
	if c.later(); younger.hold == nil || b.OwesCPU() {
		t.Error("what older work in the bundle lacks is kept for more than 10 s")
	}
}

// TestStreamOfLargeWork: of large work that begins, one after the other, each has what it lacks kept, however long it has waited.
func TestStreamOfLargeWork(t *testing.T) {
	c := newPhased(Need{CPU: 2000}, nil)
	var large [8]inside
	var small inside
	for i := range large {
		c.Push(Need{CPU: 2000}, &large[i])
	}
	c.Push(Need{CPU: 1000}, &small)
	for i := range large {
		if large[i].hold == nil || small.hold != nil {
			t.Fatalf("after %v it is not the turn of the large work", time.Duration(c.now))
		}
		c.now += int64(9 * time.Second)
		if !c.OwesCPU() && i < len(large)-1 {
			t.Fatalf("after %v nothing is kept", time.Duration(c.now))
		}
		c.Return(large[i].hold)
	}
	if small.hold == nil {
		t.Error("the small work does not begin")
	}
}
