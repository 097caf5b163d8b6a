package plot

import (
	"slices"
	"strings"
)

// Run is what is drawn of one run.
type Run struct {
	Label  string // runs with the same one are one line, which has it in the legend, with their seeds
	Seed   uint64
	Points []Point
}

// Point is one of a run. A number that was not measured is NaN.
type Point struct{ Steps, Return, Evaluated float64 }

// Level is a return that a line through the plot is at: dotted, or else dashed.
type Level struct {
	Label  string
	At     float64
	Dotted bool
}

// Places in a plot, in pixels. Its height grows with the legend.
const (
	fileWidth             = 760
	frameLeft, frameRight = 72, 620 // of the frame; labels of levels stand to the right of it
	frameTop, frameBottom = 40, 340
	legendTop, legendLine = 410, 20 // baseline of the legend's first line, and how far the next one is
)

// Draw returns the SVG file. Its lines are the returns of fresh episodes where every point has them, else those of training.
func Draw(title string, runs []Run, levels []Level) []byte {
	list, evaluated := curves(runs)
	steps, returns := []float64{1}, []float64(nil)
	for _, l := range levels {
		returns = append(returns, l.At)
	}
	for _, c := range list {
		steps = append(steps, c.x...)
		returns = slices.Concat(returns, c.low, c.high)
		for _, dot := range c.dots {
			steps, returns = append(steps, dot.x), append(returns, dot.y)
		}
	}
	x := axis{0, slices.Max(steps), frameLeft, frameRight}
	y := axisOver(returns, frameBottom, frameTop)

	d := newDrawing(fileWidth, legendTop+legendLine*len(list)+12, title)
	d.frame(&x, &y, evaluated)
	d.levels(levels, &y)
	for i, c := range list {
		d.curve(c, &x, &y, colors[i%len(colors)])
	}
	for i, c := range list {
		d.legend(c, legendTop+legendLine*float64(i), colors[i%len(colors)])
	}
	d.text(frameLeft, legendTop+legendLine*float64(len(list)), 11, faint, note(list))
	return d.end()
}

// note says what the legend does not.
func note(list []*curve) string {
	var words []string
	has := func(what func(c *curve) bool, note string) {
		if slices.ContainsFunc(list, what) {
			words = append(words, note)
		}
	}
	has(func(c *curve) bool { return len(c.seeds) > 1 }, "Line: mean of the seeds. Band: from the lowest to the highest.")
	has(func(c *curve) bool { return len(c.dots) > 0 }, "Dots: fresh episodes.")
	has(func(c *curve) bool { return len(c.x)+len(c.dots) == 0 }, "Without a line: no return was measured.")
	return strings.Join(words, " ")
}
