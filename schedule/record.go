package schedule

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/raysys/raysys"
)

// record is a schedule as it is stored: what it does, and how far it is. Times are nanoseconds of Unix time by the clock of the leader, and
// those of firings the ones at which they were due, without jitter. Each due time is in one place:
//
//	Next ── begin ──▶ Running ── ended ──▶ Last
//	 │ │                ▲  └─ fault: it stays, and is tried again
//	 │ └── late: the newest CatchUp of those behind Next; others ──▶ Left
//	 └──── pass: was due while a firing ran or was tried again: the first waits, with Queue; others ──▶ Left
//
// What is due at Next may have begun, on a worker that has died since: only CatchUp(0) leaves it out.
type record struct {
	Low     int64 `json:",omitzero"` // low(), where internal/due reads it
	Set     int64 `json:",omitzero"` // when; a record of the name with another Set is another schedule
	Spec    spec
	Paused  bool     `json:",omitzero"`
	Next    int64    `json:",omitzero"` // 0: none comes
	From    int64    `json:",omitzero"` // Next is the first time after it
	Over    int64    `json:",omitzero"` // a Next that a change has passed over: it may have begun while that was on its way
	Running []firing `json:",omitempty"`
	Why     string   `json:",omitzero"`
	Authors authors  `json:",omitempty"` // the Durable grains that have edited it

	Last      int64             `json:",omitzero"`
	Ended     int64             `json:",omitzero"` // when the last one had
	LastError string            `json:",omitzero"`
	Left      map[string]uint64 `json:",omitempty"` // left out, by reason
	Missed    uint64            `json:",omitzero"`  // their sum
	Since     uint64            `json:",omitzero"`  // of them, since the last firing

	when  When
	notes []note
}

// note is a line of the log.
type note struct {
	text string
	args []any
}

// Reasons for which a due time is left out.
const (
	leftOverlap = "overlap" // the firing before ran, or was tried again
	leftLate    = "late"    // an outage, beyond CatchUp
	leftFull    = "full"    // as many as can wait do
	leftUnknown = "unknown" // by a version that kept no reasons
)

// firing is one that has begun, or shall.
type firing struct {
	Due    int64
	Missed uint64 `json:",omitzero"`
	Asked  bool   `json:",omitzero"` // by Run

	Tries int   `json:",omitzero"`  // that ended in a fault of the system
	First int64 `json:"F,omitzero"` // when the first of them had; short names, as a thousand of them are to fit a record of the store
	Retry int64 `json:"R,omitzero"` // it is not tried again before
	Died  int   `json:"D,omitzero"` // nodes in a row that died within a minute of its begin
}

const (
	// maxRunning bounds the firings of one schedule that have not ended, and CatchUp.
	maxRunning = 1000
	// maxCounted bounds the times of a line of cron that are counted one by one: two years of minutes.
	maxCounted = 1_000_000
	// maxDied is how many nodes may die under a firing, which would go round all of them.
	maxDied = 10
	// maxTries bounds their count.
	maxTries = 1_000_000
	// warnTries is the try that is a line of the log.
	warnTries = 10
	// late is after how long a time counts as missed with CatchUp(0).
	late = int64(time.Minute)
	// maxPause is the longest pause between two tries.
	maxPause = int64(time.Minute)
	// maxTime is the end of the year 2261: int64 has nanoseconds until April of the next.
	maxTime = 9_214_646_400 * int64(time.Second)
	// maxBack is how far the clock may be set back, beside a period, until a schedule goes on from there.
	maxBack = int64(time.Hour)
)

// plus is t+d, which saturates: a period and a jitter have up to 292 years.
func plus(t, d int64) int64 {
	if d > 0 && t > math.MaxInt64-d {
		return math.MaxInt64
	}
	return t + d
}

// jitter is how much later a schedule of that name is due.
func (s *spec) jitter(name string) int64 {
	if s.Jitter <= 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	return int64(h.Sum64() % uint64(s.Jitter))
}

