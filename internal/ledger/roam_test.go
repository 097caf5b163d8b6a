package ledger

import (
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys/internal/core"
)

// TestRooms: of bundles to which work has come that may be in any of their group, what is free is known, and kept for nothing that
// waits; and what is sent there is taken from it, as far as it is there.
func TestRooms(t *testing.T) {
	l := newLine(Need{CPU: 8000, Memory: 100}, Unnamed(4000))
	carved(t, l, 0, Need{CPU: 2000, GPU: 2000, Memory: 10})
	carved(t, l, 1, Need{CPU: 1000})
	if list := l.Rooms(); list != nil {
		t.Errorf("no work has come, and there are %d rooms", len(list))
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
