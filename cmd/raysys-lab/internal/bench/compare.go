package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"sync"
	"time"
)

// measured has the figures of a row before they are rounded and named.
type measured struct {
	value      float64
	latency    *hist  // nil when the row has no durations
	latencyOf  string // the operation that one duration in latency is of
	limit      string // name of the raw limit
	limitValue float64
	rounds     []float64
	limits     []float64 // of each round; nil for a constant
	detail     map[string]any
	same       bool // the ratio is 1 by definition: the work of the limit is not done at all
}

func (m *measured) note(key string, v any) {
	if m.detail == nil {
		m.detail = map[string]any{}
	}
	m.detail[key] = v
}

// side is one of the two things a row compares.
type side struct {
	ops int // operations in one call of do
	do  func() error
}

// one is a side whose call is one operation.
func one(do func() error) side { return side{1, do} }

// loop calls s until slice has passed, at least once, and counts how long each call took. It reads the clock once a
// call, so a call's time includes one reading (clock_ns in the details).
func (s side) loop(slice time.Duration, h *hist) (rate float64, err error) {
	start := time.Now()
	last := time.Duration(0)
	for calls := 1; ; calls++ {
		if err := s.do(); err != nil {
			return 0, err
		}
		now := time.Since(start)
		h.add(now - last)
		last = now
		if now >= slice {
			return float64(calls*s.ops) / now.Seconds(), nil
		}
	}
}

// rounds measures both sides in turn. take makes the figure of a round from its rate and durations.
func rounds(ctx context.Context, p Plan, value, limit side, take func(rate float64, h *hist) float64) (measured, error) {
	m := measured{latency: &hist{}}
	var scratch hist
	once := func(s side, slice time.Duration) (float64, error) {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		scratch = hist{}
		rate, err := s.loop(slice, &scratch)
		return take(rate, &scratch), err
	}
	// Warm both, since no row measures cold caches, stacks and heaps. Start without another row's garbage.
	runtime.GC()
	for _, s := range []side{value, limit} {
		if _, err := once(s, p.Slice/4); err != nil {
			return m, err
		}
	}
	cycles, spent := uint64(0), time.Duration(0)
	for range p.Rounds {
		collected, start := gcCycles(), time.Now()
		v, err := once(value, p.Slice)
		if err != nil {
			return m, err
		}
		cycles, spent = cycles+gcCycles()-collected, spent+time.Since(start)
		m.rounds = append(m.rounds, v)
		m.latency.merge(&scratch)
		if v, err = once(limit, p.Slice); err != nil {
			return m, err
		}
		m.limits = append(m.limits, v)
	}
	m.value, m.limitValue = median(m.rounds), median(m.limits)
	// The benchmark's heap is small, so that it is collected far more often than that of a program with data of its own.
	m.note("gc_cycles_per_s", figures(float64(cycles)/spent.Seconds()))
	return m, nil
}

