package schedule

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/due"
)

// record is a schedule as it is stored: what it does, and how far it is. Times are nanoseconds of Unix time, and those of firings the
// ones at which they were due, without jitter.
//
//	Next ── begin ──▶ Running ── ended ──▶ Last
//	  ▲    what is missed: the newest n     │
//	  └───────────── what was due meanwhile: left out, or queued
type record struct {
	Spec    spec
	Paused  bool     `json:",omitzero"`
	Next    int64    `json:",omitzero"` // 0: none comes
	Running []firing `json:",omitempty"`
	// Retry is when the first of Running is tried again, after a fault of the system.
	Retry int64  `json:",omitzero"`
	Why   string `json:",omitzero"`

	Last      int64  `json:",omitzero"`
	Ended     int64  `json:",omitzero"` // when the last one had
	LastError string `json:",omitzero"`
	Missed    uint64 `json:",omitzero"` // left out, in all
	Since     uint64 `json:",omitzero"` // since the last firing

	when When
}

// firing is one that has begun, or shall.
type firing struct {
	Due    int64
	Missed uint64 `json:",omitzero"`
	Tries  int    `json:",omitzero"`
	Asked  bool   `json:",omitzero"` // by Run
}

// spec is what a program says of a schedule.
type spec struct {
	When    stored
	Overlap Overlap       `json:",omitzero"`
	CatchUp int           `json:",omitzero"`
	Jitter  time.Duration `json:",omitzero"`
	Work    work
}

// maxRunning bounds the firings of one schedule that have not ended, and CatchUp.
const maxRunning = 1000

// late is after how long a time counts as missed with CatchUp(0).
const late = int64(time.Minute)

func decode(data []byte) (r *record, err error) {
	r = &record{}
	if err = json.Unmarshal(data, r); err == nil {
		r.when = r.Spec.When.when()
		err = r.when.bad
	}
	return r, err
}

// encode is the record as the registry stores it; nil where it is over.
func (r *record) encode(in due.Record) (*due.Record, error) {
	if r.Next == 0 && len(r.Running) == 0 {
		return nil, nil
	}
	data, err := json.Marshal(r)
	in.Data, in.Function = data, r.Spec.Work.needs()
	return &in, err
}

// same reports whether two specifications are one.
func (s *spec) same(o *spec) bool {
	a, errA := json.Marshal(s)
	b, errB := json.Marshal(o)
	return errA == nil && errB == nil && string(a) == string(b)
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

// begin moves the times that are due into Running. again says that a node which had the record has died: the first of them may have begun.
func (r *record) begin(now, jitter int64, again bool) {
	if r.Paused || r.Next == 0 || r.Next+jitter > now || len(r.Running) > 0 && r.Spec.Overlap != Allow {
		return
	}
	if again && len(r.Running) == 0 {
		r.run(r.Next)
		r.Next = r.when.next(r.Next)
	}
	times := r.take(now-jitter, max(r.Spec.CatchUp, 1))
	if r.Spec.CatchUp == 0 && len(times) > 0 && now-jitter-times[0] > late {
		r.miss(1)
		times = nil
	}
	for _, t := range times {
		r.run(t)
	}
}

// run adds a firing.
func (r *record) run(t int64) {
	if len(r.Running) >= maxRunning {
		r.miss(1)
		return
	}
	r.Running = append(r.Running, firing{Due: t, Missed: r.Since})
	r.Since = 0
}

func (r *record) miss(n uint64) {
	r.Missed += n
	r.Since += n
}

// take takes the times up to now: it returns the newest n, in their order, and counts the others as missed.
func (r *record) take(now int64, n int) (times []int64) {
	if skip := r.behind(now) - int64(n); skip > 0 { // so many that they are not looked at one by one
		r.miss(uint64(skip))
		r.Next += skip * int64(r.when.every)
	}
	for r.Next != 0 && r.Next <= now {
		if times = append(times, r.Next); len(times) > n {
			times = times[1:]
			r.miss(1)
		}
		r.Next = r.when.next(r.Next)
	}
	return times
}

// behind is how many times of an Every are due.
func (r *record) behind(now int64) int64 {
	if r.when.every <= 0 || r.Next > now {
		return 0
	}
	return (now-r.Next)/int64(r.when.every) + 1
}

// ended notes the outcome of a firing. What was due while it ran is left out, or its first time waits.
func (r *record) ended(t, now, jitter int64, failure string) {
	i := slices.IndexFunc(r.Running, func(f firing) bool { return f.Due == t })
	if asked := i >= 0 && r.Running[i].Asked; !asked && r.Next != 0 && r.Next <= t { // the record was made anew meanwhile
		r.Next = r.when.next(t)
	}
	if i >= 0 {
		r.Running = slices.Delete(r.Running, i, i+1)
	}
	r.Last, r.Ended, r.LastError, r.Why, r.Retry = max(r.Last, t), now, failure, "", 0
	if len(r.Running) > 0 || r.Paused || r.Spec.Overlap == Allow || r.Next == 0 || r.Next+jitter > now {
		return
	}
	if r.Spec.Overlap == Queue {
		first := r.Next
		r.Next = r.when.next(first)
		r.run(first)
	}
	had := len(r.take(now-jitter, 1))
	r.miss(uint64(had))
}

// fault notes that a firing could not be made, or that its outcome is not known: it is tried again.
func (r *record) fault(t, now int64, err error) {
	for i := range r.Running {
		if f := &r.Running[i]; f.Due == t {
			f.Tries++
			r.Retry = now + int64(min(time.Second<<min(f.Tries-1, 10), time.Minute))
			r.Why = clip(err.Error())
		}
	}
}

// maxText bounds what is kept of an error.
const maxText = 500

func clip(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + "..."
	}
	return s
}

