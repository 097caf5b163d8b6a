package system_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/system"
)

// TestLyingReport: whatever a member reports to be free, no more is believed than its record says that it has, so that no report
// makes a node fit for work that it can never run, or idle without end.
func TestLyingReport(t *testing.T) {
	info := member.Info{
		ID: "liar", Resources: raysys.Resources{CPU: 4, GPU: 1.5, Memory: 1 << 30, Custom: map[string]float64{"licence": 2}},
		Devices: []raysys.Device{{UUID: "a", Memory: 80 << 30}, {UUID: "b", Memory: 40 << 30, Share: 0.5}},
	}
	rapid.Check(t, func(t *rapid.T) {
		amount := func(of string) uint64 {
			return rapid.OneOf(rapid.Uint64Range(0, 4000), rapid.Uint64()).Draw(t, of)
		}
		// What is free beside CPU is written by hand: the numbers of an honest node's report are those of its ledger.
		rest := wire.AppendUvarint(nil, amount("memory"))
		rest = wire.AppendUvarint(rest, 2)
		rest = wire.AppendUvarint(wire.AppendBytes(rest, "licence"), amount("licences"))
		rest = wire.AppendUvarint(wire.AppendBytes(rest, "nobody's"), amount("nobody's"))
		listed := rapid.IntRange(0, 4).Draw(t, "devices")
		rest = wire.AppendUvarint(rest, uint64(listed))
		for range listed {
			rest = append(wire.AppendUvarint(wire.AppendUvarint(rest, amount("share")), amount("bytes")), 0)
		}
		said := loadreport.Load{
			Queued: int(amount("queued") >> 1), Inbound: int(amount("inbound") >> 1), Busy: float64(amount("busy")), Free: float64(amount("free")),
			Mean: time.Duration(amount("mean") >> 1), Rest: string(rest), Shaped: int(amount("shaped") >> 1), InboundShaped: int(amount("inbound shaped") >> 1),
			Line: time.Duration(amount("line") >> 1),
		}
		r := wire.NewReader(loadreport.AppendLoad(nil, said))
		l, err := loadreport.ReadLoad(&r)
		if err != nil {
			t.Fatal(err)
		}
		n := system.Believed(info, l)
		if n.Free.CPU < 0 || n.Free.CPU > 4 || n.Running < 0 || n.Running > 4 || n.Queued < 0 || n.Wait(raysys.Resources{CPU: 1}) < 0 || n.Wait(raysys.Resources{GPU: 1}) < 0 {
			t.Fatalf("%v CPUs are free, %d tasks run, %d wait for %v", n.Free.CPU, n.Running, n.Queued, n.Wait(raysys.Resources{CPU: 1}))
		}
		if n.Free.Memory < 0 || n.Free.Memory > 1<<30 || n.Free.GPU < 0 || n.Free.GPU > 1.5 {
			t.Fatalf("%d bytes and %v GPUs are free", n.Free.Memory, n.Free.GPU)
		}
		for name, free := range n.Free.Custom {
			if free < 0 || free > info.Resources.Custom[name] {
				t.Fatalf("%v of %s are free", free, name)
			}
		}
		if len(n.Devices) != 2 {
			t.Fatalf("it has %d devices", len(n.Devices))
		}
		for i, most := range []float64{1, 0.5} {
			d := n.Devices[i]
			if d.FreeShare < 0 || d.FreeShare > most || d.FreeMemory < 0 || d.FreeMemory > d.Memory {
				t.Fatalf("%v and %d bytes of device %d are free", d.FreeShare, d.FreeMemory, i)
			}
		}
	})
}
