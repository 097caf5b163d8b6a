package ledger

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/long"
)

func newLine(total Need, devices []Device) *Line {
	l := &Line{}
	l.Init(total, devices, Hooks{Queue: func() (pushed, popped uint64) { return 0, 0 }, Freed: func() {}, Now: func() int64 { return 0 }, Above: func(Standing) (above, less bool) { return false, false }})
	return l
}

// piece is work that a test pushes.
type piece struct {
	name    string
	class   core.Class
	job     *core.Job
	over    atomic.Bool
	waits   atomic.Bool // for something that is no resource
	granted func(*piece, *Hold)
}

func (p *piece) Class() core.Class { return p.class }
func (p *piece) Job() *core.Job    { return p.job }
func (p *piece) Over() bool        { return p.over.Load() }
func (p *piece) Begins(*Need) bool { return !p.waits.Load() }
func (p *piece) Grant(h *Hold)     { p.granted(p, h) }

// TestNothingOverNothingLeaked: whatever eight goroutines ask for, wait for, cancel while it waits and give back, no resource
// is held beyond what there is, and in the end all of it is free and nothing waits.
func TestNothingOverNothingLeaked(t *testing.T) {
	total := Need{CPU: 8000, Memory: 1 << 32, Custom: map[string]int64{"licence": 4000}}
	l := newLine(total, eight("H100"))
	fresh := l.Free()
	var memory, licences atomic.Int64
	var shares [8]atomic.Int64
	enter := func(h *Hold, sign int64) {
		n := h.Need()
		if v := memory.Add(sign * n.Memory); v > total.Memory || v < 0 {
			t.Errorf("%d bytes of memory are held, of %d", v, total.Memory)
		}
		if v := licences.Add(sign * n.Custom["licence"]); v > 4000 || v < 0 {
			t.Errorf("%d licences are held, of 4000", v)
		}
		for _, i := range h.devices {
			if v := shares[i].Add(sign * min(n.GPU, Unit)); v > Unit || v < 0 {
				t.Errorf("%d thousandths of device %d are held", v, i)
			}
		}
	}
	each := long.Form(1_000, 12_500)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			grants := make(chan *Hold, each)
			waiting := make([]*piece, 0, each)
			got := 0
			give := func(h *Hold) {
				got++
				if h != nil {
					enter(h, -1)
					l.Return(h)
				}
			}
			for range each {
				p := &piece{granted: func(_ *piece, h *Hold) {
					if h != nil {
						enter(h, +1)
					}
					grants <- h
				}}
				waiting = append(waiting, p)
				l.Push(Need{
					CPU: []int64{0, 500, 4000}[r.IntN(3)], GPU: []int64{0, 333, 1000, 8000}[r.IntN(4)],
					Memory: []int64{0, 1, 1 << 30}[r.IntN(3)], Custom: map[string]int64{"licence": []int64{0, 1, 3000}[r.IntN(3)]},
				}, p)
				if r.IntN(10) == 0 {
					waiting[r.IntN(len(waiting))].over.Store(true)
				}
				for len(grants) > 0 && r.IntN(4) != 0 {
					give(<-grants)
				}
			}
			for got < each {
				give(<-grants)
			}
		})
	}
	all.Wait()
	if diff := cmp.Diff(fresh, l.Free()); diff != "" || l.Waits.Load() != 0 {
		t.Fatalf("something leaked, and %d wait:\n%s", l.Waits.Load(), diff)
	}
	for _, s := range l.Spares() {
		if s.Share != Unit || s.Bytes != s.Memory {
			t.Fatalf("something of a device leaked: %+v", s)
		}
	}
}

