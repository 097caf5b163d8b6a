package tally

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
	"weak"

	"github.com/raysys/raysys/internal/core"
)

// Slot is what an engine notes of the tasks on one CPU slot. The goroutine that has the CPU writes it, by plain stores: see set.
type Slot struct {
	CPU *core.CPUSlot
	// Alone says that no worker runs groups of tasks on the slot: one in SlotSample short ones is timed, by itself.
	Alone atomic.Bool

	stripe  uint // of a Function's counters
	running *core.Future
	began   int64 // of the group of tasks that the running one is in, on the runtime's clock; 0 where there is none

	// What has not been added up. It belongs to the goroutine that has the slot.
	ran  [groupFunctions]ran
	mean int64 // of the last group

	// Guarded by Slots.mu: what ran here when that last looked, and since when. It is weak: nothing looks again on a node at rest.
	seen  weak.Pointer[core.Future]
	since int64
}

// ran is how many tasks of a function have run on a slot since they were added up.
type ran struct {
	of      *Function
	ok, bad uint32
}

const (
	// groupFunctions is how many functions a group may have. Of further ones only the runs are counted.
	groupFunctions = 4
	// SlotSample is Sample for a slot that is Alone. So many runs it adds up, too.
	SlotSample = 64
	// longGroup is what a group takes in which one long task is to be told from the short ones beside it.
	longGroup = int64(time.Millisecond)
)

// Counter says in which counter of a function the runs of the slot count, which may be nil.
func (s *Slot) Counter() uint {
	if s == nil {
		return 0
	}
	return s.stripe
}

// Running is what runs on the slot, for the goroutine that has it.
func (s *Slot) Running() *core.Future { return get(&s.running) }

// Begin notes that c runs on the slot, and returns what ran on it before, for End.
func (s *Slot) Begin(c *core.Future) (before *core.Future) {
	before = s.running
	set(&s.running, c)
	return before
}

// End undoes Begin.
func (s *Slot) End(before *core.Future) { set(&s.running, before) }

// Group notes when the tasks that follow began.
func (s *Slot) Group(began int64) { setTime(&s.began, began) }

// Rest notes that nothing runs.
func (s *Slot) Rest() {
	if s.running != nil {
		set(&s.running, nil)
	}
	if s.began != 0 {
		setTime(&s.began, 0)
	}
}

// Timed is Function.Timed for the next run of f on a slot that is Alone.
func (s *Slot) Timed(f *Function) bool {
	r := &s.ran[0]
	if r.of != f {
		r = s.first(f)
	}
	return r.ok+r.bad == 0 || !f.short.Load()
}

// Sampled counts the time of a run that Timed chose.
func (s *Slot) Sampled(f *Function, ns int64) { f.Sampled(ns, SlotSample) }

// Due reports whether it is time to add up a slot that is Alone.
func (s *Slot) Due() bool { return s.ran[0].ok+s.ran[0].bad >= SlotSample }

// OK counts a task that has run, and ended well.
func (s *Slot) OK(f *Function) {
	r := &s.ran[0]
	if r.of != f {
		r = s.first(f)
	}
	r.ok++
}

// Bad counts a task that has run, and that was counted as having ended otherwise.
func (s *Slot) Bad(f *Function) {
	r := &s.ran[0]
	if r.of != f {
		r = s.first(f)
	}
	r.bad++
}

// first makes f the first function of the group.
func (s *Slot) first(f *Function) *ran {
	i := 1
	for i < groupFunctions-1 && s.ran[i].of != f {
		i++
	}
	if s.ran[i].of != f {
		s.ran[i].addUp(0)
		s.ran[i] = ran{of: f}
	}
	s.ran[0], s.ran[i] = s.ran[i], s.ran[0]
	return &s.ran[0]
}

// addUp counts the runs with their function: each took ns, or it is not known how long where that is 0.
func (r *ran) addUp(ns int64) {
	if r.ok > 0 {
		r.of.Ended(OK, uint64(r.ok))
	}
	if n := uint64(r.ok + r.bad); n > 0 && ns > 0 {
		r.of.Took(ns, n)
	}
	r.ok, r.bad = 0, 0
}

// AddUp counts what has run on the slot with its functions. Of that, n tasks took ns together; 0 where that is not known.
// All of a group are said to have taken the mean. Where that cannot be, since short tasks do not make a long group, the excess is one long task.
func (s *Slot) AddUp(ns, n int64) {
	mean := ns / max(n, 1)
	if short := s.mean; ns > longGroup && n > 1 && 0 < short && short < mean {
		if long := s.longest(); long != nil {
			if long.ok > 0 {
				long.ok--
				long.of.Ended(OK, 1)
			} else {
				long.bad--
			}
			long.of.Took(ns-(n-1)*short, 1)
			mean = short
		}
	} else if n > 0 {
		s.mean = mean
	}
	for i := range s.ran {
		if s.ran[i].of != nil {
			s.ran[i].addUp(mean)
		}
	}
}

// longest is the function in the group that usually takes longest, nil where the group has none.
func (s *Slot) longest() (long *ran) {
	most := int64(-1)
	for i := range s.ran {
		if r := &s.ran[i]; r.of != nil && r.ok+r.bad > 0 {
			t := r.of.times.times()
			if mean := int64(t.Sum) / int64(max(t.Count(), 1)); mean > most {
				long, most = r, mean
			}
		}
	}
	return long
}

// Slots are those of one engine.
type Slots struct {
	mu   sync.Mutex // guards the rest, and the ends of each Slot
	all  map[*Slot]struct{}
	made uint
}

// Of returns what is noted of the tasks on a CPU slot, nil for one that New has not seen.
func Of(s *core.CPUSlot) *Slot {
	n, _ := s.Noted.(*Slot)
	return n
}

// New makes the Slot of a CPU slot.
func (l *Slots) New(s *core.CPUSlot, alone bool) *Slot {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[*Slot]struct{}{}
	}
	l.made++
	n := &Slot{CPU: s, stripe: l.made}
	n.Alone.Store(alone)
	l.all[n] = struct{}{}
	s.Noted = n
	return n
}

// Drop forgets the slot.
func (l *Slots) Drop(s *Slot) {
	l.mu.Lock()
	delete(l.all, s)
	l.mu.Unlock()
}

// Look remembers what runs, for Each. It is called some times a second.
func (l *Slots) Look(now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.all {
		if c := weak.Make(get(&s.running)); c != s.seen {
			s.seen, s.since = c, now
		}
	}
}

// Each shows what runs, and since when at least. Where a worker runs it, that is when its group began.
func (l *Slots) Each(now int64, f func(c *core.Future, since int64)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.all {
		c := get(&s.running)
		if c == nil {
			continue
		}
		since := now
		if s.seen == weak.Make(c) {
			since = s.since
		}
		if began := getTime(&s.began); began != 0 && !s.Alone.Load() && s.CPU.Depth.Load() == 0 {
			since = began
		}
		f(c, min(since, now))
	}
}

func get[T any](p **T) *T {
	return (*T)(atomic.LoadPointer((*unsafe.Pointer)(unsafe.Pointer(p))))
}

func getTime(p *int64) int64 { return atomic.LoadInt64(p) }
