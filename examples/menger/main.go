// Command menger has hundreds of actors learn as one does, and a large model read by all of them at once: what Menger (Fan et al. 2021) does with thousands.
//
//	go run ./examples/menger                      512 actors, of which a tenth leaves memory each second; then 128 read a model of 16 MB
//	go run ./examples/menger -part learn -svg ages.svg
//	RAYSYS_CONSUL=127.0.0.1:8500 go run ./examples/menger -o json     on the workers of a cluster
//
// The report goes to standard output, and progress to standard error. Exit codes: 0 ok, 1 not learned or interrupted, 2 usage. RAYSYS_* configure
// the node as they do every program's.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/raysys/raysys/system"
)

// flags are what the command is told.
type flags struct {
	part, form, svg string
	learn           learning
	read            reading
}

func main() {
	var f flags
	flag.StringVar(&f.part, "part", "all", "learn, read or all")
	flag.IntVar(&f.learn.Actors, "actors", 512, "that learn together")
	flag.IntVar(&f.learn.Episodes, "episodes", 10_000, "of training at most")
	flag.Uint64Var(&f.learn.Seed, "seed", 1, "of the run")
	flag.BoolVar(&f.learn.Stay, "stay", false, "no actor leaves memory: the baseline")
	flag.IntVar(&f.read.Readers, "readers", 128, "that read the model at once")
	flag.IntVar(&f.read.Bytes, "bytes", 16<<20, "of the model")
	flag.IntVar(&f.read.Rounds, "rounds", 5, "of reading; the first is reported by itself")
	flag.StringVar(&f.svg, "svg", "", "file to draw the ages of weights in")
	flag.StringVar(&f.form, "o", "text", "form of the report: text or json")
	f.learn.Each = time.Second
	flag.Parse()
	if problem := f.check(); problem != "" || flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "error: %s; there are no arguments: run with -h for the flags\n", problem)
		os.Exit(2)
	}
	system.Main(func(ctx context.Context) error { return f.run(ctx, os.Stdout, os.Stderr) })
}

// check is what is wrong with the flags.
func (f *flags) check() string {
	switch {
	case f.part != "learn" && f.part != "read" && f.part != "all":
		return "-part is learn, read or all"
	case f.form != "text" && f.form != "json":
		return "-o is text or json"
	case f.learn.Actors < 1 || f.learn.Episodes < 1 || f.read.Readers < 1 || f.read.Bytes < 4 || f.read.Rounds < 2:
		return "actors, episodes and readers are 1 or more, bytes 4 or more, and rounds 2 or more"
	}
	return ""
}

// report is what -o json prints. The ratios are those of the learner's answers to what is read by name: larger is better for the name.
type report struct {
	MeanReturn   float64 `json:"mean_return"`
	RandomReturn float64 `json:"random_return"`
	Episodes     int     `json:"episodes"`
	Actors       int     `json:"actors"`
	Unloaded     int     `json:"unloaded"`
	Ages         []int   `json:"ages"` // how many of the points of the run had weights of the age of the index
	Reads        *reads  `json:"reads,omitempty"`
	MeanRatio    float64 `json:"read_mean_ratio"`
	P99Ratio     float64 `json:"read_p99_ratio"`
}

// run is main without the process.
func (f *flags) run(ctx context.Context, stdout, stderr io.Writer) error {
	var r report
	var missed error
	if f.part != "read" {
		l, err := f.learn.run(ctx)
		if err != nil {
			return err
		}
		r.MeanReturn, r.RandomReturn, r.Episodes, r.Actors, r.Unloaded, r.Ages = l.MeanReturn, l.RandomReturn, l.Episodes, l.Actors, l.unloaded, agesOf(l.Run)
		if !l.Solved {
			missed = fmt.Errorf("not learned: the mean return is %.2f after %d episodes, and the goal %g", l.MeanReturn, l.Episodes, l.Goal)
		}
		if f.svg != "" {
			if err := os.WriteFile(f.svg, drawAges(r.Ages), 0o644); err != nil {
				return err
			}
		}
	}
	if f.part != "learn" {
		all, err := f.read.run(ctx, stderr)
		if err != nil {
			return err
		}
		r.Reads = &all
		r.MeanRatio, r.P99Ratio = all.Answers.Mean/all.ByName.Mean, all.Answers.P99/all.ByName.P99
	}
	if f.form == "json" {
		return firstOf(json.NewEncoder(stdout).Encode(r), missed)
	}
	return firstOf(r.write(stdout), missed)
}

func firstOf(list ...error) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

// write reports as text.
func (r *report) write(to io.Writer) error {
	if r.Actors > 0 {
		fmt.Fprintf(to, "%d actors: mean return %.2f over fresh episodes (random actions: %.2f) after %d episodes; %d times an actor left memory\n",
			r.Actors, r.MeanReturn, r.RandomReturn, r.Episodes, r.Unloaded)
		fmt.Fprintf(to, "updates since the weights that acted: %v of the points had 0, 1, 2, ...\n", r.Ages)
	}
	if r.Reads == nil {
		return nil
	}
	fmt.Fprintf(to, "%-34s %12s %12s %14s\n", "the model, milliseconds", "mean", "p99", "first round")
	for _, row := range []struct {
		what string
		t    timing
	}{{"by name, where it lies", r.Reads.ByName}, {"the same, and all numbers added", r.Reads.Added}, {"the learner's answer to each", r.Reads.Answers}} {
		fmt.Fprintf(to, "%-34s %12.2f %12.2f %14.2f\n", row.what, row.t.Mean, row.t.P99, row.t.First)
	}
	_, err := fmt.Fprintf(to, "an answer takes %.1f times the mean of a read by name, and %.1f times its p99\n", r.MeanRatio, r.P99Ratio)
	return err
}
