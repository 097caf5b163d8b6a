package tally

import (
	"testing"
	"time"
	"unsafe"

	"github.com/raysys/raysys/internal/core"
)

// TestRecorder: below the rate all runs have events; above it one of so many has, and what was left out is known; a full ring takes none.
func TestRecorder(t *testing.T) {
	if n := unsafe.Sizeof(Event{}); n*maxEvents > 16<<20 {
		t.Fatalf("an event has %d bytes: %d of them are more than 16 MiB", n, maxEvents)
	}
	var ring Tally
	f := ring.Function(TaskKind, "f")
	up := core.NewRoot(&core.Job{}, t.Context(), nil, core.TaskID{Hi: 1, Lo: 2})
	for _, c := range []struct {
		name        string
		d           time.Duration
		most        int
		perTick     int // runs
		least, kept int // events, of those runs
	}{
		{"few", time.Second, 1 << 20, 100, 10_000, 10_000},
		{"as many as there is room for", time.Second, 1 << 20, 200, 20_000, 20_000},
		{"many", time.Second, 1 << 20, 10_000, 15_000, eventsPerSecond + firstEvents},
		{"many, for long", time.Minute, 1 << 20, 1000, maxEvents * 3 / 4, maxEvents},
		{"a small ring", time.Second, 500, 100, 250, 500},
		{"one", time.Second, 1, 100, 1, 1},
	} {
		r := NewRecorder(c.d, c.most)
		ring.Record(r)
		now, begun := int64(0), 0
		halves, within := [2]int{}, [2]int{} // events in halves of the time, and in those of a tick's runs
		ticks := int(c.d / TickRecorder)
		for tick := range ticks {
			for i := range c.perTick {
				begun++
				now++
				if e := ring.Recorder().Take(uint(i)); e != nil {
					var future core.Future
					future.Init(nil, up, uint64(begun), false)
					e.Begin(f, &future, 3, now)
					halves[2*tick/ticks]++
					within[2*i/c.perTick]++
					if begun%2 == 0 {
						e.End(Error, now+5)
					}
				}
			}
			if tick == 0 && r.Taken() > firstEvents {
				t.Errorf("%s: %d events before the first tick", c.name, r.Taken())
			}
			r.Tick()
		}
		ring.Record(nil)
		if ring.Recorder() != nil {
			t.Fatal("it is on after its end")
		}
		if r.Begun() != uint64(begun) || r.Taken() < c.least || r.Taken() > c.kept || halves[0]+halves[1] != r.Taken() {
			t.Errorf("%s: %d began, %d were taken; want %d, and %d to %d", c.name, r.Begun(), r.Taken(), begun, c.least, c.kept)
		}
		if halves[1] < halves[0]*2/3-firstEvents {
			t.Errorf("%s: the first half of the time has %d events, the second %d", c.name, halves[0], halves[1])
		}
		if tenth := c.perTick * ticks / c.least; tenth > 10 && within[1] < within[0]/3 {
			t.Errorf("%s: of the runs between two ticks the first half has %d events, the second %d", c.name, within[0], within[1])
		}
		last := uint64(0)
		for i := range r.Taken() {
			e, ended := r.Event(i)
			if e == nil || e.Of != f || e.Seq <= last || e.Began != int64(e.Seq) || e.Turn != up.ID() || e.Slot != 3 || ended != (e.Seq%2 == 0) || ended && (e.Took != 5 || e.Outcome != Error) {
				t.Fatalf("%s: event %d: %+v, ended %v", c.name, i, e, ended)
			}
			last = e.Seq
		}
	}
	r := NewRecorder(time.Second, 10)
	r.Take(0)
	if e, _ := r.Event(0); e != nil {
		t.Errorf("an event that nobody has filled: %+v", e)
	}
}
