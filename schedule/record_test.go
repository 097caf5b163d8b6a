package schedule

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/due"
)

const second = int64(time.Second)

// history plays what happens to a record: at each second of a list it is given to a worker, and a firing that began ends after takes.
type history struct {
	r      *record
	now    int64 // in seconds
	log    []string
	ends   map[int64]int64 // by the time they end
	live   map[int64]time.Time
	takes  int64
	closed bool // no worker has it
}

func newHistory(w When, opts ...Option) *history {
	s, err := settingOf(w, opts)
	if err != nil {
		panic(err)
	}
	return &history{r: &record{Spec: s.spec, when: w, Next: w.first(0), Paused: s.paused}, ends: map[int64]int64{}, live: map[int64]time.Time{}}
}

// play goes on until a second.
func (h *history) play(until int64) {
	for ; h.now <= until; h.now++ {
		if h.closed {
			continue
		}
		var ended []int64
		for t, at := range h.ends {
			if at == h.now {
				ended = append(ended, t)
			}
		}
		slices.Sort(ended)
		for _, t := range ended {
			delete(h.ends, t)
			delete(h.live, t)
			h.r.ended(t, h.now*second, 0, "")
		}
		for i := 0; i < 2; i++ { // what takes no time ends at once
			if at := h.r.due(h.live, 0); at != 0 && at <= h.now*second {
				h.r.begin(h.now*second, 0)
			}
			for _, f := range h.r.ready(h.live, h.now*second) {
				line := fmt.Sprintf("%d:%d", h.now, f.Due/second)
				if f.Missed > 0 {
					line += fmt.Sprintf("-%d", f.Missed)
				}
				h.log = append(h.log, line)
				h.live[f.Due] = time.Time{}
				h.ends[f.Due] = h.now + h.takes
			}
		}
	}
}

func (h *history) want(t *testing.T, log string, missed uint64) {
	t.Helper()
	if got := strings.Join(h.log, " "); got != log || h.r.Missed != missed {
		t.Errorf("got %q, %d missed; want %q, %d", got, h.r.Missed, log, missed)
	}
	h.log = nil
}

// TestOverlap: what is due while a firing runs is left out and counted, queued, or fires beside it. A line is when a firing began, and
// when it was due; and how many were missed since the one before.
func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		overlap Overlap
		log     string
		missed  uint64
	}{
		{Skip, "10:10 40:40-2 70:70-2", 4},
		{Queue, "10:10 35:20 60:40-1", 3},
		{Allow, "10:10 20:20 30:30 40:40 50:50 60:60 70:70", 0},
	} {
		h := newHistory(Every(10*time.Second), c.overlap)
		h.takes = 25
		h.play(75)
		h.want(t, c.log, c.missed)
	}
}

// TestCatchUp: of the times of an outage the first is made, which may have begun, and of the others the newest.
func TestCatchUp(t *testing.T) {
	for _, c := range []struct {
		opts   []Option
		log    string
		missed uint64
	}{
		{nil, "10:10 125:20 126:120-9 130:130", 9},
		{[]Option{CatchUp(3), Allow}, "10:10 125:20 125:100-7 125:110 125:120 130:130", 7},
		{[]Option{CatchUp(100), Allow}, "10:10 125:20 125:30 125:40 125:50 125:60 125:70 125:80 125:90 125:100 125:110 125:120 130:130", 0},
		{[]Option{CatchUp(0)}, "10:10 125:70-5 130:130-5", 10}, // a minute late: left out; what came due behind 70 follows Overlap
	} {
		h := newHistory(Every(10*time.Second), c.opts...)
		h.takes = 1
		h.play(12)
		h.closed = true
		h.play(124)
		h.closed = false
		h.play(130)
		h.want(t, c.log, c.missed)
	}
	h := newHistory(At(time.Unix(10, 0)), CatchUp(0))
	h.closed = true
	h.play(99)
	h.closed = false
	if h.play(100); h.r.Missed != 1 || h.r.Next != 0 {
		t.Errorf("90 s late with CatchUp(0): %+v", h.r)
	}
}

// TestDeadWorker: the firing that a dead worker may have begun is made, whatever CatchUp says of it.
func TestDeadWorker(t *testing.T) {
	h := newHistory(Every(10 * time.Second))
	h.closed = true
	h.play(44)
	h.closed = false
	h.takes = 1
	h.play(50)
	h.want(t, "45:10 46:40-2 50:50", 2)
}

