package bench

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A quantile is within a bucket's width of what sorting all durations gives.
func TestQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ds := rapid.SliceOfN(rapid.Int64Range(0, int64(2*time.Hour)), 1, 200).Draw(t, "durations")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		var h, other hist
		for i, d := range ds {
			if i%2 == 0 {
				h.add(time.Duration(d))
			} else {
				other.add(time.Duration(d))
			}
		}
		h.merge(&other)
		slices.Sort(ds)
		want := time.Duration(ds[min(int(q*float64(len(ds))), len(ds)-1)])
		if got := h.quantile(q); (got - want).Abs() > want/100 {
			t.Fatalf("quantile %v is %v, want %v of %v", q, got, want, ds)
		}
		if h.max != time.Duration(ds[len(ds)-1]) || h.n != uint64(len(ds)) {
			t.Fatalf("max %v of %d durations, want %v of %d", h.max, h.n, ds[len(ds)-1], len(ds))
		}
	})
}

func TestEveryDurationHasABucket(t *testing.T) {
	var h hist
	for shift := range 63 {
		d := time.Duration(1) << shift
		for _, d := range []time.Duration{d - 1, d, d + 1} {
			h.add(d)
			if got := histMiddle(histIndex(d)); (got - d).Abs() > d/128 {
				t.Errorf("the bucket of %d is around %d", d, got)
			}
		}
	}
	h.add(1<<63 - 1)
	h.add(-1) // a clock that steps back is not a reason to panic
	if h.n != 63*3+2 {
		t.Errorf("%d durations", h.n)
	}
	if (&hist{}).quantile(0.5) != 0 {
		t.Error("the median of nothing is not 0")
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		vs   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{5, 100, 1}, 5}} {
		if got := median(c.vs); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.vs, got, c.want)
		}
	}
}

func TestFigures(t *testing.T) {
	for v, want := range map[float64]float64{0: 0, 1234567: 1235000, 0.123456: 0.1235, 99999: 100000, 624: 624, -1.23456: -1.235} {
		if got := figures(v); got != want {
			t.Errorf("figures(%v) is %v, want %v", v, got, want)
		}
	}
}
