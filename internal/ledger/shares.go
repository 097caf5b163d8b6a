package ledger

import (
	"sync"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// Shares is the use that each job has had of a node, by its weight: the sum of what its work has held and for how long, in nanoseconds of a CPU. Where
// work of several jobs waits, that of the job with the least use is next. The run queue of one-CPU tasks and the lines count in the same Shares, so
// that a job cannot have its share twice.
//
//	Waits ──► Used: which job is next ──► Begin: counted for as long as its work takes ──► End: corrected
//
// Work is counted when it begins, or all that is free at one moment would go to one job. What runs for longer than it was counted for counts as it runs.
//
// The level is the least use of the jobs that ask for something. A job that comes begins there, and one that comes back is at most
// maxCredit behind: what it did not ask for before it does not get later. Work of no job has the level at which it came in place of a use.
//
// The zero Shares has no jobs. It is for several goroutines; its lock is a leaf. now is always the time on one clock.
type Shares struct {
	mu    sync.Mutex
	jobs  map[*core.Job]*usage
	level int64
}

// usage is that of one job.
type usage struct {
	job    *core.Job
	used   int64 // nanoseconds of a CPU, by weight
	mean   int64 // nanoseconds that its work has taken lately
	seen   int64 // when it last had work that waited or began
	waits  int   // its work in lines
	open   map[*Charge]struct{}
	looked int64 // when open was last looked at
}

// Charge is what a piece of work that runs has been counted for. It stays where it is while the work runs; the zero Charge is no work's.
type Charge struct {
	of      *usage
	cpu     int64 // what it holds as CPU, in thousandths
	since   int64
	counted int64 // nanoseconds
}

const (
	// SeenFor is how long a job counts as one that asks for something after its last work stopped waiting. A job that is alone for a moment, until
	// the next work of another arrives, does not lose what it has used.
	SeenFor = 100 * time.Millisecond
	// maxCredit is the use that a job can be behind the others when it comes back.
	maxCredit = 100 * time.Millisecond
	// firstMean stands for the mean time of a job's work until some of it was measured.
	firstMean = time.Millisecond
	// lookPause is how often the work that a job runs is looked at for some that runs for longer than it was counted for.
	lookPause = time.Millisecond
	// maxIdle is how many jobs there are before those are forgotten that ask for nothing and run nothing.
	maxIdle = 256
)

// Level is the level. It never falls.
func (s *Shares) Level(now int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rise(now)
}

// Used is the use of a job of which work waits, since then.
func (s *Shares) Used(j *core.Job, since, now int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asks(j, since, now).used
}

// Waits counts work of a job that has begun to wait in a line, or that waits there no more. Its job asks for something for as long.
func (s *Shares) Waits(j *core.Job, n int, now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks(j, now, now).waits += n
}

// Begin counts work of a job that holds as much as cpu thousandths of a CPU from now on.
func (s *Shares) Begin(c *Charge, j *core.Job, cpu, now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.asks(j, now, now)
	*c = Charge{of: u, cpu: cpu, since: now}
	u.count(c, u.mean)
	u.open[c] = struct{}{}
}

// Count counts work that leaves for another node: for as long as the work of its job takes.
func (s *Shares) Count(j *core.Job, cpu, now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.asks(j, now, now)
	u.used += weighed(u.mean, cpu, j)
}

// Expects is the use that work of a job is counted for which begins now.
func (s *Shares) Expects(j *core.Job, cpu int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	mean := int64(firstMean)
	if u := s.jobs[j]; u != nil {
		mean = u.mean
	}
	return weighed(mean, cpu, j)
}

// Runs reports whether the work runs that c is of.
func (c *Charge) Runs() bool { return c.of != nil }

// End corrects that to what the work has taken, and does nothing for the zero Charge. The time in which the work waited for others, having given
// its CPU back, counts, too.
func (s *Shares) End(c *Charge, now int64) {
	u := c.of
	if u == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	took := now - c.since
	u.count(c, took)
	u.mean = max(u.mean+(took-u.mean)/4, 1)
	delete(u.open, c)
	c.of = nil
}

// asks returns the usage of a job that asks for something, since then. The caller holds mu.
func (s *Shares) asks(j *core.Job, since, now int64) *usage {
	u := s.jobs[j]
	switch {
	case u == nil:
		u = &usage{job: j, used: s.rise(now), mean: int64(firstMean), open: map[*Charge]struct{}{}}
		s.forget(now)
		s.jobs[j] = u
	case !u.active(since):
		u.outrun(now)
		u.used = max(u.used, s.rise(now)-weighed(int64(maxCredit), Unit, j))
	default:
		u.outrun(now)
	}
	u.seen = now
	return u
}

// rise raises the level. While no job asks for anything all are even with the one that has used the most. The caller holds mu.
func (s *Shares) rise(now int64) int64 {
	least, most, known := int64(0), s.level, false
	for _, u := range s.jobs {
		u.outrun(now)
		most = max(most, u.used)
		if u.active(now) && (!known || u.used < least) {
			least, known = u.used, true
		}
	}
	if !known {
		least = most
	}
	s.level = max(s.level, least)
	return s.level
}

// forget makes room for a job. The caller holds mu.
func (s *Shares) forget(now int64) {
	if s.jobs == nil {
		s.jobs = map[*core.Job]*usage{}
	}
	if len(s.jobs) < maxIdle {
		return
	}
	for j, u := range s.jobs {
		if !u.active(now) && len(u.open) == 0 {
			delete(s.jobs, j)
		}
	}
}

// active reports whether the job asked for something then, as far as that is known.
func (u *usage) active(now int64) bool { return u.waits > 0 || now-u.seen < int64(SeenFor) }

// count counts c for ns nanoseconds in all.
func (u *usage) count(c *Charge, ns int64) {
	u.used += weighed(ns-c.counted, c.cpu, u.job)
	c.counted = ns
}

// outrun counts what runs for longer than it was counted for.
func (u *usage) outrun(now int64) {
	if now-u.looked < int64(lookPause) {
		return
	}
	u.looked = now
	for c := range u.open {
		if ran := now - c.since; ran > c.counted {
			u.count(c, ran)
		}
	}
}

// weighed is so much use by a job, by its weight. 290 years of a CPU are the most that there can be.
func weighed(ns, cpu int64, j *core.Job) int64 {
	return (ns/Unit*cpu + ns%Unit*cpu/Unit) / int64(max(j.Weight, 1))
}
