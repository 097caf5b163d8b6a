package ledger

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/raysys/raysys/internal/core"
)

func eight(model string) (list []Device) {
	for i := range 8 {
		list = append(list, Device{UUID: fmt.Sprintf("GPU-%d", i), Model: model, Memory: 80 << 30})
	}
	return list
}

func anyNeed(t *rapid.T) Need {
	n := Need{
		CPU:    rapid.SampledFrom([]int64{0, 1, 500, 1000, 4000, 9000}).Draw(t, "cpu"),
		Memory: rapid.SampledFrom([]int64{0, 1, 1 << 30, 1 << 40}).Draw(t, "memory"),
		GPU:    rapid.SampledFrom([]int64{0, 0, 1, 333, 500, 999, 1000, 2000, 8000, 9000}).Draw(t, "gpu"),
	}
	if n.GPU > 0 {
		n.GPUMemory = rapid.SampledFrom([]int64{0, 1, 50 << 30, 81 << 30}).Draw(t, "gpu memory")
		n.GPUModel = rapid.SampledFrom([]string{"", "", "H100", "A100"}).Draw(t, "model")
	}
	if rapid.Bool().Draw(t, "licensed") {
		n.Custom = map[string]int64{"licence": rapid.SampledFrom([]int64{1, 1000, 3000}).Draw(t, "licences")}
	}
	return n
}

// TestNothingHeldTwice: whatever is taken, given back and falls sick, no resource is held beyond what there is, whole devices
// are whole, what Ever refuses is never held, and at the end nothing is missing.
func TestNothingHeldTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := Need{CPU: 8000, Memory: 1 << 32, Custom: map[string]int64{"licence": 4000}}
		devices := eight("H100")
		devices[7].Model, devices[7].Memory = "A100", 40<<30
		l := New(total, devices)
		fresh := l.Free()
		sick := map[string]bool{}
		var held []Hold
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1:
				n := anyNeed(t)
				ever := l.Ever(n)
				h, short := l.Take(n)
				if !short.Empty() {
					if !ever.Empty() && ever.Err() == nil {
						t.Fatalf("%v: a shortage without words", n)
					}
					break
				}
				if !ever.Empty() {
					t.Fatalf("%v is held, and %v", n, ever.Err())
				}
				for _, uuid := range l.Devices(h) {
					if sick[uuid] {
						t.Fatalf("%v is held with %s, which is sick", n, uuid)
					}
				}
				if got := len(l.Devices(h)); got != n.count() {
					t.Fatalf("%v holds %d devices", n, got)
				}
				held = append(held, h)
			case 2, 3:
				if len(held) > 0 {
					i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
					l.Return(held[i])
					held = append(held[:i], held[i+1:]...)
				}
			default:
				uuid := devices[rapid.IntRange(0, 7).Draw(t, "device")].UUID
				sick[uuid] = rapid.Bool().Draw(t, "sick")
				if !l.SetSick(uuid, sick[uuid]) {
					t.Fatal(uuid)
				}
			}
			check(t, l, total, devices, held)
		}
		for _, h := range held {
			l.Return(h)
		}
		if diff := cmp.Diff(fresh, l.Free()); diff != "" {
			t.Fatalf("something leaked:\n%s", diff)
		}
		for i, s := range l.Spares() {
			if s.Share != Unit || s.Bytes != devices[i].Memory {
				t.Fatalf("something of a device leaked: %+v", s)
			}
		}
	})
}

// check sums the holds up.
func check(t *rapid.T, l *Ledger, total Need, devices []Device, held []Hold) {
	sum := Need{Custom: map[string]int64{}}
	share, bytes, wholes := map[int]int64{}, map[int]int64{}, map[int]int{}
	for _, h := range held {
		sum.CPU += h.need.CPU
		sum.Memory += h.need.Memory
		for k, v := range h.need.Custom {
			sum.Custom[k] += v
		}
		for _, i := range h.devices {
			share[i] += min(h.need.GPU, Unit)
			bytes[i] += h.need.GPUMemory
			if h.need.GPU >= Unit {
				wholes[i]++
			}
			if h.need.GPUModel != "" && h.need.GPUModel != devices[i].Model {
				t.Fatalf("%v has a %s", h.need, devices[i].Model)
			}
		}
	}
	if sum.CPU > total.CPU || sum.Memory > total.Memory || sum.Custom["licence"] > total.Custom["licence"] {
		t.Fatalf("%v is held of %v", sum, total)
	}
	for i, d := range devices {
		if share[i] > Unit || bytes[i] > d.Memory || wholes[i] > 1 {
			t.Fatalf("of %s %d thousandths and %d bytes are held, by %d as a whole", d.UUID, share[i], bytes[i], wholes[i])
		}
	}
	want := Need{CPU: total.CPU - sum.CPU, Memory: total.Memory - sum.Memory, Custom: maps.Clone(total.Custom)}
	want.Custom["licence"] -= sum.Custom["licence"]
	if diff := cmp.Diff(want, l.Free()); diff != "" {
		t.Fatalf("what is free is not what is left:\n%s", diff)
	}
}

