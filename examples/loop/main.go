// Command loop simulates, trains and serves one policy at once: CartPole by PPO, whose newest weights act for a client meanwhile. That is the loop that
// Ray was made for (Moritz et al. 2018, figure 1).
//
//	go run ./examples/loop -svg served.svg
//	RAYSYS_CONSUL=127.0.0.1:8500 go run ./examples/loop -o json     on the workers of a cluster
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
	"strings"

	"github.com/raysys/raysys/system"
)

func main() {
	l := loop{}
	flag.IntVar(&l.Actors, "actors", 4, "that simulate, 2 or more: a run of one is in its caller's goroutine, and shows its weights to no other")
	flag.IntVar(&l.Steps, "steps", 200_000, "of the simulation at most")
	flag.IntVar(&l.Servers, "servers", 3, "that serve the policy")
	flag.Uint64Var(&l.Seed, "seed", 1, "of the run")
	svg := flag.String("svg", "", "file to draw the served return in")
	form := flag.String("o", "text", "form of the report: text or json")
	flag.Parse()
	if *form != "text" && *form != "json" || flag.NArg() > 0 || l.Actors < 2 || l.Steps < 1 || l.Servers < 1 {
		fmt.Fprintln(os.Stderr, "error: -o is text or json, actors are 2 or more, steps and servers 1 or more, and there are no arguments: run with -h for the flags")
		os.Exit(2)
	}
	system.Main(func(ctx context.Context) error { return l.report(ctx, *form == "json", *svg, os.Stdout) })
}

// report runs the loop, draws it where svg names a file, and reports it.
func (l loop) report(ctx context.Context, asJSON bool, svg string, out io.Writer) error {
	o, err := l.run(ctx)
	if err != nil {
		return err
	}
	if svg != "" {
		if err := os.WriteFile(svg, draw(o.Served), 0o644); err != nil {
			return err
		}
	}
	if asJSON {
		err = json.NewEncoder(out).Encode(o)
	} else {
		_, err = fmt.Fprintf(out, "served: %.0f a mean episode of the first tenth, %.0f of the last, of %d episodes by %d versions of the policy\ntrained: mean return %.0f of fresh episodes, %d steps of the simulation\n",
			o.First, o.Last, len(o.Served), o.Versions, o.MeanReturn, o.Steps)
	}
	if err == nil && !o.Solved {
		err = fmt.Errorf("not learned: the mean return is %.0f after %d steps", o.MeanReturn, o.Steps)
	}
	return err
}

// draw is an SVG of the served return over time.
func draw(list []served) []byte {
	const width, height, most = 720, 300, 500
	last := 0.001
	for _, s := range list {
		last = max(last, s.Seconds)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12"><rect width="100%%" height="100%%" fill="white"/>`+"\n", width+60, height+50)
	for at := 0; at <= most; at += 100 {
		y := 10 + height - at*height/most
		fmt.Fprintf(&b, `<line x1="40" y1="%d" x2="%d" y2="%d" stroke="#ddd"/><text x="34" y="%d" text-anchor="end">%d</text>`+"\n", y, width+40, y, y+4, at)
	}
	b.WriteString(`<polyline fill="none" stroke="#4c78a8" points="`)
	for _, s := range list {
		fmt.Fprintf(&b, "%.1f,%.1f ", 40+s.Seconds/last*width, 10+height-s.Return/most*height)
	}
	fmt.Fprintf(&b, "\"/>\n"+`<text x="40" y="%d">return of each episode that a client played by the served policy, over %.1f s of training</text>`+"\n</svg>\n", height+35, last)
	return []byte(b.String())
}
