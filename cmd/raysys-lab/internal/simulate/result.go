package simulate

import (
	"math/bits"
	"time"
)

// Result is what a run shows. Times are simulated ones.
type Result struct {
	Done     int
	Makespan time.Duration // from the first submission to the last end of a task
	Ideal    time.Duration // the work divided by the CPUs and GPUs that do it, or when the last task can have ended, where that is later
	WaitP50  time.Duration // from a task's submission until it begins
	WaitP99  time.Duration
	WaitMax  time.Duration

	Forwarded int64 // tasks sent to another node
	GivenBack int64 // of those, the ones that came back
	Placed    int64 // tasks that placement.Place sent to a node, again where they moved
	Moved     int64 // of those, the ones that waited for a GPU elsewhere
	Rerun     int64 // tasks that a death took
	Messages  int64 // frames of tasks and answers
	Reports   int64 // loads told, one for each node that is told
	Events    int64
}

func (s *sim) result() Result {
	r := s.Result
	r.Done, r.Makespan, r.Ideal = s.done, time.Duration(s.now), s.least.of(&s.cfg)
	r.WaitP50, r.WaitP99, r.WaitMax = s.waits.at(0.5), s.waits.at(0.99), time.Duration(s.waits.most)
	return r
}

// least is how long the work takes at least, by the times that were drawn.
type least struct {
	cpu, gpu float64 // nanoseconds
	last     time.Duration
}

// add is called with each task once.
func (l *least) add(submitted, takes time.Duration, gpu bool) {
	if l.last = max(l.last, submitted+takes); gpu {
		l.gpu += float64(takes)
	} else {
		l.cpu += float64(takes)
	}
}

func (l *least) of(c *Config) time.Duration {
	s := l.cpu / float64(c.Nodes*c.CPUs)
	if l.gpu > 0 {
		s = max(s, l.gpu/float64(c.gpus()))
	}
	return max(time.Duration(s), l.last)
}

// histogram counts times in buckets of which each is a 32nd of a power of two.
type histogram struct {
	counts [64 << fine]int64
	n      int64
	most   int64
}

const fine = 5

func bucket(v int64) int {
	if v < 1<<fine {
		return int(max(v, 0))
	}
	e := bits.Len64(uint64(v)) - fine - 1
	return e<<fine + int(v>>e)
}

func (h *histogram) add(v int64) {
	h.counts[bucket(v)]++
	h.n++
	h.most = max(h.most, v)
}

// at returns the upper end of the bucket in which the quantile is.
func (h *histogram) at(q float64) time.Duration {
	left := int64(q * float64(h.n))
	for b, n := range h.counts {
		if left -= n; left < 0 {
			e := max(b>>fine-1, 0)
			return time.Duration(min(int64(b-e<<fine+1)<<e-1, h.most))
		}
	}
	return time.Duration(h.most)
}
