package sweep

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
)

// Space has a Range for each name.
type Space map[string]Range

// Range is what a number may be: Uniform, Log or Choice.
type Range struct {
	low, high float64
	log       bool
	of        []float64
}

// Uniform is a number from low to high, each as likely.
func Uniform(low, high float64) Range { return Range{low: low, high: high} }

// Log is a number from low to high whose logarithm is uniform: each order of magnitude is as likely.
func Log(low, high float64) Range { return Range{low: low, high: high, log: true} }

// Choice is one of these numbers, each as likely. For other things it is their places in a list.
func Choice(of ...float64) Range { return Range{of: slices.Clone(of)} }

func (r *Range) draw(rng *rand.Rand) float64 {
	share := rng.Float64()
	switch {
	case len(r.of) > 0:
		return r.of[int(share*float64(len(r.of)))]
	case r.log:
		return math.Exp(math.Log(r.low) + share*(math.Log(r.high)-math.Log(r.low)))
	}
	return r.low + share*(r.high-r.low)
}

func (r *Range) check() string {
	bad := func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }
	switch {
	case slices.ContainsFunc(r.of, bad), bad(r.low), bad(r.high):
		return "has a number that is not finite"
	case len(r.of) > 0:
	case r.low == 0 && r.high == 0:
		return "is empty: give sweep.Uniform, Log, or a Choice of one or more"
	case r.low > r.high:
		return fmt.Sprintf("goes from %g down to %g: give the lower one first", r.low, r.high)
	case r.log && r.low <= 0:
		return fmt.Sprintf("is a Log from %g: give numbers above 0", r.low)
	}
	return ""
}

// names are in order.
func (s Space) names() []string { return slices.Sorted(maps.Keys(s)) }

// draw is setting n of those that follow from the seed.
func (s Space) draw(seed uint64, n int) Setting {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	all := Setting{}
	for _, name := range s.names() {
		r := s[name]
		all[name] = r.draw(rng)
	}
	return all
}

// Setting is a number for each name of a Space.
type Setting map[string]float64

// Float is the number of a name. A name that the Space does not have is a panic, which Run reports.
func (s Setting) Float(name string) float64 {
	x, ok := s[name]
	if !ok {
		panic(fmt.Sprintf("the space has no %q: it has %q", name, slices.Sorted(maps.Keys(s))))
	}
	return x
}

// Int is the number of a name, rounded.
func (s Setting) Int(name string) int { return int(math.Round(s.Float(name))) }

func (s Setting) String() (text string) {
	for i, name := range slices.Sorted(maps.Keys(s)) {
		if i > 0 {
			text += " "
		}
		text += fmt.Sprintf("%s=%.4g", name, s[name])
	}
	return text
}
