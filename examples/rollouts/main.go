// Command rollouts plays episodes of very different lengths on actors, asynchronously and bulk-synchronously: the workload "simulation" of the paper on
// Ray (Moritz et al. 2018, table 4).
//
//	go run ./examples/rollouts                    8 actors, episodes of 10 to 1,000 steps, a simulator that waits 50 us a step; then Pendulum, on the CPU
//	go run ./examples/rollouts -svg rollouts.svg  with a drawing of which actor was at work when
//	RAYSYS_CONSUL=127.0.0.1:8500 go run ./examples/rollouts -o json     on the workers of a cluster
//
// Asynchronously an actor gets its next episode as soon as its last has ended; bulk-synchronously all actors begin together, and the shortest episodes
// wait for the longest. Both play the same episodes, which follow from the seed. The report goes to standard output, and progress to standard error.
// Exit codes: 0 ok, 1 failed or interrupted, 2 usage. RAYSYS_* configure the node as they do every program's.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/raysys/raysys/system"
)

// flags are what the command is told.
type flags struct {
	workload
	repeat    int
	form, svg string
}

func main() {
	var f flags
	flag.IntVar(&f.Actors, "actors", 8, "that play at the same time")
	flag.IntVar(&f.Rounds, "rounds", 40, "of an episode for each actor")
	flag.Uint64Var(&f.Seed, "seed", 1, "of the episodes")
	flag.IntVar(&f.repeat, "repeat", 3, "how often each way is measured, in turn; the median counts")
	flag.StringVar(&f.svg, "svg", "", "file to draw the actors' time in")
	flag.StringVar(&f.form, "o", "text", "form of the report: text or json")
	flag.Parse()
	if problem := f.check(); problem != "" {
		fmt.Fprintf(os.Stderr, "error: %s: run with -h for the flags\n", problem)
		os.Exit(2)
	}
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "error: rollouts takes no argument, and was given %q: run with -h for the flags\n", flag.Arg(0))
		os.Exit(2)
	}
	system.Main(func(ctx context.Context) error { return f.run(ctx, os.Stdout, os.Stderr) })
}

// check is what is wrong with the flags.
func (f *flags) check() string {
	switch {
	case f.form != "text" && f.form != "json":
		return fmt.Sprintf("-o is %q: give text or json", f.form)
	case f.Actors < 1 || f.Rounds < 1 || f.repeat < 1:
		return "-actors, -rounds and -repeat are 1 or more"
	}
	return ""
}

// report is what -o json prints. A ratio is of steps a second, asynchronous over bulk-synchronous.
type report struct {
	Seed          uint64     `json:"seed"`
	Actors        int        `json:"actors"`
	Episodes      int        `json:"episodes"` // of each way, each time
	AsyncRatio    float64    `json:"async_ratio"`
	Bound         float64    `json:"bound"` // of the ratio, by the lengths that were drawn
	Waiting       comparison `json:"waiting"`
	PendulumRatio float64    `json:"pendulum_ratio"`
	Pendulum      comparison `json:"pendulum"`
}

// run is main without the process.
func (f *flags) run(ctx context.Context, stdout, stderr io.Writer) error {
	r := report{Seed: f.Seed, Actors: f.Actors, Episodes: f.Actors * f.Rounds, Bound: f.bound()}
	var err error
	if r.Waiting, err = f.compare(ctx, f.repeat, "a simulator that waits", stderr); err != nil {
		return err
	}
	onCPU := f.workload
	onCPU.Pendulum = true
	if r.Pendulum, err = onCPU.compare(ctx, f.repeat, "Pendulum", stderr); err != nil {
		return err
	}
	r.AsyncRatio, r.PendulumRatio = r.Waiting.Ratio, r.Pendulum.Ratio
	if f.svg != "" {
		if err := os.WriteFile(f.svg, draw(f.Actors, r.Waiting), 0o644); err != nil {
			return err
		}
	}
	if f.form == "json" {
		return json.NewEncoder(stdout).Encode(r)
	}
	return r.write(stdout)
}

// write reports as text.
func (r *report) write(to io.Writer) error {
	fmt.Fprintf(to, "%d actors, %d episodes of %d to %d steps by seed %d\n", r.Actors, r.Episodes, shortest, longest, r.Seed)
	fmt.Fprintf(to, "%-34s %14s %18s %8s\n", "steps/s", "asynchronous", "bulk-synchronous", "ratio")
	for _, row := range []struct {
		what string
		c    comparison
	}{{fmt.Sprintf("a simulator that waits %v a step", stepWait), r.Waiting}, {"Pendulum, bound by the CPUs", r.Pendulum}} {
		fmt.Fprintf(to, "%-34s %14.0f %18.0f %8.2f\n", row.what, row.c.Async.Rate, row.c.Bulk.Rate, row.c.Ratio)
	}
	_, err := fmt.Fprintf(to, "the lengths allow a ratio of %.2f: the mean of the longest episode of each round over the mean length\n", r.Bound)
	return err
}
