package plot

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// xy is a place in a plot, in its units.
type xy struct{ x, y float64 }

// curve is what a plot has of the runs of one label, which differ by their seeds.
type curve struct {
	label           string
	seeds           []uint64
	x               []float64 // steps, at which these are:
	mean, low, high []float64 // over the runs
	dots            []xy      // evaluations, where the line is of training
}

const (
	places   = 400   // on the axis of steps at most, which is as fine as a line is wide
	farthest = 1e300 // from zero: beyond it sums overflow
)

// curves groups the runs. The returns are those of fresh episodes where every point was evaluated, else those of training.
func curves(runs []Run) (list []*curve, evaluated bool) {
	evaluated = !slices.ContainsFunc(runs, func(r Run) bool {
		return slices.ContainsFunc(r.Points, func(p Point) bool { return !Drawable(p.Evaluated) })
	})
	members := map[*curve][][]xy{}
	for _, r := range runs {
		i := slices.IndexFunc(list, func(c *curve) bool { return c.label == r.Label })
		if i < 0 {
			i = len(list)
			list = append(list, &curve{label: r.Label})
		}
		c := list[i]
		c.seeds = append(c.seeds, r.Seed)
		line := series(r.Points, func(p *Point) float64 { return p.Evaluated })
		if !evaluated {
			c.dots = append(c.dots, line...)
			line = series(r.Points, func(p *Point) float64 { return p.Return })
		}
		if len(line) > 0 {
			members[c] = append(members[c], line)
		}
	}
	for _, c := range list {
		slices.Sort(c.seeds)
		c.join(members[c])
	}
	return list, evaluated
}

// Drawable reports whether y is a number that can be drawn: NaN is not.
func Drawable(y float64) bool { return math.Abs(y) < farthest }

// series is a number of each point that has one, by steps. Of two at the same steps the later stands.
func series(points []Point, of func(*Point) float64) (s []xy) {
	for i := range points {
		if y := of(&points[i]); Drawable(y) {
			s = append(s, xy{points[i].Steps, y})
		}
	}
	slices.SortStableFunc(s, func(a, b xy) int { return cmp.Compare(a.x, b.x) })
	kept := s[:0]
	for i, p := range s {
		if i+1 == len(s) || s[i+1].x != p.x {
			kept = append(kept, p)
		}
	}
	return kept
}

// join makes the curve of its runs. It begins where each has a return.
func (c *curve) join(runs [][]xy) {
	if len(runs) == 0 {
		return
	}
	from := runs[0][0].x
	for _, s := range runs {
		from = max(from, s[0].x)
	}
	for _, s := range runs {
		for _, p := range s {
			if p.x >= from {
				c.x = append(c.x, p.x)
			}
		}
	}
	c.x = append(c.x, from)
	slices.Sort(c.x)
	c.x = slices.Compact(c.x)
	if n := len(c.x); n > places {
		to := c.x[n-1]
		c.x = c.x[:places]
		for i := range c.x {
			c.x[i] = from + (to-from)*float64(i)/(places-1)
		}
	}
	for _, x := range c.x {
		sum, low, high := 0.0, math.Inf(1), math.Inf(-1)
		for _, s := range runs {
			y := interpolate(s, x)
			sum, low, high = sum+y/float64(len(runs)), min(low, y), max(high, y)
		}
		c.mean, c.low, c.high = append(c.mean, sum), append(c.low, low), append(c.high, high)
	}
}

// interpolate interpolates. After its end a run counts with its last return: its policy stays as it is.
func interpolate(s []xy, x float64) float64 {
	i, _ := slices.BinarySearchFunc(s, x, func(p xy, x float64) int { return cmp.Compare(p.x, x) })
	switch {
	case i == len(s):
		return s[i-1].y
	case i == 0:
		return s[0].y
	}
	a, b := s[i-1], s[i]
	share := (x - a.x) / (b.x - a.x)
	return a.y*(1-share) + b.y*share
}

// legend is the curve's line there.
func (c *curve) legend() string {
	seeds, n := "", len(c.seeds)
	switch first, last := c.seeds[0], c.seeds[n-1]; {
	case n == 1:
		seeds = fmt.Sprintf("seed %d", first)
	case n == len(slices.Compact(slices.Clone(c.seeds))) && last-first == uint64(n-1):
		seeds = fmt.Sprintf("seeds %d to %d", first, last)
	case n <= 6:
		seeds = "seeds " + strings.Trim(strings.ReplaceAll(fmt.Sprint(c.seeds), " ", ", "), "[]")
	default:
		seeds = fmt.Sprintf("%d seeds", n)
	}
	return fmt.Sprintf("%s, %s", c.label, seeds)
}
