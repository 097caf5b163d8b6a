// Command serve puts policies behind HTTP: requests gather in batches (grains.Batch), versions of a model share the traffic by weights, and a new
// one takes over without a request lost. It measures two models as Ray's paper does (OSDI 2018, table 3), each beside itself alone in a loop.
//
//	go run ./examples/serve -svg load.svg                               measures, in one process
//	go run ./examples/serve -addr 127.0.0.1:8080                        serves, until it is interrupted
//	head -c 4096 /dev/zero | curl --data-binary @- 127.0.0.1:8080/models/small
//	curl -X PUT -d '{"v1": 90, "v2": 10}' 127.0.0.1:8080/models/small/traffic
//	RAYSYS_CONSUL=127.0.0.1:8500 go run ./examples/serve                on the nodes of a cluster
//
// The report goes to standard output, and progress to standard error. Exit codes: 0 ok, 1 failed or interrupted, 2 usage.
//
// The models stand for nets on accelerators: a batch takes its time whatever is in it, and no CPU. Callers and model share a process or a
// host, as in the paper. The load is sent over HTTP.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/raysys/raysys/system"
)

// wanted is what the flags say.
type wanted struct {
	seed            uint64
	rounds, batches int
	length          time.Duration // of each load
	form, svg, addr string
}

func define(set *flag.FlagSet) *wanted {
	w := &wanted{}
	set.Uint64Var(&w.seed, "seed", 1, "of the policies, the observations and the times of requests")
	set.IntVar(&w.rounds, "rounds", 5, "of each measurement, of which the median counts")
	set.IntVar(&w.batches, "batches", 100, "in a round, of each node")
	set.DurationVar(&w.length, "length", time.Second, "of each load over HTTP")
	set.StringVar(&w.form, "o", "text", "form of the report: text or json")
	set.StringVar(&w.svg, "svg", "", "file to draw the latencies in")
	set.StringVar(&w.addr, "addr", "", "address to serve at, in place of measuring")
	return w
}

// check says what is wrong with the flags.
func (w *wanted) check(args []string) error {
	switch {
	case len(args) > 0:
		return fmt.Errorf("serve takes no argument, and was given %q", args[0])
	case w.rounds < 1 || w.batches < 4 || w.length <= 0:
		return errors.New("rounds are 1 or more, batches 4 or more, the length above zero")
	case w.form != "text" && w.form != "json":
		return fmt.Errorf("-o is text or json, and was given %q", w.form)
	}
	return nil
}

func main() {
	w := define(flag.CommandLine)
	flag.Parse()
	if err := w.check(flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v: run with -h for the flags\n", err)
		os.Exit(2)
	}
	system.Main(func(ctx context.Context) error {
		if w.addr != "" {
			return w.serve(ctx)
		}
		return w.measure(ctx, os.Stdout, os.Stderr)
	})
}

// The models of the paper: how long a batch takes, and how large an observation is.
func (w wanted) small(version string, seed uint64) release {
	return draw("small", version, 10*time.Millisecond, 4096/4, w.seed+seed)
}

func (w wanted) large(version string, seed uint64) release {
	return draw("large", version, 5*time.Millisecond, 100*1024/4, w.seed+seed)
}

// serve serves both models until ctx ends. Two versions of each can be asked for; v1 has the traffic.
func (w wanted) serve(ctx context.Context) error {
	for _, r := range []release{w.small("v2", 1), w.small("v1", 0), w.large("v2", 1), w.large("v1", 0)} {
		if err := deploy(ctx, r, traffic{r.Version: 1}); err != nil {
			return err
		}
	}
	return system.Serve(ctx, w.addr, newFront(w.seed).handler())
}

// report is what -o json prints.
type report struct {
	SmallRatio float64    `json:"small_ratio"`
	LargeRatio float64    `json:"large_ratio"`
	Seed       uint64     `json:"seed"`
	Batch      int        `json:"batch"`
	Small      throughput `json:"small"`
	Large      throughput `json:"large"`
	Loads      []point    `json:"loads"`
	Paper      claims     `json:"paper"`
}

// claims are the paper's own figures, of its machine: throughput over what batches of 64 allow, for Ray and for Clipper over REST.
type claims struct {
	SmallRay     float64 `json:"small_ray"`
	LargeRay     float64 `json:"large_ray"`
	SmallClipper float64 `json:"small_clipper"`
	LargeClipper float64 `json:"large_clipper"`
}

var paper = claims{0.97, 0.54, 0.69, 0.02}

// measure makes the report.
func (w wanted) measure(ctx context.Context, stdout, stderr io.Writer) error {
	small, large := w.small("v1", 0), w.large("v1", 0)
	for _, r := range []release{small, large} {
		if err := deploy(ctx, r, traffic{r.Version: 1}); err != nil {
			return err
		}
	}
	r := report{Seed: w.seed, Batch: batchSize, Paper: paper}
	var err error
	if r.Small, err = compare(ctx, small, w.rounds, w.batches, w.seed, stderr); err != nil {
		return err
	}
	if r.Large, err = compare(ctx, large, w.rounds, w.batches, w.seed, stderr); err != nil {
		return err
	}
	r.SmallRatio, r.LargeRatio = r.Small.Ratio, r.Large.Ratio
	loads, err := loads(ctx, newFront(w.seed), small, r.Small.Ceiling, []float64{0.1, 0.25, 0.5, 0.75, 0.9, 1.2}, w.length, w.seed, stderr)
	if err != nil {
		return err
	}
	r.Loads = loads
	if w.svg != "" {
		var b bytes.Buffer
		if err := drawLoads(&b, loads); err != nil {
			return err
		}
		if err := os.WriteFile(w.svg, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if w.form == "json" {
		return json.NewEncoder(stdout).Encode(r)
	}
	return r.print(stdout)
}

// print writes the report as text.
func (r report) print(to io.Writer) (err error) {
	line := func(format string, args ...any) {
		_, e := fmt.Fprintf(to, format+"\n", args...)
		err = cmp.Or(err, e)
	}
	line("%-28s %12s %12s %8s   %s", "model, batches of 64", "alone/s", "served/s", "ratio", "the paper's: Ray, Clipper")
	line("%-28s %12.0f %12.0f %8.3f   %.2f, %.2f", "small: 10 ms, 4 KB", r.Small.Ceiling, r.Small.Rate, r.SmallRatio, r.Paper.SmallRay, r.Paper.SmallClipper)
	line("%-28s %12.0f %12.0f %8.3f   %.2f, %.2f", "large: 5 ms, 100 KB", r.Large.Ceiling, r.Large.Rate, r.LargeRatio, r.Paper.LargeRay, r.Paper.LargeClipper)
	line("nodes that serve: %d. Over HTTP, small model:", r.Small.Nodes)
	for _, p := range r.Loads {
		line("  load %.2f: %6.0f answered/s, p50 %6.1f ms, p99 %6.1f ms, refused %4.1f %%", p.Load, p.Rate, p.P50, p.P99, 100*p.Refused)
	}
	return err
}
