package plot

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// axis maps numbers from lo to hi to pixels.
type axis struct {
	lo, hi, from, to float64
}

func (a *axis) pixel(v float64) float64 { return a.from + (v-a.lo)/(a.hi-a.lo)*(a.to-a.from) }

// axisOver makes an axis that has all values. Where they are as good as the same it is as wide as they are large.
func axisOver(values []float64, from, to float64) axis {
	if len(values) == 0 {
		values = []float64{0, 1}
	}
	lo, hi := slices.Min(values), slices.Max(values)
	pad := (hi - lo) * 0.06
	if large := max(math.Abs(lo), math.Abs(hi)); hi-lo <= large*1e-6 {
		pad = cmp.Or(large/2, 1.06)
	}
	return axis{lo - pad, hi + pad, from, to}
}

// ticks are round numbers on the axis, want of them or a few more or less, and how they are written.
func (a *axis) ticks(want int) (at []float64, text func(float64) string) {
	raw := (a.hi - a.lo) / float64(want)
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	switch {
	case raw > 5*step:
		step *= 10
	case raw > 2*step:
		step *= 5
	case raw > step:
		step *= 2
	}
	first := math.Ceil(a.lo / step)
	for i := range int(math.Floor(a.hi/step)-first) + 1 {
		at = append(at, (first+float64(i))*step)
	}
	return at, written(max(math.Abs(a.lo), math.Abs(a.hi)), step)
}

// written says how the ticks of an axis are written: all with the same unit and decimals.
func written(largest, step float64) func(float64) string {
	unit, sign := 1.0, ""
	switch {
	case largest >= 1e9:
	case largest >= 1e6:
		unit, sign = 1e6, "M"
	case largest >= 1e4:
		unit, sign = 1e3, "k"
	}
	decimals := int(max(0, -math.Floor(math.Log10(step/unit)+1e-9)))
	return func(v float64) string {
		switch {
		case v == 0:
			return "0"
		case largest >= 1e9 || decimals > 6:
			return strconv.FormatFloat(v, 'g', 6, 64)
		}
		return strconv.FormatFloat(v/unit, 'f', decimals, 64) + sign
	}
}