// TestPause: the times of a pause are neither made up for nor counted, and Run fires in it.
func TestPause(t *testing.T) {
	h := newHistory(Every(10*time.Second), Paused())
	h.takes = 1
	h.play(12)
	h.ask(t, verbRun)
	h.play(34)
	h.ask(t, verbResume)
	h.play(41)
	h.ask(t, verbPause)
	h.play(60)
	h.want(t, "13:13 40:40", 0)
	h = newHistory(At(time.Unix(10, 0)), Paused())
	h.play(12)
	if stays, err := h.r.doAsked(verbResume, 13*second, 0); stays || err != nil {
		t.Errorf("the only time was in the pause: %v, %v", stays, err)
	}
}

func (h *history) ask(t *testing.T, verb string) {
	t.Helper()
	if _, err := h.r.doAsked(verb, h.now*second, 0); err != nil {
		t.Error(verb, err)
	}
}

// TestFault: what cannot be made is tried again after a pause that grows.
func TestFault(t *testing.T) {
	h := newHistory(At(time.Unix(10, 0)))
	h.r.begin(10*second, 0)
	now := 10 * second
	for i, want := range []int64{1, 2, 4, 8, 16, 32, 60, 60} {
		h.r.fault(10*second, now, 0, "unreachable", false)
		if at := h.r.due(nil, 0); at != now+want*second {
			t.Errorf("fault %d: again after %d s, want %d", i, (at-now)/second, want)
		}
		now = h.r.Running[0].Retry
	}
	if h.r.ended(10*second, now, 0, "bad"); h.r.Why != "" || h.r.LastError != "bad" || len(h.r.Running) != 0 {
		t.Errorf("got %+v", h.r)
	}
}

// TestReplace: other content keeps a pause; other times are due from the change on, and the same times go on.
func TestReplace(t *testing.T) {
	h := newHistory(Every(10 * time.Second))
	h.takes = 1
	h.play(22)
	h.r.Paused = true
	s, _ := settingOf(Every(30*time.Second), nil)
	h.r.replace(s.spec, 25*second, 0)
	if h.r.Next != 55*second || !h.r.Paused {
		t.Errorf("got %+v", h.r)
	}
	s.Jitter = 5
	h.r.replace(s.spec, 99*second, 0)
	if h.r.Next != 55*second {
		t.Errorf("the same times: next %d", h.r.Next/second)
	}
}

// TestBegunMeanwhile: a firing that came due while a change was on its way, which passes over it, has its outcome in the record all the same, and
// tells alone of the times that were missed before it.
func TestBegunMeanwhile(t *testing.T) {
	other, err := settingOf(Every(30*time.Second), nil)
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(r *record, now int64){
		"replace": func(r *record, now int64) { r.replace(other.spec, now, 0) },
		"a pause and its end": func(r *record, now int64) {
			_, err1 := r.doAsked(verbPause, now, 0)
			_, err2 := r.doAsked(verbResume, now+20*second, 0)
			if err := errors.Join(err1, err2); err != nil {
				t.Error(err)
			}
		},
	} {
		r := newHistory(Every(10 * time.Second)).r
		r.miss(3, leftLate)
		change(r, 10*second-1) // and another node has begun the firing of 10 s by the record of before
		if r.ended(10*second, 12*second, 0, ""); r.Last != 10*second || r.Since != 0 || r.Missed != 3 {
			t.Errorf("%s: got %+v", what, r)
		}
		if r.ended(20*second, 22*second, 0, ""); r.Last != 10*second {
			t.Errorf("%s: the outcome of a firing that it never had: %+v", what, r)
		}
	}
}

// TestBehind: an Every that is far behind is not counted one by one, and keeps its phase.
func TestBehind(t *testing.T) {
	h := newHistory(Every(time.Second), CatchUp(2))
	h.r.begin(1_000_000_000*second, 0)
	if f := h.r.Running; len(f) != 3 || f[2].Due != 1_000_000_000*second || h.r.Missed != 1_000_000_000-3 || h.r.Next != f[2].Due+second {
		t.Errorf("got %+v", h.r)
	}
}

