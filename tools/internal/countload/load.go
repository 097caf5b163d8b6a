package countload

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	keys     = 1000                    // counters
	warm     = 1500 * time.Millisecond // a part runs that long before it is measured
	patience = 30 * time.Second        // for one call
	pause    = 5 * time.Millisecond    // after a call that failed: a system that refuses calls gets fewer
	repeats  = 20                      // calls of a part that are made again with their keys
)

// Peer is a system that serves counters, from processes below this one or from this one.
type Peer struct {
	// Context is what all calls are made with.
	Context context.Context
	// Call adds 1 to the counter of key and returns the sum. id is new for each call, except for one that is made
	// again.
	Call func(ctx context.Context, key, id string) (int64, error)
	// End ends the system.
	End func() error
}

// part is one of the parts of a turn.
type part struct {
	name    string
	callers int
	hot     bool // all callers call one counter
}

var allParts = []part{{"1", 1, false}, {"100", 100, false}, {"1,000", 1000, false}, {"100 of one counter", 100, true}}

// Result is one part of one turn.
type Result struct {
	Part   string
	Rate   float64 // calls/s
	P50    float64 // ms
	P99    float64 // ms
	CPU    float64 // us a call, of all processes of the system, with what calls it
	Bytes  float64 // a call, that reached the machine's disks meanwhile
	Failed int64   // calls
	Error  string  // of the last call that failed
	Wrong  string  // says what was counted wrong; "" where each call counted once
}

// counter holds the sums that the calls of one counter were answered with.
type counter struct {
	mu    sync.Mutex
	seen  []uint64 // a bit for each sum
	acked int64    // answers
	most  int64    // the largest sum
	twice int64    // sums that came twice, and numbers that are no sum
}

func (c *counter) noteSum(sum int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked++
	if sum < 1 || sum > 1<<32 {
		c.twice++
		return
	}
	word, bit := sum/64, uint64(1)<<(sum%64)
	if grow := word + 1 - int64(len(c.seen)); grow > 0 {
		c.seen = append(c.seen, make([]uint64, grow)...)
	}
	if c.seen[word]&bit != 0 {
		c.twice++
	}
	c.seen[word] |= bit
	c.most = max(c.most, sum)
}

// judgeCounters says what was counted wrong; "" where each call counted once. The largest sums add up to the number of
// calls that counted: all that were answered, and at most those that failed besides.
func judgeCounters(counters []*counter, failed int64) string {
	var acked, most, twice int64
	for _, c := range counters {
		c.mu.Lock()
		acked, most, twice = acked+c.acked, most+c.most, twice+c.twice
		c.mu.Unlock()
	}
	if twice == 0 && most <= acked+failed {
		return ""
	}
	return fmt.Sprintf("%d calls were answered, %d counted, %d sums came twice, %d failed", acked, most, twice, failed)
}

// load is one turn of a system.
type load struct {
	Peer
	keyed    bool
	begun    int64
	counters []*counter
	ids      atomic.Int64
	picks    atomic.Int64
	failed   atomic.Int64 // calls, of all parts
	last     atomic.Pointer[string]
}

// Load runs all parts, each for so long, and gives done the Result of each. Each counter is called once before. With
// keyed some calls of each part are made again, and must get their first answers.
func Load(p Peer, keyed bool, each time.Duration, done func(Result) error) error {
	l := &load{Peer: p, keyed: keyed, begun: time.Now().UnixNano()}
	for range keys {
		l.counters = append(l.counters, &counter{})
	}
	runTogether(50, func(c int) {
		for i := c; i < keys; i += 50 {
			l.makeCall(i)
		}
	})
	for _, p := range allParts {
		r, err := l.runPart(p, each)
		if err != nil {
			return err
		}
		if err := done(r); err != nil {
			return err
		}
	}
	return nil
}

// made is a call, and its answer.
type made struct {
	key  int
	id   string
	sum  int64
	took time.Duration
}

// makeCall makes a new call, and reports whether it was answered.
func (l *load) makeCall(key int) (made, bool) {
	m := made{key: key, id: fmt.Sprintf("%x-%x", l.begun, l.ids.Add(1))}
	begin := time.Now()
	sum, err := l.sendCall(m)
	if err != nil {
		l.failed.Add(1)
		text := err.Error()
		l.last.Store(&text)
		return m, false
	}
	m.sum, m.took = sum, time.Since(begin)
	l.counters[key].noteSum(sum)
	return m, true
}

// sendCall sends a call that is new, or one that is made again.
func (l *load) sendCall(m made) (int64, error) {
	ctx, cancel := context.WithTimeout(l.Context, patience)
	defer cancel()
	return l.Call(ctx, "k"+strconv.Itoa(m.key), m.id)
}

// pickCounter returns the counter of the next call. 7,919 is prime to the number of counters, so that all get their
// turn, far apart.
func (l *load) pickCounter(p part) int {
	if p.hot {
		return 0
	}
	return int(l.picks.Add(7919) % keys)
}

// runPart has callers call until the part's time is over.
func (l *load) runPart(p part, each time.Duration) (Result, error) {
	var measuring, over atomic.Bool
	var before, after usage
	var took time.Duration
	var err error
	times, last := make([][]time.Duration, p.callers), make([]made, p.callers)
	failedBefore := l.failed.Load()
	var clock sync.WaitGroup
	clock.Go(func() {
		defer over.Store(true)
		<-time.After(warm)
		if before, err = sumUsage(); err != nil {
			return
		}
		begin := time.Now()
		measuring.Store(true)
		<-time.After(each)
		measuring.Store(false)
		took = time.Since(begin)
		after, err = sumUsage()
	})
	runTogether(p.callers, func(c int) {
		for !over.Load() {
			m, ok := l.makeCall(l.pickCounter(p))
			if !ok {
				<-time.After(pause)
				continue
			}
			last[c] = m
			if measuring.Load() {
				times[c] = append(times[c], m.took)
			}
		}
	})
	clock.Wait()
	r := newResult(p.name, slices.Concat(times...), took, before, after)
	r.Failed = l.failed.Load() - failedBefore
	if text := l.last.Swap(nil); text != nil {
		r.Error = *text
	}
	r.Wrong = judgeCounters(l.counters, l.failed.Load())
	if r.Wrong == "" && l.keyed {
		r.Wrong = l.repeatCalls(last)
	}
	return r, err
}

// newResult is the Result of calls that took these times.
func newResult(part string, times []time.Duration, in time.Duration, before, after usage) Result {
	r, n := Result{Part: part}, len(times)
	if n == 0 {
		return r
	}
	slices.Sort(times)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	r.Rate = float64(n) / in.Seconds()
	r.P50, r.P99 = ms(times[n/2]), ms(times[n*99/100])
	r.CPU = (after.cpu - before.cpu) * 1e6 / float64(n)
	r.Bytes = float64(after.written-before.written) / float64(n)
	return r
}

// repeatCalls makes some of the calls again, and says where one is not answered as before.
func (l *load) repeatCalls(calls []made) string {
	for _, m := range calls[:min(repeats, len(calls))] {
		if m.id == "" {
			continue // the caller got no answer
		}
		sum, err := l.sendCall(m)
		if err != nil {
			return fmt.Sprintf("a call that was made again with its key failed: %v", err)
		}
		if sum != m.sum {
			return fmt.Sprintf("a call was answered %d, and %d when it was made again with its key", m.sum, sum)
		}
	}
	return ""
}

// runTogether calls f n times at the same time.
func runTogether(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}