// low is the time of day at which the record is looked at, though it is not due: it waits for what a clock has left behind that was ahead.
// 0: for none.
func (r *record) low() (low int64) {
	if !r.Paused && r.Next != 0 && r.when.at == 0 {
		low = r.From - max(r.Next-r.From, maxBack)
	}
	for _, f := range r.Running {
		low = max(low, f.Retry-2*maxPause)
	}
	return max(low, 0)
}

// back has the record go on from now, where the clock was ahead. The times that were left out by it, and of which no firing knows, come yet.
func (r *record) back(now int64) {
	if now >= r.low() {
		return
	}
	for i := range r.Running {
		r.Running[i].Retry = min(r.Running[i].Retry, now)
	}
	if now >= r.low() {
		return
	}
	was, to := r.Next, now
	if r.Last > now && r.Last <= plus(now, max(r.Next-r.From, maxBack)) {
		to = r.Last // and no time twice
	}
	n := uint64(0)
	if every := int64(r.when.every); every > 0 {
		n = uint64((r.Next - to - 1) / every)
		r.Next -= int64(n) * every
		r.From = max(r.Next-every, 0)
	} else {
		r.advance(to)
		for t := r.Next; t != 0 && t < was && n < maxCounted; t = r.when.next(t) {
			n++
		}
	}
	n = min(n, r.Since)
	r.Since -= n
	for _, why := range reasons {
		off := min(n, r.Left[why])
		if n -= off; off > 0 {
			r.Left[why] -= off
			r.Missed -= off
		}
	}
	r.note("the clock was ahead: a schedule goes on from now", "next", time.Unix(0, r.Next).UTC(), "was", time.Unix(0, was).UTC())
}

// reasons are in the order in which they come off where a clock was ahead.
var reasons = []string{leftLate, leftOverlap, leftFull, leftUnknown}

func (r *record) note(text string, args ...any) { r.notes = append(r.notes, note{text, args}) }

// advance makes the next time the first after t.
func (r *record) advance(t int64) { r.From, r.Next = t, r.when.next(t) }

// isDue reports whether the next time has come.
func (r *record) isDue(now, jitter int64) bool {
	return !r.Paused && r.Next != 0 && plus(r.Next, jitter) <= now
}

// begin moves the times that are due into Running: the first, and the newest CatchUp of the others.
func (r *record) begin(now, jitter int64) {
	r.back(now)
	if len(r.Running) > 0 && r.Spec.Overlap != Allow || !r.isDue(now, jitter) {
		return
	}
	if r.Spec.CatchUp == 0 {
		if r.take(now-jitter-late-1, 0, leftLate); !r.isDue(now, jitter) {
			return
		}
	}
	r.runNext()
	if r.Spec.CatchUp > 0 || r.Spec.Overlap == Allow {
		for _, t := range r.take(now-jitter, min(r.Spec.CatchUp, maxRunning-len(r.Running)), leftLate) {
			r.run(t)
		}
	}
}

// pass settles what was due while a firing ran, or was tried again: it is left out, or its first time waits.
func (r *record) pass(now, jitter int64) {
	if r.Spec.Overlap == Allow || !r.isDue(now, jitter) {
		return
	}
	if r.Spec.Overlap == Queue && len(r.Running) <= 1 {
		r.runNext()
	}
	r.take(now-jitter, 0, leftOverlap)
}

// settle says what becomes of what is due, before somebody changes what comes.
func (r *record) settle(now, jitter int64) {
	if r.begin(now, jitter); len(r.Running) > 0 {
		r.pass(now, jitter)
	}
}

// firm are the due times of the firings that a worker may begin which has this record as it is stored: whoever has it begins the same ones, and
// with the same Missed. Others are stored first.
func (r *record) firm() map[int64]bool {
	m := map[int64]bool{}
	for _, f := range r.Running {
		m[f.Due] = true
	}
	n := len(r.Running)
	if n == 0 || r.Spec.Overlap == Queue && n == 1 || r.Spec.Overlap == Allow && n < maxRunning {
		m[r.Next] = true
	}
	return m
}

func (r *record) runNext() {
	t := r.Next
	r.advance(t)
	r.run(t)
}