// gcCycles counts the collections of this process so far.
func gcCycles() uint64 {
	s := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// compareRates measures operations per second.
func compareRates(ctx context.Context, p Plan, value, limit side) (measured, error) {
	return rounds(ctx, p, value, limit, func(rate float64, _ *hist) float64 { return rate })
}

// compareLatency measures the median duration of a call, in microseconds.
func compareLatency(ctx context.Context, p Plan, value, limit side) (measured, error) {
	m, err := rounds(ctx, p, value, limit, func(_ float64, h *hist) float64 { return us(h.quantile(0.5)) })
	m.note("clock_ns", clockCost())
	return m, err
}

// clockCost returns how many nanoseconds one reading of the clock adds to every duration.
func clockCost() float64 {
	const readings = 10_000
	start := time.Now()
	for range readings {
		time.Since(start)
	}
	return float64(time.Since(start).Nanoseconds() / readings)
}

func median(vs []float64) float64 {
	s := slices.Sorted(slices.Values(vs))
	switch n := len(s); {
	case n == 0:
		return 0
	case n%2 == 1:
		return s[n/2]
	default:
		return (s[n/2-1] + s[n/2]) / 2
	}
}

// variant is one of the ways in which a row is measured: on one CPU, with three nodes. The worst stands on top, all are
// in the details.
type variant struct {
	name string
	measured
	rate bool // its value is one, and no p50
}

// figures returns the details of a variant.
func (v *variant) figures() map[string]any {
	// As in a Result, the p50 is the median of the rounds.
	d := map[string]any{"p50_us": figures(v.value), "limit_value": figures(v.limitValue)}
	if v.rate {
		d["value"], d["p50_us"] = d["p50_us"], figures(us(v.latency.quantile(0.5)))
	}
	if v.limitValue != 0 {
		d["ratio"] = figures(v.value / v.limitValue)
	}
	if v.latency != nil && v.latency.n > 0 {
		d["p99_us"], d["max_us"] = figures(us(v.latency.quantile(0.99))), figures(us(v.latency.max))
		d["latency_count"] = v.latency.n
	}
	if len(v.rounds) > 0 {
		d["rounds"] = figuresOf(v.rounds)
	}
	if len(v.limits) > 0 {
		d["limit_rounds"] = figuresOf(v.limits)
	}
	return d
}

// worst returns the variant for which bad is largest, with all of them in its details.
func worst(variants []*variant, bad func(*variant) float64) measured {
	all := map[string]any{}
	top := variants[0]
	for _, v := range variants {
		all[v.name] = v.figures()
		if bad(v) > bad(top) {
			top = v
		}
	}
	m := top.measured
	m.detail = map[string]any{"variants": all, "worst": top.name}
	return m
}

// A measurer is a child that measures one side whenever its parent tells it to, so that two sides which may not share a
// process are still measured in turn. Its parent writes nanoseconds, one line for each slice, and gets a slice's
// durations back, one line each.

// slice has a measurer's figures of one slice: how many durations fell into each bucket of a hist.
type slice struct {
	Counts map[int]uint64 `json:"counts"`
	Max    time.Duration  `json:"max_ns"`
}

func (s slice) hist() (*hist, error) {
	h := &hist{max: s.Max}
	for i, n := range s.Counts {
		if i < 0 || i >= histBuckets {
			return nil, fmt.Errorf("bucket %d of %d", i, histBuckets)
		}
		h.counts[i] = n
		h.n += n
	}
	return h, nil
}

func sliceOf(h *hist) slice {
	s := slice{map[int]uint64{}, h.max}
	for i, n := range h.counts {
		if n > 0 {
			s.Counts[i] = n
		}
	}
	return s
}

// measureOnDemand is the child's end: it says that it is ready, and measures until its input ends.
func measureOnDemand(ctx context.Context, s side, in io.Reader, out io.Writer) error {
	return answerLines(in, out, func(line string) (string, error) {
		if err := context.Cause(ctx); err != nil {
			return "", err
		}
		ns, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			return "", fmt.Errorf("parent wrote %q, not nanoseconds", line)
		}
		var h hist
		if _, err := s.loop(time.Duration(ns), &h); err != nil {
			return "", err
		}
		found, err := json.Marshal(sliceOf(&h))
		return string(found), err
	})
}

// measure is the parent's end.
func (c *process) measure(d time.Duration) (*hist, error) {
	line, err := c.ask(strconv.FormatInt(int64(d), 10))
	if err != nil {
		return nil, err
	}
	var s slice
	if err := json.Unmarshal([]byte(line), &s); err != nil {
		return nil, fmt.Errorf("read what child measured: %w", err)
	}
	return s.hist()
}

// answerLines is a child that says it is ready, and then answers each line of its input with one.
func answerLines(in io.Reader, out io.Writer, answer func(line string) (string, error)) error {
	if _, err := io.WriteString(out, readyLine); err != nil {
		return fmt.Errorf("tell parent: %w", err)
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		s, err := answer(lines.Text())
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, s); err != nil {
			return fmt.Errorf("tell parent: %w", err)
		}
	}
	return lines.Err()
}

// ask writes a line to such a child, and returns its answer.
func (c *process) ask(line string) (string, error) {
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		return "", fmt.Errorf("tell child: %w", err)
	}
	return c.line()
}

const reportersName = "goroutine pool that reports each end on a channel, 1000 tasks"

// reporters is the raw limit of wait_1k: a pool whose workers say on a channel which task has ended, so that a caller
// takes one end after the other.
type reporters struct {
	jobs    chan int // closed by close
	ended   chan int // closed by close, after the workers
	workers sync.WaitGroup
}

func newReporters() *reporters {
	r := &reporters{jobs: make(chan int, batch), ended: make(chan int, batch)}
	for range runtime.GOMAXPROCS(0) {
		r.workers.Go(func() {
			for x := range r.jobs {
				r.ended <- raw(x)
			}
		})
	}
	return r
}

func (r *reporters) run([]int) error {
	for i := range batch {
		r.jobs <- i
	}
	total := 0
	for range batch {
		total += <-r.ended
	}
	return expect(total, batch*(batch+1)/2)
}

func (r *reporters) close() {
	close(r.jobs)
	r.workers.Wait()
	close(r.ended)
}
