// Command benchreverb measures package replay beside Reverb: items of 1 KiB that one process inserts into a table of another, and samples
// from there. All are measured in turn, so that they meet the same machine.
//
//	make bench-reverb
//
//	this process                                           one process each
//	replay.Client on a driver: Insert, Writer, Sampler ──► raysys worker: a shard of replay
//	bare TCP, in pieces as large as replay's batches ────► the same worker
//	peer.py client: writers and datasets of Reverb ──────► peer.py server: reverb.Server
//
// Each turn has new processes and a new table: Prioritized(0.6), the oldest item goes, MinSize(1). The bytes are random, because Reverb
// compresses them. Each library inserts and samples in more than one way; a ratio is to the fastest way of Reverb.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys/internal/consulserver"
)

var (
	turns    = flag.Int("rounds", 5, "how often each is measured")
	lasts    = flag.Duration("for", 2*time.Second, "how long each measurement lasts")
	python   = flag.String("python", "python3", "a Python that has Reverb")
	document = flag.String("doc", "", "write the table between its marks in this file too")
)

func main() {
	flag.Parse()
	run := measure
	if flag.Arg(0) == "host" { // a process that launch started
		run = func(ctx context.Context) error { return host(ctx, flag.Arg(1), flag.Arg(2)) }
	}
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// figures are items/s of each turn, by what was done: "insert Writer".
type figures map[string][]float64

func (f figures) add(name string, rate float64) { f[name] = append(f[name], rate) }

// ways are the ways in which something was done, the fastest first.
func (f figures) ways(what string) (list []string) {
	for name := range f {
		if strings.HasPrefix(name, what+" ") {
			list = append(list, name)
		}
	}
	slices.SortFunc(list, func(a, b string) int { return int(median(f[b]) - median(f[a])) })
	return list
}

func measure(ctx context.Context) error {
	consul, err := consulserver.Run(ctx, consulserver.Options{Disk: true})
	if err != nil {
		return err
	}
	defer consul.Close()
	our, their := figures{}, figures{}
	for i := range *turns {
		fmt.Fprintf(os.Stderr, "round %d of %d, load %s\n", i+1, *turns, load())
		sides := []func() error{
			func() error { return ours(ctx, consul.Address(), i, our) },
			func() error { return reverb(their) },
		}
		for k := range sides {
			if err := sides[(i+k)%len(sides)](); err != nil {
				return err
			}
		}
	}
	made := table(our, their)
	fmt.Print(made)
	if *document == "" {
		return nil
	}
	return write(*document, made)
}

func table(our, their figures) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d CPUs, %s; medians of %d turns, %v for each figure.\n\n", time.Now().Format(time.DateOnly), runtime.NumCPU(), runtime.Version(), *turns, *lasts)
	b.WriteString("| items of 1 KiB, between two processes | items/s | ratio to the fastest of Reverb, least and most of a turn |\n|---|---|---|\n")
	for _, what := range []string{"insert", "sample"} {
		base := their[their.ways(what)[0]]
		for _, side := range []struct {
			name string
			f    figures
		}{{"raysys", our}, {"Reverb", their}} {
			for _, way := range side.f.ways(what) {
				fmt.Fprintf(&b, "| %s: %s %s | %.1f k/s | %s |\n", what, side.name, way[len(what)+1:], median(side.f[way])/1e3, ratio(side.f[way], base))
			}
		}
	}
	fmt.Fprintf(&b, "| bare TCP, in pieces of %d items | %.1f k/s | |\n", piece/size, median(our[raw])/1e3)
	return b.String()
}

// write puts the table into a document, between the marks.
func write(file, made string) error {
	const begin, end = "<!-- begin bench-reverb -->\n", "<!-- end bench-reverb -->"
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no lines %s and %s: put them where the table belongs", file, strings.TrimSpace(begin), end)
	}
	return os.WriteFile(file, []byte(before+begin+made+end+after), 0o644)
}

func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(b))[0]
}

// ratio is the median of the turns, the least and the most.
func ratio(of, to []float64) string {
	l := make([]float64, len(of))
	for i := range of {
		l[i] = of[i] / to[i]
	}
	return fmt.Sprintf("%.2f, %.2f to %.2f", median(l), slices.Min(l), slices.Max(l))
}

func median(list []float64) float64 {
	s := slices.Sorted(slices.Values(list))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
