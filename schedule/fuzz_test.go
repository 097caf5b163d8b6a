package schedule

import (
	"cmp"
	"encoding/json"
	"flag"
	"math"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/due"
)

// before are records as the version before wrote them: without Set, From and Left, with Retry beside Running.
var before = []string{
	`{"Spec":{"When":{"Every":60000000000},"CatchUp":1,"Work":{"Function":"f"}},"Next":946684860000000000}`,
	`{"Spec":{"When":{"Line":"30 2 * * mon-fri","Zone":"Europe/Berlin"},"Overlap":1,"CatchUp":3,"Jitter":20000000000,"Work":{"Kind":"room","Key":"a","Function":"room.Clean","Keyed":true,"Arg":"AQI="}},"Next":946690200000000000,"Running":[{"Due":946603800000000000,"Missed":2,"Tries":3}],"Retry":946603804000000000,"Why":"node has died","Last":946517400000000000,"Ended":946517401000000000,"LastError":"bad","Missed":7,"Since":1}`,
	`{"Spec":{"When":{"At":946684800000000000},"Overlap":2,"CatchUp":1,"Work":{"Function":"f","Opts":{"Retries":2}}},"Paused":true,"Next":946684800000000000,"Running":[{"Due":5,"Asked":true}]}`,
}

// FuzzRecord: whatever bytes a store has under the name of a schedule, nothing panics, and each record that is made of it can be read again.
func FuzzRecord(f *testing.F) {
	add := func(data []byte, now, jitter int64) {
		for i := range changes {
			f.Add(data, now, jitter, byte(i))
		}
	}
	for _, data := range before {
		add([]byte(data), 946_684_800*second, 0)
		add([]byte(data), 1_000_000_000*second, 1)
	}
	now := time.Date(2026, 5, 5, 12, 0, 0, 0, time.UTC).UnixNano()
	for i, w := range []When{Every(time.Second), Every(200 * 365 * 24 * time.Hour), At(time.Unix(0, now)), Cron("* * * * *", ""), Cron("0 0 29 2 *", "America/New_York"), Cron("30 2 * * 1", "Europe/Berlin")} {
		s, err := settingOf(w, []Option{Overlap(i % 3), CatchUp([]int{0, 1, maxRunning}[i/2]), Jitter(time.Duration(i) * time.Minute)})
		if err != nil {
			f.Fatal(err)
		}
		s.Work = work{Function: "f", Key: "\xff", Kind: ""}
		r := &record{Set: now, Spec: s.spec, when: w, From: now, Next: w.first(now)}
		for range 3 {
			r.doAsked(verbRun, now, 0)
			data, err := json.Marshal(r)
			if err != nil {
				f.Fatal(err)
			}
			add(data, now, 0)
			add(data, now+int64(36*time.Hour), int64(time.Minute))
			r.fault(r.Running[0].Due, now, 0, "unreachable", true)
			now += int64(time.Hour)
		}
	}
	limit := time.Duration(0) // nothing takes long; only a run that looks for faults measures it
	if fuzz := flag.Lookup("test.fuzz"); fuzz != nil && fuzz.Value.String() != "" || flag.Lookup("test.fuzzworker").Value.String() == "true" {
		limit = 5 * time.Second // of a machine that has other work
	}
	f.Fuzz(func(t *testing.T, data []byte, now, jitter int64, which byte) {
		now, jitter = now&math.MaxInt64%(maxTime-second), jitter&math.MaxInt64%(maxTime+1)
		c := changes[int(which)%len(changes)]
		begun := time.Now()
		describe(due.Item{Record: due.Record{Data: data}})
		r, err := decode(data)
		if err != nil {
			return
		}
		c.change(r, now, jitter)
		r.low()
		r.firm()
		r.due(nil, jitter)
		r.ready(map[int64]time.Time{}, now)
		next, err := r.encode(due.Record{})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if next != nil {
			if _, err := decode(next.Data); err != nil {
				t.Fatalf("%s at %d, jitter %d: %v\nof   %s\ncame %s", c.name, now, jitter, err, data, next.Data)
			}
			describe(due.Item{Record: *next})
		}
		if took := time.Since(begun); limit > 0 && took > limit {
			t.Fatalf("%s at %d, jitter %d took %v", c.name, now, jitter, took)
		}
	})
}

// changes are all that is done with a record.
var changes = []struct {
	name   string
	change func(r *record, now, jitter int64)
}{
	{"nothing", func(*record, int64, int64) {}},
	{"begin", (*record).begin},
	{"pass", (*record).pass},
	{"settle", (*record).settle},
	{"ended", func(r *record, now, jitter int64) { r.ended(r.some(), now, jitter, "bad") }},
	{"fault", func(r *record, now, jitter int64) { r.fault(r.some(), now, jitter, "unreachable", true) }},
	{"died", func(r *record, now, jitter int64) { r.died(r.some(), maxDied, now, jitter) }},
	{"begin, fault, ended", func(r *record, now, jitter int64) {
		r.begin(now, jitter)
		r.fault(r.some(), now, jitter, "unreachable", false)
		r.ended(r.some(), now, jitter, "")
	}},
	{verbPause, func(r *record, now, jitter int64) { _, _ = r.doAsked(verbPause, now, jitter) }},
	{verbResume, func(r *record, now, jitter int64) { _, _ = r.doAsked(verbResume, now, jitter) }},
	{verbRun, func(r *record, now, jitter int64) { _, _ = r.doAsked(verbRun, now, jitter) }},
	{verbDelete, func(r *record, now, jitter int64) { _, _ = r.doAsked(verbDelete, now, jitter) }},
	{"replace", func(r *record, now, jitter int64) {
		s := r.Spec
		s.When = Cron("*/7 3 * * *", "Europe/Berlin").stored()
		r.replace(s, now, jitter)
	}},
	{"the same line", func(r *record, now, jitter int64) {
		s := r.Spec
		s.Overlap = (s.Overlap + 1) % (Allow + 1)
		r.replace(s, now, jitter)
	}},
}

// some is the due time of a firing that may have begun; -1: none has.
func (r *record) some() int64 {
	if len(r.Running) > 0 {
		return r.Running[0].Due
	}
	return cmp.Or(r.Next, -1)
}
