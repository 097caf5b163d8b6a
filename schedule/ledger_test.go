package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ledger says what must have become of each due time of one record. It computes the due times from the lines (When.Next) and from the changes
// that clients make; it sees what is stored, what workers begin and how that ends, and counts for itself. The record's Next alone is taken as it is:
// each due time before it has been decided by somebody, and must have one end.
type ledger struct {
	name   string
	when   When
	jitter int64
	paused bool

	from, pos int64 // pos is the first time of the line of which nobody has decided, and the first after from
	seq       []*fate
	at        map[int64]*fate
	over      bool // the record is gone
	replaced  bool // it has had another line

	// either: a firing began at a time that a change came before, by the clock of its leader. Whether it was due has two answers, and who tells of
	// the times before it.
	either bool
	// late: the record has had CatchUp(0), which may leave out what has begun.
	late    bool
	excused uint64 // times that have begun, and may have been left out
	ahead   bool   // a clock was
	// What all its contents had.
	allCaught, alwaysAllowed bool
}

// fate is what has become of a due time.
type fate struct {
	due     int64
	decided bool // it is in seq
	asked   bool // by Run
	by      []*worker
	told    bool // somebody has seen the firing, which tells of missed
	missed  uint64
	ran     bool // it has an outcome: a Durable grain has counted it, or it was given up
	running bool // in the stored record
	gone    bool // it was, or was Next, and is no more
	left    bool // out
	changed bool // somebody has changed the record while it was Next
	open    bool // a change came before it by its clock, and another clock may have given it before the change
	past    bool // by a clock that was ahead: it comes again, and this one stays as it was
}

func newLedger(name string, r *record) *ledger {
	l := &ledger{name: name, at: map[int64]*fate{}, paused: r.Paused, allCaught: true, alwaysAllowed: true}
	l.line(&r.Spec, r.Set)
	return l
}

// line has another line begin.
func (l *ledger) line(s *spec, now int64) {
	l.when, l.from = s.When.when(), now
	if l.pos = l.when.at; l.pos == 0 {
		l.pos = l.next(now)
	}
	l.content(s)
}

func (l *ledger) content(s *spec) {
	l.jitter = s.jitter(l.name)
	l.late = l.late || s.CatchUp == 0
	l.allCaught = l.allCaught && s.CatchUp == maxRunning
	l.alwaysAllowed = l.alwaysAllowed && s.Overlap == Allow
}

// next is the time of the line after t, by the public When.Next.
func (l *ledger) next(t int64) int64 {
	n, err := l.when.Next(time.Unix(0, t))
	if err != nil || n.IsZero() {
		return 0
	}
	return n.UnixNano()
}

func (l *ledger) fate(t int64) *fate {
	f := l.at[t]
	if f != nil && l.ahead && f.gone && t == l.pos { // by the clock that was ahead
		f.past, f = true, nil
	}
	if f == nil {
		f = &fate{due: t}
		l.at[t] = f
	}
	return f
}

func (l *ledger) decide(t int64) *fate {
	f := l.fate(t)
	if !f.decided {
		f.decided = true
		l.seq = append(l.seq, f)
	}
	return f
}

// pass takes the time pos out of the line.
func (l *ledger) pass() { l.from, l.pos = l.pos, l.next(l.pos) }

// edited is for what a client has made of a record, at a time of the leader's clock: verb, or another specification. most is as
// for stored.
func (l *ledger) edited(verb string, s *spec, now, most int64, was, is *record) error {
	if verb == verbDelete {
		l.over = true
		return nil
	}
	if !l.paused && l.isAhead(now) {
		l.rewind(l.firstAfter(now, was.Last))
	}
	for ; !l.paused && l.pos != 0 && l.pos+l.jitter <= now; l.pass() {
		l.decide(l.pos)
	}
	if l.pos != 0 {
		f := l.fate(l.pos)
		if f.changed = true; l.pos+l.jitter <= most {
			f.open, l.either = true, l.either || len(f.by) > 0
		}
	}
	switch verb {
	case verbPause:
		l.paused = true
	case verbResume:
		for ; l.paused && l.pos != 0 && l.pos+l.jitter <= now; l.pass() {
		}
		l.paused = false
	case verbRun:
		f := is.Running[len(is.Running)-1]
		if old := l.at[f.Due]; old != nil && l.replaced { // a clock was set back onto a time of another line, to the nanosecond
			old.past = true
			delete(l.at, f.Due)
		}
		if old := l.at[f.Due]; !f.Asked || old != nil && old.decided || f.Due == l.pos || f.Due < now || f.Due > now+100 {
			return fmt.Errorf("run made the firing %+v, of a due time that another one has", f)
		}
		l.decide(f.Due).asked = true
	default:
		if s.When != was.Spec.When {
			l.line(s, now)
			l.replaced = true
		} else {
			l.content(s)
		}
	}
	return nil
}

