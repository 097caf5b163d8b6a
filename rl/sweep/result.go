package sweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/raysys/raysys/rl/internal/plot"
)

// Result is what came of a sweep.
type Result struct {
	Name   string // of the Define
	Search Search
	Seed   uint64
	Trials []Trial // in the order in which they began
	Best   Trial   // the one with the highest mean return, of those that reached the Stop where there are any
	Solved bool    // the Stop was reached
	Steps  int     // of the environment, of all trials
	Took   time.Duration
	Curve  []Rung // the best return that was known after so many Steps
}

func (g *going) result() *Result {
	b := g.board.clone()
	r := &Result{Name: g.name, Search: g.plan.Search, Seed: g.plan.Seed, Trials: b.Trials, Solved: b.Solved, Steps: b.Steps, Took: time.Since(g.began), Curve: b.Curve}
	if i := b.best(); i >= 0 {
		r.Best = b.Trials[i]
	}
	return r
}

// String is a table of the trials, the best first, for a person.
func (r *Result) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s by %v, seed %d: %d trials, %d steps in %.1f s\n", r.Name, r.Search, r.Seed, len(r.Trials), r.Steps, r.Took.Seconds())
	trials := slices.Clone(r.Trials)
	slices.SortStableFunc(trials, func(a, b Trial) int { return better(&a, &b) })
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "trial\tsteps\treturn\t\tsetting")
	for i := range trials {
		t := &trials[i]
		mean, how := fmt.Sprintf("%.4g", t.Last().Return), ""
		switch {
		case t.Diverged:
			how = "diverged"
		case t.Solved:
			how = "solved"
		}
		if len(t.Rungs) == 0 {
			mean = "-"
		}
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%v\n", t.Number, t.Last().Steps, mean, how, t.Setting)
	}
	_ = w.Flush() // into a string
	return strings.TrimRight(text.String(), "\n")
}

// WriteJSONL writes each trial as a line of JSON: trial, setting, rungs, of steps and return each, solved, diverged.
func (r *Result) WriteJSONL(w io.Writer) error {
	e := json.NewEncoder(w)
	for i := range r.Trials {
		t := r.Trials[i]
		if t.Rungs == nil {
			t.Rungs = []Rung{}
		}
		if err := e.Encode(&t); err != nil {
			return err
		}
	}
	return nil
}

// Plot draws the result as an SVG file; see the function Plot.
func (r *Result) Plot(file string) error { return Plot(file, r) }

// Plot draws results as an SVG file: the best mean return that was known after so many steps of all trials. Results of one search are one line, the mean
// of their seeds, with a band from the lowest to the highest.
func Plot(file string, results ...*Result) error {
	if len(results) == 0 || slices.Contains(results, nil) {
		return errors.New("sweep: plot: give one result or more, and no nil")
	}
	var names []string
	runs := make([]plot.Run, len(results))
	for i, r := range results {
		if !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
		runs[i] = plot.Run{Label: r.Name + ": " + r.Search.String(), Seed: r.Seed}
		for _, c := range r.Curve {
			runs[i].Points = append(runs[i].Points, plot.Point{Steps: float64(c.Steps), Return: c.Return, Evaluated: c.Return})
		}
	}
	if err := os.WriteFile(file, plot.Draw(strings.Join(names, ", "), runs, nil), 0o644); err != nil {
		return fmt.Errorf("sweep: plot: %w", err)
	}
	return nil
}
