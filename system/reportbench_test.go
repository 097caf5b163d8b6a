package system_test

import (
	"context"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/system"
)

// BenchmarkReport is what a report of load costs the node that hears it, from its frame on: one of other CPUs that are free, and one of
// other memory, which is entered in the view by which work is placed.
func BenchmarkReport(b *testing.B) {
	f := newFleet(b)
	w, ctx := f.place("w", system.Worker, func(c *system.Config) { c.Resources.CPU, c.Resources.Memory = 4, 1<<30 })
	d, _ := f.place("d", system.Driver)
	meet(b, w, d)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	loadHolds.With(raysys.Memory(1)).Go(ctx, 0) // so that there is a view
	load := loadreport.Load{Queued: 1000, Inbound: 100, Mean: time.Millisecond}
	rest := func(memory uint64) string {
		return string(wire.AppendUvarint(wire.AppendUvarint(wire.AppendUvarint(nil, memory), 0), 0)) // no other resources and no devices
	}
	for name, frames := range map[string][2][]byte{
		"cpus":   {report(load, 1, ""), report(load, 2, "")},
		"memory": {report(load, 1, rest(1<<20)), report(load, 1, rest(2<<20))},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := system.Hear(w, "d", frames[i%2]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func report(l loadreport.Load, free float64, rest string) []byte {
	l.Free, l.Rest = free, rest
	return loadreport.Append(nil, l, "", loadreport.Received{Tasks: 1000})
}