// TestOldestFirst: work of one shape begins in the order in which it came; a large need is not starved by a stream of small
// ones of another shape; and work whose resources are free goes past older work that lacks others.
func TestOldestFirst(t *testing.T) {
	l := newLine(Need{CPU: 4000, Custom: map[string]int64{"licence": 2000}}, eight("H100")[:2])
	var order []string
	held := map[string]*Hold{}
	push := func(name string, n Need) *piece {
		p := &piece{name: name, granted: func(p *piece, h *Hold) {
			order = append(order, p.name)
			held[p.name] = h
		}}
		l.Push(n, p)
		return p
	}
	whole := Need{GPU: 2000}
	push("both", whole)
	push("both again", whole)
	cancelled := push("both, cancelled", whole)
	push("both, last", whole)
	push("share", Need{GPU: 100})
	push("licence", Need{Custom: map[string]int64{"licence": 1000}})
	cancelled.over.Store(true)
	for _, name := range []string{"both", "both again", "both, last"} {
		l.Return(held[name])
	}
	want := []string{"both", "licence", "both again", "both, cancelled", "both, last", "share"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("work began in another order:\n%s", diff)
	}
	if held["both, cancelled"] != nil {
		t.Error("work that was cancelled while it waited was given devices")
	}
	if n := len(l.Remove(func(Work) bool { return true })); n != 0 || l.Waits.Load() != 0 {
		t.Errorf("%d are left", n)
	}
}

// TestLargeNeedGathers: what is free is kept for the oldest work that is short of it: small needs that come later, and would fit, do
// not starve it.
func TestLargeNeedGathers(t *testing.T) {
	l := newLine(Need{CPU: 4000}, eight("H100")[:2])
	var order []string
	held := map[string]*Hold{}
	push := func(name string, n Need) {
		l.Push(n, &piece{name: name, granted: func(p *piece, h *Hold) {
			order = append(order, p.name)
			held[p.name] = h
		}})
	}
	push("one", Need{GPU: 1000})
	push("both", Need{GPU: 2000})
	push("small", Need{GPU: 100})
	push("CPU", Need{CPU: 4000}) // which is another resource
	l.Return(held["one"])
	l.Return(held["both"])
	if diff := cmp.Diff([]string{"one", "CPU", "both", "small"}, order); diff != "" {
		t.Errorf("work began in another order:\n%s", diff)
	}
}

// TestNotBegun: work that something else is in the way of holds nothing, and begins once that is gone.
func TestNotBegun(t *testing.T) {
	l := newLine(Need{CPU: 1000, Memory: 10}, eight("H100")[:1])
	fresh := l.Free()
	granted := 0
	p := &piece{granted: func(*piece, *Hold) { granted++ }}
	p.waits.Store(true)
	l.Push(Need{Memory: 4, GPU: 500}, p)
	l.Serve()
	if diff := cmp.Diff(fresh, l.Free()); diff != "" || l.Spares()[0].Share != Unit || granted != 0 {
		t.Fatalf("work that has not begun holds something of the device, %v, or of the rest:\n%s", l.Spares(), diff)
	}
	p.waits.Store(false)
	if l.Serve(); granted != 1 {
		t.Errorf("granted %d times", granted)
	}
}

// TestClasses: of work that waits for the same resource that of the highest class begins first, whatever it asks for, and work
// that has waited rises: Low work is not starved by High work that keeps coming.
func TestClasses(t *testing.T) {
	l := newLine(Need{CPU: 4000}, eight("H100")[:2])
	now := int64(0)
	l.hooks.Now = func() int64 { return now }
	var order []string
	var held *Hold
	push := func(name string, class core.Class, n Need) {
		l.Push(n, &piece{name: name, class: class, granted: func(p *piece, h *Hold) {
			order = append(order, p.name)
			held = h
		}})
	}
	both := Need{GPU: 2000}
	push("first", core.Normal, both)
	push("low", core.Low, both)
	push("normal", core.Normal, both)
	push("high", core.High, both)
	push("high, one device", core.High, Need{GPU: 2000, CPU: 1000})
	for range 4 {
		l.Return(held)
	}
	if diff := cmp.Diff([]string{"first", "high", "high, one device", "normal", "low"}, order); diff != "" {
		t.Errorf("work began in another order:\n%s", diff)
	}
	order = nil
	push("low", core.Low, both)
	for i := range 6 {
		now += int64(core.AgeStep) / 2
		push(fmt.Sprint("high ", i), core.High, both)
		l.Return(held)
	}
	if diff := cmp.Diff([]string{"high 0", "high 1", "high 2", "low", "high 3", "high 4"}, order); diff != "" {
		t.Errorf("Low work that has waited for two steps is not as High work of its age:\n%s", diff)
	}
}

