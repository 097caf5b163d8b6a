package bench

import (
	"context"
	"runtime"
	"runtime/metrics"
	"slices"
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
