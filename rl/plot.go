package rl

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/raysys/raysys/rl/internal/plot"
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
	if err := os.WriteFile(file, plot.Draw(strings.Join(environments(runs), ", "), lines(runs), levelsOf(runs)), 0o644); err != nil {
		return fmt.Errorf("rl: plot: %w", err)
	}
	return nil
}

// lines are the runs as they are drawn.
func lines(runs []*Run) []plot.Run {
	list := make([]plot.Run, len(runs))
	for i, r := range runs {
		list[i] = plot.Run{Label: r.Name + ": " + plural(r.Actors, "actor"), Seed: r.Seed}
		for _, p := range r.Points {
			list[i].Points = append(list[i].Points, plot.Point{Steps: float64(p.Steps), Return: p.Return, Evaluated: p.Evaluated})
		}
	}
	return list
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

// levelsOf are what random actions return in each environment, and what is to be reached.
func levelsOf(runs []*Run) (levels []plot.Level) {
	envs := environments(runs)
	add := func(word, env string, at float64, random bool) {
		l := plot.Level{Label: word + " " + brief(at), At: at, Dotted: random}
		if len(envs) > 1 {
			l.Label = env + " " + l.Label
		}
		if plot.Drawable(at) && !slices.Contains(levels, l) {
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
				add(word, env, goal, false)
			}
			if plot.Drawable(r.RandomReturn) {
				random = append(random, r.RandomReturn)
			}
		}
		add("random", env, mean(random), true)
	}
	return levels
}