// isAhead reports whether a clock was ahead, of which the line waits for its next time.
func (l *ledger) isAhead(now int64) bool {
	return l.when.at == 0 && l.pos != 0 && now < l.from-l.bound()
}

// bound is how far ahead a clock may be.
func (l *ledger) bound() int64 { return max(l.pos-l.from, int64(time.Hour)) }

// firstAfter is the first time of the line after now where a clock was ahead; after last, where that is not far behind now.
func (l *ledger) firstAfter(now, last int64) int64 {
	if last > now && last <= now+l.bound() {
		now = last
	}
	if every := int64(l.when.every); every > 0 {
		return l.pos - (l.pos-now-1)/every*every
	}
	return l.next(now)
}

// rewind has the line go on from an earlier time. All that was decided meanwhile comes again; what was left out, and no firing has told, is not counted
// twice.
func (l *ledger) rewind(to int64) {
	last := len(l.seq)
	for last > 0 && (!l.seq[last-1].told || l.seq[last-1].left) {
		last--
	}
	kept := l.seq[:0]
	for i, f := range l.seq {
		again := f.due >= to && !f.running
		if again {
			delete(l.at, f.due)
		}
		if f.past = f.past || again; i < last || !again {
			kept = append(kept, f)
		}
	}
	every := l.pos - l.from
	l.seq, l.pos, l.from, l.ahead = kept, to, to-every, true
}

// stored holds a record that was stored against what must be. by is the worker that has stored it; nil: a client. Leaders have told
// times of day from lo to hi; most is later where the clock of one was ahead.
func (l *ledger) stored(was, is *record, by *worker, lo, hi, most int64) error {
	if is == nil { // it is over: nobody is told what was left out
		l.over = true
		for _, f := range was.Running {
			if !l.fate(f.Due).ran {
				return fmt.Errorf("the record is over, and the firing of %s had no outcome", clock(f.Due))
			}
		}
		if l.pos != 0 && len(was.Running) == 0 && !l.late && !l.fate(l.pos).ran {
			return fmt.Errorf("the record is over, and %s has not begun", clock(l.pos))
		}
		return nil
	}
	if is.Next != 0 && is.Next < l.pos && by != nil && l.isAhead(lo) {
		last := int64(0)
		for _, f := range l.seq {
			if f.ran && f.due <= hi+l.bound() {
				last = max(last, f.due)
			}
		}
		if first := l.firstAfter(hi, last); is.Next > first {
			return fmt.Errorf("a clock was ahead, and the record goes on from %s where %s comes first", clock(is.Next), clock(first))
		}
		l.rewind(is.Next)
	}
	for l.pos != 0 && (l.pos < is.Next || is.Next == 0) {
		switch f := l.decide(l.pos); {
		case l.pos+l.jitter > most && len(f.by) == 0:
			return fmt.Errorf("%s is decided at %s, before it is due", clock(l.pos), clock(most))
		case l.paused && len(f.by) == 0:
			return fmt.Errorf("%s was in a pause, and has become something else", clock(l.pos))
		case by == nil:
			return fmt.Errorf("a change of a client has decided %s, which was not due", clock(l.pos))
		case l.paused:
			l.either = true
		}
		l.pass()
	}
	if is.Next != l.pos {
		return fmt.Errorf("the next time is %s, and that of the line is %s", clock(is.Next), clock(l.pos))
	}
	running := map[int64]bool{}
	for _, f := range is.Running {
		running[f.Due] = true
		if own := l.at[f.Due]; own == nil || !own.decided {
			return fmt.Errorf("%s runs, and is no due time", clock(f.Due))
		} else if err := l.tells(own, f.Missed); err != nil {
			return err
		}
	}
	return l.account(is, by, running)
}

// tells is for a firing that tells of missed times: it must say the same whoever begins it.
func (l *ledger) tells(f *fate, missed uint64) error {
	if f.told && f.missed != missed && !l.either {
		return fmt.Errorf("the firing of %s tells of %d missed times, and told of %d", clock(f.due), missed, f.missed)
	}
	f.told, f.missed = true, missed
	return nil
}

