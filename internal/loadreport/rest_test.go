package loadreport

import (
	"errors"
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
	got, err := ReadRooms(EncodeRooms(someRooms))
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
	rest := EncodeRest(someRooms[0].Rest)
	got, err := ReadRooms(frame(rest + "\x02\x03\xac\x02" + "more"))
	if d := cmp.Diff(someRooms[:1], got); d != "" || err != nil {
		t.Errorf("%v, %s", err, d)
	}
	if got, err := ReadRooms(frame(rest)); !errors.Is(err, wire.ErrCorrupt) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func FuzzReadRooms(f *testing.F) {
	f.Add(EncodeRooms(someRooms))
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