// TestHalvesAreNoWhole: halves of two devices do not make one, and shares fill one device before the next.
func TestHalvesAreNoWhole(t *testing.T) {
	l := New(Need{}, eight("H100")[:2])
	half := Need{GPU: 500}
	a, _ := l.Take(half)
	b, _ := l.Take(half)
	if l.Devices(a)[0] != l.Devices(b)[0] {
		t.Errorf("two halves lie on %v and %v, and no device is whole", l.Devices(a), l.Devices(b))
	}
	c, _ := l.Take(half)
	l.Return(a)
	if _, short := l.Take(Need{GPU: 1000}); !short.GPU {
		t.Error("a half of each of two devices was given as a whole")
	}
	l.Return(c)
	if h, short := l.Take(Need{GPU: 1000}); !short.Empty() || l.Devices(h)[0] != "GPU-1" {
		t.Errorf("the device that is free was not given: %v, %v", short, l.Devices(h))
	}
}

// TestEver: what no state of the node has is said with what there is.
func TestEver(t *testing.T) {
	l := New(Need{CPU: 4000, Memory: 1 << 30, Custom: map[string]int64{"seat": 2000}}, eight("H100")[:2])
	for _, c := range []struct {
		need Need
		want string
	}{
		{Need{CPU: 4000, GPU: 2000, GPUMemory: 80 << 30, GPUModel: "H100"}, ""},
		{Need{CPU: 5000}, "CPU 5 of 4"},
		{Need{Memory: 1 << 31}, "Memory 2 GiB of 1 GiB"},
		{Need{Custom: map[string]int64{"x": 1}}, "x 0.001 of 0, but seat"},
		{Need{Custom: map[string]int64{"seat": 3000}}, "seat 3 of 2"},
		{Need{GPU: 3000}, "GPU 3, where 2 of 2 devices would do"},
		{Need{GPU: 500, GPUModel: "A100"}, `GPU 0.5, where 0 of 2 devices would do (GPUModel "A100"): there is GPUModel "H100"`},
		{Need{GPU: 500, GPUMemory: 81 << 30}, "GPU 0.5, where 0 of 2 devices would do (GPUMemory 81 GiB): there is GPUMemory 80 GiB"},
	} {
		s := l.Ever(c.need)
		got := ""
		if err := s.Err(); err != nil {
			got = err.Error()
		}
		if got != c.want || s.Empty() != (c.want == "") {
			t.Errorf("%v: %q, want %q", c.need, got, c.want)
		}
	}
}

func TestOf(t *testing.T) {
	n := Of(core.Resources{CPU: 0.1, GPU: 0.25, Memory: 7, Custom: map[string]float64{"a": 2, "b": 0}})
	if diff := cmp.Diff(Need{CPU: 100, GPU: 250, Memory: 7, Custom: map[string]int64{"a": 2000}}, n); diff != "" {
		t.Error(diff)
	}
	if s := n.String(); s != "CPU 0.1, GPU 0.25, Memory 7 B, a 2" {
		t.Error(s)
	}
}

// TestChoose: whole devices are chosen among those that would do, and only where there is a choice.
func TestChoose(t *testing.T) {
	devices := eight("H100")
	devices[0].Model = "A100"
	var asked [][]int
	l := &Line{}
	l.Init(Need{}, devices, Hooks{Choose: func(free []int, n int) []int {
		asked = append(asked, free)
		return free[len(free)-n:]
	}})
	h, _ := l.ledger.Take(Need{GPU: 2000, GPUModel: "H100"})
	if diff := cmp.Diff([]string{"GPU-6", "GPU-7"}, l.Devices(&h)); diff != "" {
		t.Errorf("other devices are held than were chosen:\n%s", diff)
	}
	if h, short := l.ledger.Take(Need{GPU: 5000, GPUModel: "H100"}); !short.Empty() || len(h.devices) != 5 {
		t.Errorf("five of five devices: %v", h.devices)
	}
	if h, short := l.ledger.Take(Need{GPU: 500}); !short.Empty() || h.devices[0] != 0 {
		t.Errorf("a share is of device %v", h.devices)
	}
	if diff := cmp.Diff([][]int{{1, 2, 3, 4, 5, 6, 7}}, asked); diff != "" {
		t.Errorf("a choice was made among others:\n%s", diff)
	}
}