// account holds the counts of a record against those of the ledger: each due time is fired, missed or runs, and each firing tells of what was
// missed between it and the one before.
func (l *ledger) account(is *record, by *worker, running map[int64]bool) error {
	missed, since, all := uint64(0), uint64(0), uint64(0)
	for _, f := range l.seq {
		if f.running = running[f.due] && !f.past; f.running && (f.gone || f.left) && !l.either && !l.ahead {
			return fmt.Errorf("%s runs again: it was over (fired: %v, missed: %v)", clock(f.due), f.ran, f.left)
		}
		if !f.running && !f.gone {
			if f.gone = true; len(f.by) > 0 && (f.changed || !f.ran || !slices.Contains(f.by, by)) {
				l.excuse(f)
			}
		}
		if !f.past {
			f.left = !f.running && !f.ran
		}
		if f.left {
			missed, since = missed+1, since+1
			continue
		}
		if f.told && f.missed != since && !l.either && !l.late {
			return fmt.Errorf("the firing of %s tells of %d missed times, and there were %d since the one before", clock(f.due), f.missed, since)
		}
		since = 0
	}
	for _, n := range is.Left {
		all += n
	}
	switch {
	case is.Missed < missed || is.Missed > missed+l.excused:
		return fmt.Errorf("%d were missed by the record, and %d by the ledger: %d due times, %d run%s", is.Missed, missed, len(l.seq), len(running), l.lost())
	case is.Since != since && !l.either && !l.late:
		return fmt.Errorf("%d were missed since the last firing by the record, and %d by the ledger", is.Since, since)
	case all != is.Missed:
		return fmt.Errorf("the reasons %v do not sum to %d", is.Left, is.Missed)
	case l.alwaysAllowed && is.Left[leftOverlap] > 0, len(l.seq) < maxRunning && (l.allCaught && is.Left[leftLate] > 0 || is.Left[leftFull] > 0):
		return fmt.Errorf("%v were left out, which has not been so", is.Left)
	}
	return nil
}

// excuse reports whether a time that has begun may be left out.
func (l *ledger) excuse(f *fate) bool {
	if !l.late && !f.open {
		return false
	}
	l.excused++
	l.either = l.either || f.open
	return true
}

// lost lists what was left out.
func (l *ledger) lost() string {
	var b strings.Builder
	for _, f := range l.seq {
		if f.left && b.Len() < 200 {
			b.WriteString(" " + clock(f.due))
		}
	}
	return b.String()
}

// began is for a firing that a worker begins by a stored record, which is the newest or was. most is as for stored.
func (l *ledger) began(k *worker, r *record, f firing, newest bool, most int64) error {
	own := l.fate(f.Due)
	inRunning := slices.ContainsFunc(r.Running, func(o firing) bool { return o.Due == f.Due && (!r.Paused || o.Asked) })
	n := len(r.Running)
	isNext := f.Due == r.Next && !r.Paused && (n == 0 || n == 1 && r.Spec.Overlap == Queue || r.Spec.Overlap == Allow)
	switch {
	case !inRunning && !isNext:
		return fmt.Errorf("%s begins, which the store had not: %+v", clock(f.Due), r)
	case !inRunning && f.Due+r.Spec.jitter(l.name) > most:
		return fmt.Errorf("%s begins before it is due, at %s", clock(f.Due), clock(most))
	case own.left && !l.excuse(own):
		return fmt.Errorf("%s begins, and is missed", clock(f.Due))
	case !own.decided && (f.Due != l.pos || l.paused):
		if newest {
			return fmt.Errorf("%s begins, and is no due time", clock(f.Due))
		}
		l.either = true
	}
	own.by = append(own.by, k)
	if l.over {
		return nil
	}
	return l.tells(own, f.Missed)
}

// settled is for a record with which all was well for an hour.
func (l *ledger) settled(r *record, now int64) error {
	for _, f := range r.Running {
		if !l.paused || f.Asked {
			return fmt.Errorf("%s runs yet: %+v", clock(f.Due), r)
		}
	}
	switch {
	case !l.paused && l.pos != 0 && l.pos+l.jitter <= now:
		return fmt.Errorf("%s is not decided at %s", clock(l.pos), clock(now))
	case !l.paused && l.isAhead(now):
		return fmt.Errorf("the next time is %s at %s: a clock was ahead", clock(l.pos), clock(now))
	}
	return nil
}

func clock(t int64) string { return time.Unix(0, t).UTC().Format("02T15:04:05.999999999") }
