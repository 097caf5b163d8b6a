package backoff_test

import (
	"context"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys/internal/backoff"
)

func TestPausesDouble(t *testing.T) {
	half := func() float64 { return 0.5 }
	for name, c := range map[string]struct {
		d    backoff.Doubling
		want []time.Duration
	}{
		"up to the longest":          {backoff.Doubling{First: 2, Longest: 15}, []time.Duration{2, 4, 8, 15, 15, 15}},
		"the longest is no power":    {backoff.Doubling{First: 4, Longest: 5}, []time.Duration{4, 5, 5}},
		"the first is the longest":   {backoff.Doubling{First: 5, Longest: 5}, []time.Duration{5, 5}},
		"the first is longer":        {backoff.Doubling{First: 9, Longest: 5}, []time.Duration{5, 5}},
		"none":                       {backoff.Doubling{}, []time.Duration{0, 0}},
		"the longest there is":       {backoff.Doubling{First: 1 << 61, Longest: math.MaxInt64}, []time.Duration{1 << 61, 1 << 62, math.MaxInt64}},
		"half of a half is left out": {backoff.Doubling{First: 4, Longest: 12, Draw: half}, []time.Duration{3, 6, 9, 9}},
	} {
		for _, again := range []string{"", ", after Reset"} {
			var got []time.Duration
			for range c.want {
				got = append(got, c.d.Next())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s%s: %v, want %v", name, again, got, c.want)
			}
			c.d.Reset()
		}
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		began, d := time.Now(), backoff.Doubling{First: time.Second, Longest: time.Hour}
		for _, want := range []struct {
			outlives bool
			at       time.Duration
		}{{true, time.Second}, {true, 3 * time.Second}, {false, 6 * time.Second}, {false, 6 * time.Second}} {
			if got, at := d.Wait(ctx), time.Since(began); got != want.outlives || at != want.at {
				t.Errorf("%v after %v, want %v after %v", got, at, want.outlives, want.at)
			}
		}
	})
}
