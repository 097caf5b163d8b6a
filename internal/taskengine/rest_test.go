package taskengine

import (
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

// TestRoomsOfAnEarlierVersion: one that does not say which devices a bundle has is read; so is a later one that says more.
func TestRoomsOfAnEarlierVersion(t *testing.T) {
	rest := encodeRest(someRooms[0].Rest)
	for name, room := range map[string]string{"earlier": rest, "later": rest + "\x02\x03\xac\x02" + "more"} {
		frame := wire.AppendUvarint(nil, 1)
		frame = wire.AppendUvarint(wire.AppendBytes(frame, someRooms[0].Bundle.Group), 0)
		frame = wire.AppendBytes(wire.AppendUvarint(frame, 2000), room)
		want := someRooms[0]
		if name == "earlier" {
			want.Numbers = nil
		}
		got, err := ReadRooms(string(frame))
		if d := cmp.Diff([]ledger.Room{want}, got); d != "" || err != nil {
			t.Errorf("%s: %v, %s", name, err, d)
		}
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
