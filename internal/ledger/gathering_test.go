package ledger

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/internal/core"
)

// newGathers makes a line with 4 CPUs and these devices, of which the last that are free are chosen.
func newGathers(devices ...Device) *Line {
	l := &Line{}
	l.Init(Need{CPU: 4000, Memory: 100}, devices, Hooks{
		Queue: func() (pushed, popped uint64) { return 0, 0 }, Now: func() int64 { return 0 }, Freed: func() {}, Above: func(Standing) (above, less bool) { return false, false },
		Choose: func(free []int, n int) []int { return slices.Clone(free[len(free)-n:]) },
	})
	return l
}

func named(n int) (list []Device) {
	for i := range n {
		list = append(list, Device{UUID: string(rune('a' + i)), Model: "H100"})
	}
	return list
}

// taken has work take one of each device, and returns what holds it, by the device.
func taken(t *testing.T, l *Line, devices int) map[string]*Hold {
	holds := map[string]*Hold{}
	for range devices {
		l.Push(Need{GPU: Unit}, &job{ends: new(atomic.Int64), grant: func(h *Hold) { holds[l.Devices(h)[0]] = h }})
	}
	if len(holds) != devices {
		t.Fatalf("%d devices are taken of %d", len(holds), devices)
	}
	return holds
}

func parts(n int) (list []Part) {
	for i := range n {
		list = append(list, Part{Name: core.Bundle{Group: "g", Index: i}})
	}
	return list
}

// TestGatheredDevices: devices that were gathered one by one are dealt out together, as those of bundles that are carved of what is free,
// and no others are.
func TestGatheredDevices(t *testing.T) {
	l := newGathers(named(6)...)
	holds := taken(t, l, 6)
	whole := 0
	g := l.NewGathering("group", []Need{{CPU: Unit, GPU: 2 * Unit}, {GPU: 3 * Unit}}, func() { whole++ })
	g.Start()
	for _, d := range []string{"a", "f", "b", "c"} {
		l.Return(holds[d])
	}
	if whole != 0 || g.Whole() {
		t.Error("five devices are gathered where four are free")
	}
	l.Return(holds["d"])
	if whole != 1 || !g.Whole() {
		t.Fatalf("all is there, which was said %d times", whole)
	}
	l.Return(holds["e"])
	var got []string
	for _, b := range g.Carve(parts(2)) {
		got = append(got, "")
		for _, d := range b.Spares() {
			got[len(got)-1] += d.UUID
		}
	}
	if diff := cmp.Diff([]string{"ab", "cdf"}, got); diff != "" {
		t.Errorf("the bundles have other devices:\n%s", diff)
	}
	if got := l.Spares(); l.Free().CPU != 3000 || got[4].Share != Unit || slices.ContainsFunc(got, func(s Spare) bool { return s.Share != 0 && s.UUID != "e" }) {
		t.Errorf("beside the bundles there are %+v, and %+v", got, l.Free())
	}
}

// TestGatheredDevicesStay: where dealing devices out again, the largest part first, misses the way that there is, each part keeps those
// that it was granted.
func TestGatheredDevicesStay(t *testing.T) {
	l := newGathers(named(2)...)
	needs := []Need{{GPU: 500}, {GPU: 300}, {GPU: 200}, {GPU: 400}, {GPU: 400}, {GPU: 200}} // three of one device, and three of the other
	g := l.NewGathering("group", needs, func() {})
	g.Start()
	if !g.Whole() {
		t.Fatal("all is free, and is not granted")
	}
	total := int64(0)
	for _, b := range g.Carve(parts(6)) {
		total += b.Spares()[0].Share
	}
	if left := l.Spares(); total != 2000 || left[0].Share != 0 || left[1].Share != 0 {
		t.Errorf("the bundles have %d thousandths of 2000, and %+v is left", total, left)
	}
}

// TestSickIsNotGathered: a device that falls sick while the rest is gathered is no room, and one that is sick is not gathered.
func TestSickIsNotGathered(t *testing.T) {
	l := newGathers(named(2)...)
	g := l.NewGathering("group", []Need{{GPU: 2 * Unit}}, func() {})
	g.Start()
	l.SetSick("a", true)
	if g.Whole() || l.Gathers([]Need{{GPU: 2 * Unit}}) || !l.Gathers([]Need{{GPU: Unit}}) {
		t.Error("a sick device counts")
	}
	g.End()
	g.End()
	h, short := l.ledger.Take(Need{GPU: Unit})
	if g.parts[0].Grant(&h); !short.Empty() {
		t.Error("nothing is free")
	}
	if got := l.Spares(); got[0].Share != Unit || got[1].Share != Unit {
		t.Errorf("after the end there are %+v", got)
	}
}

// TestGatherersBesideOthers: while tasks of one CPU take it past the lock, work waits in the line, and room is gathered, carved and given
// back, on several goroutines: no more is ever held than there is, what was gathered is never short, and in the end all is free.
func TestGatherersBesideOthers(t *testing.T) {
	l := newGathers(named(4)...)
	of := newAccount(t, "the node", Need{CPU: 4000, Memory: 100}, named(4))
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range 2000 {
				if !l.Reserves() && l.TakeCPU(Unit) {
					of.enter(Need{CPU: Unit}, nil, 1)
					of.enter(Need{CPU: Unit}, nil, -1)
					l.GiveCPU(Unit)
				}
			}
		})
		all.Go(func() {
			for range 500 {
				n, got := Need{CPU: Unit / 2, GPU: Unit}, make(chan *Hold, 1)
				l.Push(n, &job{ends: new(atomic.Int64), grant: func(h *Hold) { got <- h }})
				h := <-got
				of.enter(n, l.Devices(h), 1)
				of.enter(n, l.Devices(h), -1)
				l.Return(h)
			}
		})
	}
	all.Go(func() {
		r := rand.New(rand.NewPCG(1, 2))
		for range 500 {
			whole := make(chan struct{}, 1)
			g := l.NewGathering("group", []Need{{CPU: 2 * Unit, GPU: 2 * Unit}, {CPU: Unit, Memory: 60}}, func() { whole <- struct{}{} })
			switch r.IntN(3) {
			case 0:
				all.Go(g.Start)
				g.End()
			case 1:
				g.Start()
				g.End()
			default:
				g.Start()
				<-whole
				list := g.Carve(parts(2))
				for _, b := range list {
					n := Need{CPU: b.Total(), Memory: b.Free().Memory}
					var devices []string
					for _, d := range b.Spares() {
						n.GPU, devices = n.GPU+Unit, append(devices, d.UUID)
					}
					of.enter(n, devices, 1)
					of.enter(n, devices, -1)
				}
				for _, b := range list {
					b.Close(nil, func() {})
				}
			}
		}
	})
	all.Wait()
	if f := l.Free(); f.CPU != 4000 || f.Memory != 100 || l.Waits.Load() != 0 || l.Held() != 0 {
		t.Errorf("all has returned, %+v is free, %d wait and %d is held", f, l.Waits.Load(), l.Held())
	}
	for _, d := range l.Spares() {
		if d.Share != Unit {
			t.Errorf("all has returned, and a device has %+v", d)
		}
	}
}
