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

// At is once. A time that is past is due at once; when it has fired the schedule is gone, so that setting it again makes another.
func At(t time.Time) When {
	w := When{at: t.UnixNano()}
	if t.IsZero() {
		w.bad = fmt.Errorf("%w: At the zero time", raysys.ErrBadOption)
	}
	return w
}

// Every is each d from when the schedule is set on, or from its last firing where it takes the place of another. The shortest is one second.
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
	case after.UnixNano() < w.at:
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
	if s.Line != "" {
		w.cron, w.bad = parseCron(s.Line, s.Zone)
	}
	return w
}

// next is Next in nanoseconds of Unix time: 0 where none comes.
func (w When) next(after int64) int64 {
	t, err := w.Next(time.Unix(0, after))
	if err != nil || t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// first is when it is due first, where it is set now.
func (w When) first(now int64) int64 {
	if w.at != 0 {
		return w.at
	}
	return w.next(now)
}
