package schedule

import (
	"fmt"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // a worker in a container may have no zones of its own

	"github.com/netresearch/go-cron"

	"github.com/raysys/raysys"
)

// cronLine is a line of cron in a zone. The library reads the fields; which moments they mean where the zone changes is ours:
//
//	minute  hour   the clock goes forward: the hour is skipped   back: the hour comes twice
//	any     fixed  once, right after                             once, the first time
//	any     * / n  not in what is skipped                        both times
type cronLine struct {
	minute, hour, dom, month, dow uint64 // bits
	either                        bool   // a day of the month or one of the week is enough: both are restricted
	fixed                         bool   // the hour: it has neither * nor a step
	zone                          *time.Location
}

var fieldNames = [5]string{"minute", "hour", "day of month", "month", "day of week"}

var cronParser = sync.OnceValues(func() (cron.Parser, error) {
	return cron.TryNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
})

// zones caches time.Location by name: reading one takes longer than all else that is done for a firing.
var zones sync.Map

func zoneOf(name string) (*time.Location, error) {
	if z, ok := zones.Load(name); ok {
		return z.(*time.Location), nil
	}
	if name == "Local" { // of which machine?
		return nil, fmt.Errorf("%w: zone %q: give a name such as Europe/Berlin, or UTC", raysys.ErrBadOption, name)
	}
	z, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%w: zone %.100q: %w: give a name such as Europe/Berlin, or UTC", raysys.ErrBadOption, name, err)
	}
	zones.Store(name, z)
	return z, nil
}

// parseCron reads a line. The error names the field that is bad.
func parseCron(line, zone string) (*cronLine, error) {
	z, err := zoneOf(zone)
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(strings.ToLower(line)) // the library takes the H of THU for one of Jenkins
	if len(fields) != len(fieldNames) || strings.Contains(line, "=") {
		return nil, fmt.Errorf("%w: cron line %.100q: give five fields: %s", raysys.ErrBadOption, line, strings.Join(fieldNames[:], ", "))
	}
	parser, err := cronParser()
	if err != nil {
		return nil, err
	}
	for i, f := range fields {
		for part := range strings.SplitSeq(f, ",") { // the library passes over an empty part, and takes the star of *-5 alone
			if part == "" || strings.HasPrefix(part, "*-") || strings.Contains(part, "+") {
				return nil, fmt.Errorf("%w: cron line %.100q: %s %q: %q is no number, range, step or *", raysys.ErrBadOption, line, fieldNames[i], f, part)
			}
		}
		one := [5]string{"*", "*", "*", "*", "*"}
		one[i] = f
		if _, err := parser.Parse(strings.Join(one[:], " ")); err != nil {
			return nil, fmt.Errorf("%w: cron line %.100q: %s %q: %w", raysys.ErrBadOption, line, fieldNames[i], f, err)
		}
	}
	parsed, err := parser.Parse(strings.Join(fields, " "))
	s, ok := parsed.(*cron.SpecSchedule)
	if err != nil || !ok {
		return nil, fmt.Errorf("%w: cron line %.100q: %w", raysys.ErrBadOption, line, err)
	}
	any := func(f string) bool { return strings.ContainsAny(f, "*?") }
	c := &cronLine{
		minute: s.Minute, hour: s.Hour, dom: s.Dom, month: s.Month, dow: cron.NormalizeDOW(s.Dow), zone: z,
		either: !any(fields[2]) && !any(fields[4]), fixed: !strings.ContainsAny(fields[1], "*?/"),
	}
	if c.next(time.Date(2000, 1, 1, 0, 0, 0, 0, z)).IsZero() {
		return nil, fmt.Errorf("%w: cron line %.100q: there is no such day", raysys.ErrBadOption, line)
	}
	return c, nil
}

// day reports whether the line may fire on the day of t.
func (c *cronLine) day(t time.Time) bool {
	if c.month>>uint(t.Month())&1 == 0 {
		return false
	}
	dom, dow := c.dom>>uint(t.Day())&1 != 0, c.dow>>uint(t.Weekday())&1 != 0
	if c.either {
		return dom || dow
	}
	return dom && dow
}

// mostDays is more than lie between two days of a line: a February 29 on one day of the week comes again after 40 years at most.
const mostDays = 41 * 366

// next is the first moment after t; the zero Time if there is none.
func (c *cronLine) next(t time.Time) time.Time {
	if !c.fixed {
		return c.nextElapsed(t)
	}
	t = t.In(c.zone)
	y, m, d := t.Date()
	moment, from := c.moment, 0 // the minute of the first day
	if begin, end := t.ZoneBounds(); (begin.IsZero() || t.Sub(begin) > farChange) && (end.IsZero() || end.Sub(t) > farChange) {
		_, offset := t.Zone()
		from = 60*t.Hour() + t.Minute()
		moment = func(wall time.Time) time.Time { return wall.Add(-time.Duration(offset) * time.Second).In(c.zone) }
	}
	for i := range mostDays {
		day := time.Date(y, m, d+i, 0, 0, 0, 0, time.UTC)
		if !c.day(day) {
			moment, from = c.moment, 0
			continue
		}
		for minute := range 24*60 - from {
			minute += from
			if (c.hour>>uint(minute/60))&(c.minute>>uint(minute%60))&1 == 0 {
				continue
			}
			if at := moment(day.Add(time.Duration(minute) * time.Minute)); at.After(t) {
				return at
			}
		}
		moment, from = c.moment, 0
	}
	return time.Time{}
}

// farChange is how far a change of the zone is from a day without one: the clock shows each minute of that once, in its order.
const farChange = 49 * time.Hour

// moment is when the clocks of the zone first show what wall shows in UTC, or are set forward beyond that.
func (c *cronLine) moment(wall time.Time) time.Time {
	y, m, d := wall.Date()
	at := time.Date(y, m, d, wall.Hour(), wall.Minute(), 0, 0, c.zone)
	begin, end := at.ZoneBounds()
	_, offset := at.Zone()
	switch shown := at.Unix() + int64(offset); {
	case shown > wall.Unix(): // it is skipped, and Date has chosen a moment behind the change
		return begin
	case shown < wall.Unix(): // or before it
		return end
	case begin.IsZero():
		return at
	}
	_, before := begin.Add(-1).Zone()
	if back := time.Duration(before-offset) * time.Second; back > at.Sub(begin) {
		return at.Add(-back) // it is there twice, and Date has chosen the second time
	}
	return at
}

// nextElapsed is next where the hour has a * or a step.
func (c *cronLine) nextElapsed(t time.Time) time.Time {
	last := t.AddDate(0, 0, mostDays)
	for t = t.Truncate(time.Minute).Add(time.Minute).In(c.zone); t.Before(last); {
		next := t.Add(time.Minute)
		switch {
		case !c.day(t):
			y, m, d := t.Date()
			next = time.Date(y, m, d+1, 0, 0, 0, 0, c.zone)
			for before := next.Add(-30 * time.Minute); before.Day() == next.Day() && before.After(t); before = before.Add(-30 * time.Minute) {
				next = before // a day whose first hour comes twice
			}
			if !next.After(t) {
				next = t.Add(time.Hour) // a day without a first hour
			}
		case c.hour>>uint(t.Hour())&1 == 0:
			next = t.Add(time.Duration(60-t.Minute()) * time.Minute)
			if _, end := t.ZoneBounds(); !end.IsZero() && end.Before(next) {
				next = end.In(c.zone)
			}
		case c.minute>>uint(t.Minute())&1 != 0:
			return t
		}
		t = next
	}
	return time.Time{}
}
