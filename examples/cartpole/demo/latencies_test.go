package demo

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A quantile is within 2 % of the value at its rank, whatever the values.
func TestLatencies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ds := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, math.MaxInt64>>rapid.IntRange(0, 62).Draw(t, "shift")).Draw(t, "ns"))
		}), 1, 200).Draw(t, "durations")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		var halves [2]latencies
		for i, d := range ds {
			halves[i%2].record(d)
		}
		halves[0].add(&halves[1])
		slices.Sort(ds)
		want := ds[max(int(math.Ceil(q*float64(len(ds))))-1, 0)]
		got := halves[0].quantile(q)
		if math.Abs(float64(got-want)) > 0.02*float64(want) || halves[0].n != len(ds) {
			t.Fatalf("quantile %v of %v is %v, want %v", q, ds, got, want)
		}
	})
	if d := new(latencies).quantile(0.5); d != 0 {
		t.Errorf("quantile of nothing is %v", d)
	}
	var l latencies
	l.record(-1) // a clock that was set back
	if d := l.quantile(1); d != 0 {
		t.Errorf("a negative duration counts as %v", d)
	}
}