// run adds a firing.
func (r *record) run(t int64) {
	switch {
	case r.find(t) >= 0: // by a clock that was ahead
	case len(r.Running) >= maxRunning:
		r.miss(1, leftFull)
	default:
		r.add(firing{Due: t})
	}
}

// add adds a firing, which tells of the times that were missed.
func (r *record) add(f firing) {
	f.Missed, r.Since = r.Since, 0
	r.Running = append(r.Running, f)
}

// find is the place of a firing in Running; -1 where it is not there.
func (r *record) find(t int64) int {
	return slices.IndexFunc(r.Running, func(f firing) bool { return f.Due == t })
}

func (r *record) miss(n uint64, why string) {
	r.left(why, n)
	r.Missed += n
	r.Since += n
}

func (r *record) left(why string, n uint64) {
	if r.Left == nil {
		r.Left = map[string]uint64{}
	}
	r.Left[why] += n
}

// take takes the times up to now: it returns the newest n, in their order, and leaves the others out.
func (r *record) take(now int64, n int, why string) (times []int64) {
	if skip := r.behind(now) - int64(n); skip > 0 { // so many that they are not looked at one by one
		r.miss(uint64(skip), why)
		r.advance(r.Next + (skip-1)*int64(r.when.every))
	}
	for looked := 0; r.Next != 0 && r.Next <= now; looked++ {
		if looked == maxCounted {
			r.note("a schedule has counted a million times that it left out, and passes over what was due before the last million minutes", "from", time.Unix(0, r.Next).UTC())
			r.advance(max(r.Next, now-maxCounted*int64(time.Minute)))
		}
		if times = append(times, r.Next); len(times) > n {
			times = times[1:]
			r.miss(1, why)
		}
		r.advance(r.Next)
	}
	return times
}

// behind is how many times of an Every are due.
func (r *record) behind(now int64) int64 {
	if r.when.every <= 0 || r.Next == 0 || r.Next > now {
		return 0
	}
	return (now-r.Next)/int64(r.when.every) + 1
}

// findBegun is find, of a firing that has begun: where it is the next one, or was until a change, it comes into Running. Who gets -1 has a firing of another
// record.
func (r *record) findBegun(t int64) int {
	switch {
	case r.find(t) >= 0:
	case t == r.Next:
		r.advance(t)
		r.add(firing{Due: t})
	case t == r.Over:
		r.Over = 0
		r.add(firing{Due: t})
	}
	return r.find(t)
}

// ended notes the outcome of a firing. What was due while it ran is left out, or its first time waits.
func (r *record) ended(t, now, jitter int64, failure string) {
	i := r.findBegun(t)
	if i < 0 {
		return
	}
	r.Running = slices.Delete(r.Running, i, i+1)
	r.Last, r.Ended, r.LastError, r.Why = max(r.Last, t), now, failure, ""
	if len(r.Running) == 0 {
		r.pass(now, jitter)
	}
}

// fault notes that a firing could not be made, or that its outcome is not known: it is tried again. died says that a node has died under it.
func (r *record) fault(t, now, jitter int64, failure string, died bool) {
	i := r.findBegun(t)
	if i < 0 {
		return
	}
	f := &r.Running[i]
	f.Tries = min(f.Tries, maxTries)
	if f.Tries++; f.First == 0 {
		f.First = now
	}
	if f.Died++; !died {
		f.Died = 0
	}
	f.Retry = min(plus(now, min(int64(time.Second)<<min(f.Tries-1, 10), maxPause)), maxTime)
	times := fmt.Sprintf("%d times", f.Tries)
	if f.Tries == 1 {
		times = "once"
	}
	r.Why = fmt.Sprintf("tried %s since %s: %s", times, time.Unix(0, f.First).UTC().Format(time.DateTime), failure)
	if f.Tries == warnTries {
		r.note("a firing of a schedule is tried again and again", "due", time.Unix(0, t).UTC(), "error", r.Why)
	}
	if r.pass(now, jitter); f.Died >= maxDied {
		r.endDeadly(t, now, jitter)
	}
}