// TestCronTable is what lines of cron mean where the clocks of a zone change. A time is that in UTC.
func TestCronTable(t *testing.T) {
	const day = "2006-01-02 15:04"
	for _, c := range []struct{ line, zone, after, want string }{
		{"30 2 * * *", "UTC", "2026-05-05 02:30", "05-06 02:30, 05-07 02:30"},
		{"*/20 * * * *", "UTC", "2026-05-05 02:30", "05-05 02:40, 05-05 03:00, 05-05 03:20"},
		{"0 12 29 2 *", "", "2026-05-05 00:00", "2028-02-29 12:00, 2032-02-29 12:00"},
		{"0 0 13 * fri", "UTC", "2026-02-01 00:00", "02-06 00:00, 02-13 00:00, 02-20 00:00, 02-27 00:00, 03-06 00:00, 03-13 00:00, 03-20 00:00"},
		{"0 0 */2 * mon", "UTC", "2026-06-01 12:00", "06-15 00:00, 06-29 00:00"}, // a * in one of them: both
		{"0 9 * * THU", "UTC", "2026-06-01 12:00", "06-04 09:00"},
		{"0 0 * * 7", "UTC", "2026-06-01 12:00", "06-07 00:00"},
		{"0 9-11 * * *", "UTC", "2026-06-01 10:00", "06-01 11:00, 06-02 09:00"},

		// Berlin: forward at 01:00 UTC on March 29, from 2 to 3; back at 01:00 on October 25, from 3 to 2.
		{"30 2 * * *", "Europe/Berlin", "2026-03-28 00:00", "03-28 01:30, 03-29 01:00, 03-30 00:30"},
		{"*/15 2 * * *", "Europe/Berlin", "2026-03-29 00:00", "03-29 01:00, 03-30 00:00"},
		{"0 2,3 * * *", "Europe/Berlin", "2026-03-29 00:00", "03-29 01:00, 03-30 00:00"},
		{"30 * * * *", "Europe/Berlin", "2026-03-29 00:00", "03-29 00:30, 03-29 01:30"},
		{"0 */2 * * *", "Europe/Berlin", "2026-03-28 22:30", "03-28 23:00, 03-29 02:00, 03-29 04:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", "10-25 00:30, 10-26 01:30"},
		{"*/30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", "10-25 00:00, 10-25 00:30, 10-26 01:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25 01:10", "10-26 01:30"}, // between the two
		{"30 * * * *", "Europe/Berlin", "2026-10-25 00:00", "10-25 00:30, 10-25 01:30, 10-25 02:30"},
		{"0 */2 * * *", "Europe/Berlin", "2026-10-24 23:00", "10-25 00:00, 10-25 01:00, 10-25 03:00"},
		{"30 3 * * *", "Europe/Berlin", "2026-03-28 12:00", "03-29 01:30, 03-30 01:30"},

		// New York: forward at 07:00 UTC on March 8; back at 06:00 on November 1, from 2 to 1.
		{"15 2 * * *", "America/New_York", "2026-03-07 12:00", "03-08 07:00, 03-09 06:15"},
		{"15 1 * * *", "America/New_York", "2026-10-31 12:00", "11-01 05:15, 11-02 06:15"},
		{"15 * * * *", "America/New_York", "2026-11-01 05:00", "11-01 05:15, 11-01 06:15, 11-01 07:15"},

		// Lord Howe: by half an hour; back at 15:00 UTC on April 4, from 2 to 1:30; forward at 15:30 on October 3, from 2 to 2:30.
		{"45 1 * * *", "Australia/Lord_Howe", "2026-04-04 12:00", "04-04 14:45, 04-05 15:15"},
		{"*/15 * * * *", "Australia/Lord_Howe", "2026-04-04 14:20", "04-04 14:30, 04-04 14:45, 04-04 15:00, 04-04 15:15, 04-04 15:30"},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00", "10-03 15:30, 10-04 15:15"},
		{"*/10 * * * *", "Australia/Lord_Howe", "2026-10-03 15:10", "10-03 15:20, 10-03 15:30, 10-03 15:40"},

		// Havana: at midnight; forward at 05:00 UTC on March 8, from 0 to 1; back at 05:00 on November 1, from 1 to 0.
		{"0 0 * * *", "America/Havana", "2026-03-07 12:00", "03-08 05:00, 03-09 04:00"},
		{"30 0 * * *", "America/Havana", "2026-10-31 12:00", "11-01 04:30, 11-02 05:30"},
		{"30 * 1 11 *", "America/Havana", "2026-10-31 12:00", "11-01 04:30, 11-01 05:30, 11-01 06:30"},
		{"10 * 8 3 *", "America/Havana", "2026-03-07 12:00", "03-08 05:10, 03-08 06:10"},
	} {
		at, err := time.Parse(day, c.after)
		if err != nil {
			t.Fatal(err)
		}
		w := Cron(c.line, c.zone)
		var got []string
		for range strings.Count(c.want, ",") + 1 {
			if at, err = w.Next(at); err != nil {
				t.Fatalf("%s: %v", c.line, err)
			}
			form := "01-02 15:04"
			if len(c.want) > 12 && c.want[4] == '-' {
				form = day
			}
			got = append(got, at.UTC().Format(form))
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s in %s after %s:\ngot  %s\nwant %s", c.line, c.zone, c.after, got, c.want)
		}
	}
}

