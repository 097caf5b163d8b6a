package ledger

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys/internal/core"
)

// TestRooms: of bundles with devices, and of those to which work has come that may be in any of their group, what is free is known, and kept
// for nothing that waits; and what is sent there is taken from it, as far as it is there.
func TestRooms(t *testing.T) {
	l := newLine(Need{CPU: 8000, Memory: 100}, Unnamed(4000))
	carved(t, l, 0, Need{CPU: 2000, GPU: 2000, Memory: 10})
	carved(t, l, 1, Need{CPU: 1000})
	if list := l.Rooms(); len(list) != 1 || list[0].Bundle.Index != 0 {
		t.Errorf("no work has come, and there are rooms of %v, want one of the bundle with devices", list)
	}
	any := core.Bundle{Group: "g", Index: core.AnyBundle}
	var ends atomic.Int64
	granted := 0
	push := func(n Need) {
		t.Helper()
		n.Bundle = any
		if ok, short := l.PushIn(n, &job{ends: &ends, grant: func(*Hold) { granted++ }}); !ok {
			t.Fatal(short.Err())
		}
	}
	room := func(index int) *Room {
		for _, r := range l.Rooms() {
			if r.Bundle.Index == index {
				return &r
			}
		}
		t.Fatalf("nothing is known of bundle %d", index)
		return nil
	}
	push(Need{CPU: 1000, GPU: 500})
	if r := room(0); granted != 1 || !r.Has(&Need{CPU: 1000, GPU: 1000, Memory: 10}) || !r.Has(&Need{GPU: 500}) || r.Has(&Need{GPU: 2000}) || r.Has(&Need{CPU: 2000}) {
		t.Errorf("after %d of one task, with half a device, bundle 0 has %+v, %+v", granted, r, r.Rest)
	}
	if r := room(1); !r.Has(&Need{CPU: 1000}) || r.Has(&Need{GPU: 100}) || r.Has(&Need{Memory: 1}) || r.Has(&Need{Custom: map[string]int64{"licence": 1}}) {
		t.Errorf("bundle 1 has %+v", r)
	}
	r := room(0)
	r.Take(&Need{CPU: 1000, GPU: 1000, Custom: map[string]int64{"licence": 1}})
	if r.Has(&Need{CPU: 500}) || r.Has(&Need{GPU: 1000}) || !r.Has(&Need{GPU: 500}) || !room(0).Has(&Need{GPU: 1000}) {
		t.Errorf("less a device and a CPU bundle 0 has %+v, %+v", r, r.Rest)
	}
	push(Need{CPU: 1000, GPU: 2000}) // waits for the device of the first
	if r := room(0); granted != 1 || l.Roaming.Load() != 1 || l.Still() || !r.Has(&Need{CPU: 1000}) || r.Has(&Need{GPU: 500}) {
		t.Errorf("with %d of two tasks, of which the second waits for both devices of bundle 0, that has %+v, %+v", granted, r, r.Rest)
	}
}

// TestRoomModels: work that asks for a model of device goes where devices of it are free, as far as their models are known. What a bundle
// asks for says of its devices what those of each model that it means have.
func TestRoomModels(t *testing.T) {
	const h100 = "NVIDIA H100 80GB HBM3"
	free := func(models ...string) *Room {
		r := Room{Rest: &Report{}}
		for _, m := range models {
			r.Rest.Devices = append(r.Rest.Devices, FreeDevice{Share: Unit, Model: m})
		}
		return &r
	}
	whole := func(n Need) *Room {
		r := RoomOf(core.Bundle{}, n)
		return &r
	}
	for _, c := range []struct {
		room *Room
		asks Need
		has  bool
	}{
		{free(h100), Need{GPU: 1000, GPUModel: "H100"}, true},
		{free(h100), Need{GPU: 1000, GPUModel: "A100"}, false},
		{free("NVIDIA L4", h100), Need{GPU: 1000, GPUModel: "h100"}, true},
		{free("NVIDIA L4", h100), Need{GPU: 2000, GPUModel: "H100"}, false},
		{free(""), Need{GPU: 1000, GPUModel: "H100"}, false},
		{free(""), Need{GPU: 1000}, true},
		{whole(Need{GPU: 1000, GPUModel: "NVIDIA H100"}), Need{GPU: 1000, GPUModel: "H100"}, true},
		{whole(Need{GPU: 1000, GPUModel: "NVIDIA"}), Need{GPU: 1000, GPUModel: "H100"}, false},
		{whole(Need{GPU: 1000, GPUModel: "H100 MIG"}), Need{GPU: 1000, GPUModel: "H100"}, false},
		{whole(Need{GPU: 1000}), Need{GPU: 1000, GPUModel: "H100"}, false},
		{whole(Need{GPU: 1000}), Need{GPU: 1000}, true},
	} {
		if got := c.room.Has(&c.asks); got != c.has {
			t.Errorf("a bundle with devices %+v has %v: %v, want %v", c.room.Rest.Devices, c.asks, got, c.has)
		}
	}
	r := free("NVIDIA L4", h100, h100)
	r.Take(&Need{GPU: 1000, GPUModel: "H100"})
	if !r.Has(&Need{GPU: 1000, GPUModel: "H100"}) || r.Has(&Need{GPU: 2000, GPUModel: "H100"}) || !r.Has(&Need{GPU: 1000, GPUModel: "L4"}) {
		t.Errorf("less one of two devices of a model there are %+v", r.Rest.Devices)
	}
}

// TestRoomNumbers: a bundle says which devices of its node it has.
func TestRoomNumbers(t *testing.T) {
	l := newLine(Need{}, []Device{{UUID: "a", Model: "L4"}, {UUID: "b", Model: "H100"}, {UUID: "c", Model: "L4"}, {UUID: "d", Model: "H100"}})
	carved(t, l, 0, Need{GPU: 1000, GPUModel: "L4"})
	carved(t, l, 1, Need{GPU: 2000, GPUModel: "H100"})
	for _, r := range l.Rooms() {
		if want := [][]int{{0}, {1, 3}}[r.Bundle.Index]; !slices.Equal(r.Numbers, want) {
			t.Errorf("bundle %d has devices %v, want %v", r.Bundle.Index, r.Numbers, want)
		}
	}
	if n := len(l.Rooms()); n != 2 {
		t.Errorf("%d bundles say which devices they have, want 2", n)
	}
}