// died counts nodes that had the record and died within a minute, for a firing that they may have begun.
func (r *record) died(t int64, n int, now, jitter int64) {
	if i := r.find(t); i >= 0 {
		if r.Running[i].Died += n; r.Running[i].Died >= maxDied {
			r.endDeadly(t, now, jitter)
		}
	}
}

// endDeadly ends a firing that would go round the nodes.
func (r *record) endDeadly(t, now, jitter int64) {
	failure := fmt.Sprintf("%d nodes in a row have died, or were lost, within a minute of its begin: it is not tried again", maxDied)
	r.note("a firing of a schedule is given up", "due", time.Unix(0, t).UTC(), "error", failure)
	r.ended(t, now, jitter, failure)
}

// maxText bounds what is kept of an error.
const maxText = 500

func clip(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + "..."
	}
	return s
}

// due is when a worker is to have the record, of which it has those firings in hand. 0: at no time.
func (r *record) due(live map[int64]time.Time, jitter int64) (at int64) {
	if !r.Paused && r.Next != 0 && (len(r.Running) == 0 || r.Spec.Overlap == Allow) {
		at = plus(r.Next, jitter)
	}
	for _, f := range r.ready(live, math.MaxInt64) {
		if t := max(f.Retry, 1); at == 0 || t < at {
			at = t
		}
	}
	return at
}

// ready lists the firings that may begin now, where those in live have: in a pause those of Run.
func (r *record) ready(live map[int64]time.Time, now int64) (list []firing) {
	for _, f := range r.Running {
		_, runs := live[f.Due]
		one := r.Spec.Overlap != Allow
		switch {
		case runs && one:
			return nil
		case runs, r.Paused && !f.Asked, one && len(list) > 0:
		case f.Retry <= now:
			list = append(list, f)
		case one:
			now = -1 // those behind it wait for it
		}
	}
	return list
}

// doAsked does what an operator asks for. The record is removed where it returns false.
func (r *record) doAsked(verb string, now, jitter int64) (stays bool, err error) {
	if verb == verbDelete {
		return false, nil
	}
	r.settle(now, jitter)
	switch verb {
	case verbPause:
		r.Paused = true
	case verbResume:
		if r.Paused {
			r.Paused = false
			r.resume(now - jitter)
		}
	case verbRun:
		if len(r.Running) >= maxRunning {
			return true, fmt.Errorf("%w: %d firings wait or run", raysys.ErrOverloaded, len(r.Running))
		}
		for r.taken(now) {
			now++
		}
		r.add(firing{Due: now, Asked: true})
		for i := range r.Running {
			r.Running[i].Retry = 0
		}
	}
	return r.Next != 0 || len(r.Running) > 0, nil
}

// resume passes over the times of a pause, which are not counted.
func (r *record) resume(now int64) {
	was := r.Next
	if n := r.behind(now); n > 0 {
		r.advance(r.Next + (n-1)*int64(r.when.every))
	} else if r.Next != 0 && r.Next <= now {
		r.advance(now)
	}
	if r.Next != was {
		r.Over = was
	}
}

// taken reports whether t is the due time of another firing than one of Run.
func (r *record) taken(t int64) bool {
	every := int64(r.when.every)
	return t == r.Next || t == r.Last || t == r.when.at || every > 0 && (r.Next-t)%every == 0 || r.when.cron != nil && r.when.next(t-1) == t ||
		r.find(t) >= 0
}

const (
	verbPause  = "pause"
	verbResume = "resume"
	verbRun    = "run"
	verbDelete = "delete"
)

// replace has another specification take the place of the record's. A pause stays, and so does what was due before; another When is due first
// after now.
func (r *record) replace(s spec, now, jitter int64) {
	r.settle(now, jitter)
	same := s.When == r.Spec.When
	r.Spec, r.when, r.Why = s, s.When.when(), ""
	for i := range r.Running {
		r.Running[i].Retry = 0
	}
	if !same {
		r.Over, r.From, r.Next = r.Next, now, r.when.first(now)
	}
}
