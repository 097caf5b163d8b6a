package schedule

import (
	"cmp"
	"fmt"
	"time"

	"github.com/raysys/raysys"
)

// When says at which times a schedule is due: see At, Every and Cron.
type When struct {
	at    int64 // nanoseconds of Unix time
	every time.Duration
	line  string // of cron
	zone  string
	cron  *cronLine
	bad   error
}

// At is once. A time that is past is due at once, also where it takes the place of another When. When it has fired the
// schedule is gone, so that setting it again makes another; at the same time that is the same firing to a Durable kind and to
// a task with a name, which have made it. A time after the year 2261 never comes.
func At(t time.Time) When {
	w := When{at: nanosOf(t)}
	if t.IsZero() {
		w.bad = fmt.Errorf("%w: At the zero time", raysys.ErrBadOption)
	}
	return w
}

// Every is each d. It is due first d after the schedule is set, or after the change where another When was set before. The
// shortest d is one second. A d that reaches beyond the year 2261 never comes.
func Every(d time.Duration) When {
	w := When{every: d}
	if d < time.Second {
		w.bad = fmt.Errorf("%w: Every(%v): give a second or more; a grain in memory has grains.Every", raysys.ErrBadOption, d)
	}
	return w
}

// Cron is a line of five fields: minute, hour, day of month, month, day of week, such as "30 2 * * mon-fri". Where both days are restricted one of
// them is enough, as in cron. zone is a name such as Europe/Berlin; "" is UTC.
//
// Where the clocks of the zone go forward, a time with a fixed hour that they skip is due once, right after. Where they go back, one that
// comes twice is due the first time. A line with * or a step in the hour goes by elapsed time: both times, and not in what is skipped.
func Cron(line, zone string) When {
	w := When{line: line, zone: zone}
	w.cron, w.bad = parseCron(line, zone)
	return w
}

// Next is the first time that is due after another one; the zero Time where none comes. For Every it is d later.
func (w When) Next(after time.Time) (time.Time, error) {
	switch {
	case w.bad != nil:
		return time.Time{}, w.bad
	case w.every > 0:
		return after.Add(w.every), nil
	case w.cron != nil:
		return w.cron.next(after), nil
	case w.at == 0:
		return time.Time{}, fmt.Errorf("%w: the zero When: give At, Every or Cron", raysys.ErrBadOption)
	case nanosOf(after) < w.at:
		return time.Unix(0, w.at).In(after.Location()), nil
	}
	return time.Time{}, nil
}

// String is how a When is written.
func (w When) String() string {
	switch {
	case w.every > 0:
		return "every " + w.every.String()
	case w.line != "":
		return w.line + " " + cmp.Or(w.zone, "UTC")
	}
	return "at " + time.Unix(0, w.at).UTC().Format(time.RFC3339)
}

// stored is a When in a record.
type stored struct {
	At    int64  `json:",omitzero"`
	Every int64  `json:",omitzero"`
	Line  string `json:",omitzero"`
	Zone  string `json:",omitzero"`
}

func (w When) stored() stored { return stored{w.at, int64(w.every), w.line, w.zone} }

func (s stored) when() When {
	w := When{at: s.At, every: time.Duration(s.Every), line: s.Line, zone: s.Zone}
	kinds := 0
	for _, is := range []bool{s.At != 0, s.Every != 0, s.Line != "" || s.Zone != ""} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds != 1 || s.At < 0 || s.At > maxTime:
		w.bad = fmt.Errorf("%w: it is due at %d ns, each %v, or by the line %.100q: one of them is meant", raysys.ErrBadOption, s.At, w.every, s.Line)
	case s.Every != 0:
		w = Every(w.every)
	case s.At == 0:
		w.cron, w.bad = parseCron(s.Line, s.Zone)
	}
	return w
}

// nanosOf is t in nanoseconds of Unix time, within the years 1970 to 2261; never 0, which is no time.
func nanosOf(t time.Time) int64 {
	switch {
	case t.Unix() <= 0:
		return 1
	case t.Unix() >= maxTime/int64(time.Second):
		return maxTime
	}
	return t.UnixNano()
}

// next is Next in nanoseconds of Unix time: 0 where none comes. What is beyond the end of time comes then, and never.
func (w When) next(after int64) int64 {
	if after >= maxTime {
		return 0
	}
	if w.every > 0 {
		return min(plus(after, int64(w.every)), maxTime)
	}
	t, err := w.Next(time.Unix(0, after))
	if err != nil || t.IsZero() {
		return 0
	}
	return nanosOf(t)
}

// first is when it is due first, where it is set now.
func (w When) first(now int64) int64 {
	if w.at != 0 {
		return w.at
	}
	return w.next(now)
}
