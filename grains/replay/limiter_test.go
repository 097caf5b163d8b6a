package replay

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestLimiters: over random schedules a ratio stays within its buffer, no limiter shuts out inserts and samples at the same time, and MinSize and
// Queue hold what they say.
func TestLimiters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		min := rapid.IntRange(1, 20).Draw(t, "min")
		ratio := rapid.SampledFrom([]float64{0.25, 0.5, 1, 1.5, 4, 16}).Draw(t, "ratio")
		buffer := max(1, ratio) * rapid.Float64Range(1, 5).Draw(t, "buffer")
		cfg := Table{Name: "t", Sampler: Uniform, Remover: FIFO, MaxSize: rapid.IntRange(min, 60).Draw(t, "max")}
		switch kind := rapid.IntRange(0, 2).Draw(t, "kind"); kind {
		case 0:
			cfg.Limiter = MinSize(min)
		case 1:
			cfg.Limiter = SampleToInsertRatio(ratio, min, buffer)
		case 2:
			cfg.Limiter, cfg.Sampler, cfg.MaxTimesSampled = Queue(min), FIFO, 1
		}
		if err := cfg.Limiter.check(cfg.MaxSize); err != nil {
			t.Fatal(err)
		}
		tb := newTable(cfg)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		c := &chunk{data: []byte{1}, ends: []uint32{1}}
		for i := range 400 {
			insert, sample := tb.mayInsert(), tb.maySample(1) > 0
			if !insert && !sample {
				t.Fatalf("%v is shut for both: size %d, inserts %d, samples %d", cfg.Limiter, tb.size(), tb.inserts, tb.samples)
			}
			if insert && (!sample || r.IntN(2) == 0) {
				tb.insert(item{key: uint64(i), chunk: c, last: 1, priority: 1}, r)
			} else {
				if tb.size() < cfg.Limiter.minSize {
					t.Fatalf("%v lets samples through with %d items", cfg.Limiter, tb.size())
				}
				tb.sample(r)
			}
			d := cfg.Limiter.diff(tb.inserts, tb.samples)
			switch {
			case tb.size() > cfg.MaxSize:
				t.Fatalf("%d items of %d", tb.size(), cfg.MaxSize)
			case strings.HasPrefix(cfg.Limiter.name, "Sample") && tb.inserts >= uint64(min) && tb.samples > 0 && (d < cfg.Limiter.minDiff || d > cfg.Limiter.maxDiff && tb.size() >= min):
				t.Fatalf("%v: %g samples are due, outside of %g to %g", cfg.Limiter, d, cfg.Limiter.minDiff, cfg.Limiter.maxDiff)
			case cfg.Limiter.queue > 0 && (tb.size() > cfg.Limiter.queue || tb.samples > tb.inserts):
				t.Fatalf("%v: %d items, %d inserts, %d samples", cfg.Limiter, tb.size(), tb.inserts, tb.samples)
			}
		}
	})
}

// TestBadConfig: what could never work is refused, and says what to do.
func TestBadConfig(t *testing.T) {
	table := func(change func(*Table)) Config {
		x := Table{Name: "t", MaxSize: 10}
		change(&x)
		return Config{Tables: []Table{x}}
	}
	for want, cfg := range map[string]Config{
		"0 tables":                         {},
		"-1 shards":                        {Shards: -1, Tables: []Table{{Name: "t", MaxSize: 1}}},
		"it has no name":                   table(func(t *Table) { t.Name = "" }),
		"MaxSize is 0":                     table(func(t *Table) { t.MaxSize = 0 }),
		"MaxTimesSampled is -1":            table(func(t *Table) { t.MaxTimesSampled = -1 }),
		"an exponent of NaN":               table(func(t *Table) { t.Sampler = Prioritized(nan()) }),
		"an exponent of -1":                table(func(t *Table) { t.Remover = Prioritized(-1) }),
		"MinSize(11) never opens":          table(func(t *Table) { t.Limiter = MinSize(11) }),
		"MinSize(0) never opens":           table(func(t *Table) { t.Limiter = MinSize(0) }),
		"Queue(-1) never opens":            table(func(t *Table) { t.Limiter = Queue(0) }),
		"Queue(11) never opens":            table(func(t *Table) { t.Limiter = Queue(11) }),
		"give a ratio above 0":             table(func(t *Table) { t.Limiter = SampleToInsertRatio(0, 1, 5) }),
		"give an error buffer of 4 at lea": table(func(t *Table) { t.Limiter = SampleToInsertRatio(4, 1, 3) }),
		"two tables have the name":         {Tables: []Table{{Name: "t", MaxSize: 1}, {Name: "t", MaxSize: 2}}},
	} {
		if _, err := cfg.complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func nan() float64 { var zero float64; return zero / zero }

func TestEndless(t *testing.T) {
	for want, tables := range map[bool][]Table{
		true:  {{}, {Limiter: MinSize(5)}, {Limiter: SampleToInsertRatio(1, 1, math.Inf(1))}},
		false: {{MaxTimesSampled: 1}, {Limiter: SampleToInsertRatio(4, 5, 100)}, {Limiter: Queue(3)}},
	} {
		for _, table := range tables {
			if table.Endless() != want {
				t.Errorf("%+v: want %v", table, want)
			}
		}
	}
}