// due is when a worker is to have the record, of which it has those firings in hand.
func (r *record) due(live map[int64]bool, jitter int64) (at int64) {
	if !r.Paused && r.Next != 0 && (len(r.Running) == 0 || r.Spec.Overlap == Allow) {
		at = r.Next + jitter
	}
	if len(r.ready(live)) > 0 {
		if retry := max(r.Retry, 1); at == 0 || retry < at {
			at = retry
		}
	}
	return at
}

// ready lists the firings that can begin, where those in live have.
func (r *record) ready(live map[int64]bool) (list []firing) {
	for _, f := range r.Running {
		if !live[f.Due] {
			list = append(list, f)
		}
		if r.Spec.Overlap != Allow {
			break
		}
	}
	return list
}

// ask does what an operator asks for. The record is removed where it returns false.
func (r *record) ask(verb string, now int64) (stays bool, err error) {
	switch verb {
	case verbPause:
		r.Paused = true
	case verbResume:
		if r.Paused {
			r.Paused = false
			missed, since := r.Missed, r.Since
			r.take(now, 1) // what was due in a pause is neither made up for nor counted
			r.Missed, r.Since = missed, since
		}
	case verbRun:
		if len(r.Running) >= maxRunning {
			return true, fmt.Errorf("%w: %d firings wait or run", raysys.ErrOverloaded, len(r.Running))
		}
		for slices.ContainsFunc(r.Running, func(f firing) bool { return f.Due == now }) {
			now++
		}
		r.Running = append(r.Running, firing{Due: now, Asked: true, Missed: r.Since})
		r.Since, r.Retry = 0, 0
	case verbDelete:
		return false, nil
	}
	return r.Next != 0 || len(r.Running) > 0, nil
}

const (
	verbPause  = "pause"
	verbResume = "resume"
	verbRun    = "run"
	verbDelete = "delete"
)

// replace has another specification take the place of the record's: it keeps a pause, and goes on from the last firing.
func (r *record) replace(s spec, now int64) {
	same := s.When == r.Spec.When
	r.Spec, r.when = s, s.When.when()
	r.Why, r.Retry = "", 0
	if !same {
		if r.Next = r.when.first(now); r.Last != 0 {
			r.Next = r.when.next(r.Last)
		}
	}
}
