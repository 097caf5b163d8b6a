package loadreport

import (
	"bytes"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/golden"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/wire"
)

// The loads of version 1: their bytes never change, since nodes of the next version send and read them.
func TestLoadsOfVersion1(t *testing.T) {
	for name, got := range map[string][]byte{
		"load": AppendLoad(nil, Load{Queued: 1000, Inbound: 3, Busy: 1.5, Free: 0.5, Mean: time.Millisecond, Draining: true}),
		"load-rest": AppendLoad(nil, Load{Free: 1, Rest: EncodeRest(&ledger.Report{
			Memory: 1 << 30, Custom: map[string]int64{"licence": 500}, Devices: []ledger.FreeDevice{{Share: 500, Memory: 40 << 30}, {Sick: true}},
		})}),
	} {
		if want := golden.Hex(t, "frames/v1-"+name+".hex", got); !bytes.Equal(got, want) {
			t.Errorf("%s: %x\nwant  %x", name, got, want)
		}
	}
}

func TestLoadRoundTrip(t *testing.T) {
	rest := EncodeRest(&ledger.Report{Memory: 9})
	for _, l := range []Load{
		{},
		{Queued: 1, Inbound: 2, Busy: 3.5, Free: 4.25, Mean: 5, Draining: true},
		{Mean: 5, Bandwidth: 7},
		{Rest: rest},
		{Queued: 5, Inbound: 4, Shaped: 3, InboundShaped: 2},
		{Busy: 2, Rest: rest, Held: 1.057},
		{Line: 3 * time.Hour},
		{Queued: 5, Shaped: 3, Rest: rest, Held: 2, Line: time.Second},
		{Inbound: 3, InboundShaped: 1, Parked: 2},
		{Busy: 4, Held: 4, Shared: 2.5},
		{Inbound: 3, Parked: 1, Busy: 4, Held: 2, Shared: 2},
		{Free: 1, Memory: Crowded},
		{Free: 1, Draining: true, Line: 7, Memory: Full},
		{Balances: true},
		{Inbound: 3, Parked: 1, Rest: rest, Balances: true, GrainTime: 1500 * time.Microsecond, GrainStands: 16},
	} {
		b := AppendLoad(nil, l)
		b = append(b, 99) // what follows
		r := wire.NewReader(b)
		got, err := ReadLoad(&r)
		if err != nil || got != l || r.Byte() != 99 {
			t.Errorf("got %+v, %v; want %+v", got, err, l)
		}
		r = wire.NewReader(append([]byte{b[0] + 1}, append(b[1:len(b)-1:len(b)-1], 42)...)) // with a field more
		if got, err := ReadLoad(&r); err != nil || got != l || r.Len() != 0 {
			t.Errorf("with a field more: got %+v, %v", got, err)
		}
		for i := range len(b) - 1 {
			r := wire.NewReader(b[:i])
			if _, err := ReadLoad(&r); err == nil {
				t.Errorf("%d bytes of it are accepted", i)
			}
		}
	}
}

func FuzzReadLoad(f *testing.F) {
	f.Add(AppendLoad(nil, Load{Queued: 1, Mean: time.Second, Draining: true}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		l, err := ReadLoad(&r)
		if err == nil && (l.Queued < 0 || l.Inbound < 0 || l.Busy < 0 || l.Free < 0 || l.Mean < 0 || l.Line < 0 || l.GrainTime < 0 || l.GrainStands < 0) {
			t.Errorf("negative: %+v", l)
		}
	})
}
