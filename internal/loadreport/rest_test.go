package taskengine

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/wire"
)

var someRooms = []ledger.Room{
	{Bundle: core.Bundle{Group: "p/ns\x00g", Index: 0}, CPU: 2000, Rest: &ledger.Report{
		Memory: 5, Custom: map[string]int64{"licence": 1500}, Devices: []ledger.FreeDevice{{Share: 500, Memory: 9}, {Sick: true}},
	}, Numbers: []int{3, 300}},
	{Bundle: core.Bundle{Group: "p/ns\x00g", Index: 7}, Rest: &ledger.Report{}},
}

func TestRoomsRoundTrip(t *testing.T) {
	got, err := ReadRooms(encodeRooms(someRooms))
	if d := cmp.Diff(someRooms, got); d != "" || err != nil {
		t.Errorf("%v, %s", err, d)
	}
}

// TestRoomsOfALaterVersion: what it says more of a bundle is skipped. One that does not say which devices a bundle has is corrupt.
func TestRoomsOfALaterVersion(t *testing.T) {
	frame := func(room string) string {
		b := wire.AppendUvarint(nil, 1)
		b = wire.AppendUvarint(wire.AppendBytes(b, someRooms[0].Bundle.Group), 0)
		return string(wire.AppendBytes(wire.AppendUvarint(b, 2000), room))
	}
	rest := encodeRest(someRooms[0].Rest)
	got, err := ReadRooms(frame(rest + "\x02\x03\xac\x02" + "more"))
	if d := cmp.Diff(someRooms[:1], got); d != "" || err != nil {
		t.Errorf("%v, %s", err, d)
	}
	if got, err := ReadRooms(frame(rest)); !errors.Is(err, wire.ErrCorrupt) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func FuzzReadRooms(f *testing.F) {
	f.Add(encodeRooms(someRooms))
	f.Fuzz(func(t *testing.T, s string) {
		list, err := ReadRooms(s)
		if err != nil {
			return
		}
		for i := range list {
			r := &list[i]
			if r.CPU < 0 || r.Rest == nil || r.Bundle.Index < 0 || len(r.Rest.Devices) > len(s) || len(r.Numbers) > len(s) {
				t.Errorf("%+v", r)
			}
			for _, n := range r.Numbers {
				if n < 0 {
					t.Errorf("device %d", n)
				}
			}
		}
	})
}

// TestSickRoomsAreSaid: of more bundles than a report has those with sick devices are in it.
func TestSickRoomsAreSaid(t *testing.T) {
	const bundles = MaxRooms + 1
	var e Engine
	e.line.Init(ledger.Need{}, ledger.Unnamed(bundles*ledger.Unit), ledger.Hooks{
		Queue: func() (pushed, popped uint64) { return 0, 0 }, Now: func() int64 { return 0 }, Freed: func() {},
		Above: func(ledger.Standing) (above, less bool) { return false, false },
	})
	parts := make([]ledger.Part, bundles)
	for i := range parts {
		parts[i] = ledger.Part{Name: core.Bundle{Group: "g", Index: i}, Need: ledger.Need{GPU: ledger.Unit}}
	}
	if _, _, short := e.line.Carve(parts...); !short.Empty() {
		t.Fatal("the bundles have no room")
	}
	e.line.SetSick(fmt.Sprint(bundles-1), true)
	list, err := ReadRooms(e.rooms())
	if err != nil || len(list) != MaxRooms {
		t.Fatalf("%d bundles are reported, of %d: %v", len(list), bundles, err)
	}
	if sick := slices.IndexFunc(list, func(r ledger.Room) bool { return r.Sick() == 1 }); sick != 0 {
		t.Errorf("the bundle whose device is sick is at %d of the report", sick)
	}
}
