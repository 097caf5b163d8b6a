package rl

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Plot draws the run as an SVG file: see the function Plot.
func (r *Run) Plot(file string) error { return Plot(file, r) }

// Plot draws runs as an SVG file: mean return over steps of the environment.
//
// Runs that have the name and the number of actors in common are one line, the mean of their seeds, with a band from the lowest seed to the highest.
// Between the points of a run it is straight. A run that has ended before the others, since it had reached its goal, counts with its last return from
// there on. A line of more than 400 points is drawn at 400 steps.
//
// Returns are those of fresh episodes where every Point was evaluated (Plan.Evaluate); else those of training, and evaluations are dots. Nothing is
// smoothed: a Point already is the mean of its episodes.
//
// The mean return of random actions is dotted. Goals are dashed, or the thresholds of environments where runs have no goal.
func Plot(file string, runs ...*Run) error {
	if len(runs) == 0 || slices.Contains(runs, nil) {
		return errors.New("rl: plot: give one run or more, and no nil")
	}
	if err := os.WriteFile(file, drawRuns(runs), 0o644); err != nil {
		return fmt.Errorf("rl: plot: %w", err)
	}
	return nil
}

// Places in a plot, in pixels. Its height grows with the legend.
const (
	plotWidth             = 760
	plotLeft, plotRight   = 72, 620 // of the frame; labels of levels stand to the right of it
	plotTop, plotBottom   = 40, 340
	plotLegend, plotEntry = 410, 20 // baseline of the legend's first line, and how far the next one is
)

func drawRuns(runs []*Run) []byte {
	list, evaluated := curves(runs)
	levels := levelsOf(runs)
	steps, returns := []float64{1}, []float64(nil)
	for _, l := range levels {
		returns = append(returns, l.at)
	}
	for _, c := range list {
		steps = append(steps, c.x...)
		returns = slices.Concat(returns, c.low, c.high)
		for _, dot := range c.dots {
			steps, returns = append(steps, dot.x), append(returns, dot.y)
		}
	}
	x := axis{0, slices.Max(steps), plotLeft, plotRight}
	y := axisOver(returns, plotBottom, plotTop)

	d := newDrawing(plotWidth, plotLegend+plotEntry*len(list)+12, strings.Join(environments(runs), ", "))
	d.frame(&x, &y, evaluated)
	d.levels(levels, &y)
	for i, c := range list {
		d.curve(c, &x, &y, plotColors[i%len(plotColors)])
	}
	for i, c := range list {
		d.legend(c, plotLegend+plotEntry*float64(i), plotColors[i%len(plotColors)])
	}
	d.text(plotLeft, plotLegend+plotEntry*float64(len(list)), 11, faint, note(list))
	return d.end()
}

// environments are their names.
func environments(runs []*Run) (names []string) {
	for _, r := range runs {
		if !slices.Contains(names, r.Env.Name) {
			names = append(names, r.Env.Name)
		}
	}
	return names
}

// level is a return that a line through the plot is at.
type level struct {
	label string
	at    float64
	style string
}

// levelsOf are what random actions return in each environment, and what is to be reached.
func levelsOf(runs []*Run) (levels []level) {
	envs := environments(runs)
	add := func(word, env string, at float64, dashes string) {
		l := level{word + " " + brief(at), at, `stroke="#444444" stroke-width="1.5" ` + dashes}
		if len(envs) > 1 {
			l.label = env + " " + l.label
		}
		if drawable(at) && !slices.Contains(levels, l) {
			levels = append(levels, l)
		}
	}
	for _, env := range envs {
		var random []float64 // each run has measured it by its own seed
		for _, r := range runs {
			if r.Env.Name != env {
				continue
			}
			if goal, word := r.aim(); goal != 0 {
				add(word, env, goal, `stroke-dasharray="8 5"`)
			}
			if drawable(r.RandomReturn) {
				random = append(random, r.RandomReturn)
			}
		}
		add("random", env, mean(random), `stroke-dasharray="0.1 5" stroke-linecap="round"`)
	}
	return levels
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