// TestCronElapsed: in all zones' changes of a year, a line of each minute fires each minute, and one at a fixed time once a day.
func TestCronElapsed(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "Africa/Casablanca", "America/Santiago", "Asia/Kolkata", "Pacific/Apia"} {
		each, daily := Cron("* * * * *", zone), Cron("30 0,1,2,3 * * *", zone)
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for range 3000 {
			at, _ = at.Add(170*time.Minute), 0
			if next, _ := each.Next(at); next.Sub(at) != time.Minute {
				t.Fatalf("%s: each minute: after %v comes %v", zone, at, next)
			}
		}
		count := map[string]int{}
		for at = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC); at.Year() == 2026; {
			at, _ = daily.Next(at)
			count[at.In(daily.cron.zone).Format("01-02")]++
		}
		for day, n := range count {
			if (n > 4 || n < 3) && day != "01-01" { // where the count begins and ends
				t.Errorf("%s: four times at night: %d on %s", zone, n, day)
			}
		}
	}
}

// TestCronFarFromChanges: more than two days from a change of the zone a fixed hour and one with a star are the same, from any moment of a day on.
func TestCronFarFromChanges(t *testing.T) {
	lines := []string{"* 0-23 * * *", "*/5 8-18 * * *", "30 2 * * mon-fri", "0 0 1 * *", "59 23 * * *", "0 0 13 * fri"}
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"}
	rapid.Check(t, func(t *rapid.T) {
		w := Cron(rapid.SampledFrom(lines).Draw(t, "line"), rapid.SampledFrom(zones).Draw(t, "zone"))
		at := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "at"), rapid.Int64Range(0, 1e9-1).Draw(t, "nanoseconds"))
		star := *w.cron
		star.fixed = false
		got, want := w.cron.next(at), star.next(at)
		if _, end := at.In(star.zone).ZoneBounds(); !end.IsZero() && !end.After(later(got, want)) {
			return // the two differ where the zone changes
		}
		if !got.Equal(want) {
			t.Fatalf("after %v: %v, want %v", at, got, want)
		}
	})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// TestBadWhen: what cannot be meant is refused, with what it is.
func TestBadWhen(t *testing.T) {
	for _, c := range []struct {
		w    When
		says string
	}{
		{Every(999 * time.Millisecond), "Every(999ms): give a second or more"},
		{At(time.Time{}), "At the zero time"},
		{When{}, "the zero When"},
		{Cron("0 0 31 2 *", "UTC"), `"0 0 31 2 *": there is no such day`},
		{Cron("0 0 * *", "UTC"), "five fields"},
		{Cron("@hourly", "UTC"), "five fields"},
		{Cron("TZ=UTC 0 0 * * *", "UTC"), "five fields"},
		{Cron("60 0 * * *", "UTC"), `minute "60"`},
		{Cron("0 24 * * *", "UTC"), `hour "24"`},
		{Cron("0 0 32 * *", "UTC"), `day of month "32"`},
		{Cron("0 0 * foo *", "UTC"), `month "foo"`},
		{Cron("0 0 * * 9", "UTC"), `day of week "9"`},
		{Cron("1,,2 0 * * *", "UTC"), `minute "1,,2": ""`},
		{Cron("0 1, * * *", "UTC"), `hour "1,": ""`},
		{Cron("0 0 , * *", "UTC"), `day of month ",": ""`},
		{Cron("*-5 0 * * *", "UTC"), `minute "*-5"`},
		{Cron("0 0 * * +1", "UTC"), `day of week "+1"`},
		{Cron("0 0 * * *", "Europe/Atlantis"), `zone "Europe/Atlantis"`},
		{Cron("0 0 * * *", "Local"), `zone "Local"`},
	} {
		if _, err := c.w.Next(time.Now()); !errors.Is(err, raysys.ErrBadOption) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %s", c.w, err, c.says)
		}
	}
}

// TestFits: the longest content and a thousand firings that are tried again fit a record of the store.
func TestFits(t *testing.T) {
	s, err := settingOf(Every(time.Second), []Option{Allow, CatchUp(maxRunning)})
	if err != nil {
		t.Fatal(err)
	}
	s.Work = work{Kind: "k", Function: "k.f", Key: text(strings.Repeat("\xff", 512)), Arg: make([]byte, MaxArgument), Opts: fmt.Appendf(nil, "%q", strings.Repeat("x", maxOptions-2))}
	now := int64(1<<60) + 1
	r := &record{Set: now, Spec: s.spec, when: Every(time.Second), Next: now, From: now, Last: now, Ended: now, LastError: strings.Repeat("\x01", maxText), Why: strings.Repeat("\x01", maxText)}
	for i := range int64(maxRunning) {
		r.Running = append(r.Running, firing{Due: now + i, Tries: maxTries - 1, First: now, Retry: now, Died: maxDied - 1})
	}
	for i := range uint64(maxAuthors) {
		r.Authors.hear(&author{raysys.TaskID{Hi: i}.String(), math.MaxUint64 - i})
	}
	rec, err := r.encode(due.Record{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(rec.Append(nil)); n > 128<<10 {
		t.Errorf("a record has %d bytes", n)
	}
}