// TestDemand: what waits is listed by shape, with the age of the oldest that is not over.
func TestDemand(t *testing.T) {
	l := newLine(Need{CPU: 1000}, eight("H100")[:1])
	now := int64(0)
	l.hooks.Now = func() int64 { return now }
	var held *Hold
	push := func(n Need) *piece {
		now++
		p := &piece{granted: func(_ *piece, h *Hold) { held = h }}
		l.Push(n, p)
		return p
	}
	push(Need{GPU: 1000})
	if got := l.Demand(); got != nil {
		t.Errorf("nothing waits, and the demand is %v", got)
	}
	first := push(Need{GPU: 1000})
	push(Need{GPU: 500})
	push(Need{GPU: 1000})
	first.over.Store(true)
	if diff := cmp.Diff([]Demand{{Need{GPU: 1000}, "", 1, 4}, {Need{GPU: 500}, "", 1, 3}}, l.Demand()); diff != "" {
		t.Error(diff)
	}
	l.Return(held)
	if diff := cmp.Diff([]Demand{{Need{GPU: 1000}, "", 1, 4}}, l.Demand()); diff != "" {
		t.Errorf("after the half has begun:\n%s", diff)
	}
}

// TestReserves: free CPU is kept for work that lacks nothing but CPU once the tasks that were queued before it have begun.
func TestReserves(t *testing.T) {
	l := &Line{}
	var pushed, popped uint64 = 7, 6
	l.Init(Need{CPU: 2000, Memory: 10}, nil, Hooks{Queue: func() (uint64, uint64) { return pushed, popped }, Freed: func() {}, Now: func() int64 { return 0 }, Above: func(Standing) (above, less bool) { return false, false }})
	l.TakeCPU(1000)
	var h *Hold
	l.Push(Need{CPU: 2000, Memory: 10}, &piece{granted: func(_ *piece, got *Hold) { h = got }})
	if l.Reserves() {
		t.Error("CPU is kept from a task that was queued before")
	}
	if popped = 7; !l.Reserves() {
		t.Error("no CPU is kept")
	}
	if l.GiveCPU(1000); h == nil || l.Reserves() || l.CPU().Load() != 0 {
		t.Errorf("the work was given %v, and %d of CPU are free", h, l.CPU().Load())
	}
	l.Push(Need{CPU: 1000, Memory: 1}, &piece{granted: func(*piece, *Hold) {}})
	if l.Reserves() {
		t.Error("CPU is kept for work that lacks memory")
	}
}

// TestReservesByClass: work of class High gets the next CPU whatever tasks were queued before it, work of class Low waits for those
// that were queued after it, too.
func TestReservesByClass(t *testing.T) {
	for class, want := range map[core.Class][]bool{core.High: {true, true, true}, core.Normal: {false, true, true}, core.Low: {false, false, true}} {
		l := &Line{}
		var pushed, popped uint64 = 5, 3
		l.Init(Need{CPU: 1000, Memory: 10}, nil, Hooks{Queue: func() (uint64, uint64) { return pushed, popped }, Freed: func() {}, Now: func() int64 { return 0 }, Above: func(Standing) (above, less bool) { return false, false }})
		l.TakeCPU(1000)
		l.Push(Need{CPU: 1000, Memory: 1}, &piece{class: class, granted: func(*piece, *Hold) {}})
		pushed = 8
		for i, at := range []uint64{4, 5, 8} {
			if popped = at; l.Reserves() != want[i] {
				t.Errorf("work of class %d that came after 5 of 8 tasks: once %d have begun a CPU is kept for it: %t", class, at, !want[i])
			}
		}
	}
}

func TestUnnamed(t *testing.T) {
	if got := fmt.Sprint(Unnamed(2500)); got != "[{0  0 1000} {1  0 1000} {2  0 500}]" {
		t.Error(got)
	}
	l := newLine(Need{}, Unnamed(1500))
	if s := l.Ever(Need{GPU: 600}); !s.Empty() {
		t.Error(s.Err())
	}
	if s := l.Ever(Need{GPU: 2000}); s.Empty() {
		t.Error("one device and a half count as two")
	}
}
