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
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/tools/internal/figures"
)

var (
	turns  = flag.Int("rounds", 5, "how often each is measured")
	lasts  = flag.Duration("for", 2*time.Second, "how long each measurement lasts")
	python = flag.String("python", "python3", "a Python that has Reverb")
)

func main() { figures.Main(measure, host) }

// rates are items/s of each turn, by what was done: "insert Writer".
type rates map[string][]float64

func (f rates) add(name string, rate float64) { f[name] = append(f[name], rate) }

// ways are the ways in which something was done, the fastest first.
func (f rates) ways(what string) (list []string) {
	for name := range f {
		if strings.HasPrefix(name, what+" ") {
			list = append(list, name)
		}
	}
	slices.SortFunc(list, func(a, b string) int { return int(figures.Median(f[b]) - figures.Median(f[a])) })
	return list
}

func measure(ctx context.Context) error {
	consul, err := consulserver.Run(ctx, consulserver.Options{Disk: true})
	if err != nil {
		return err
	}
	defer consul.Close()
	our, their := rates{}, rates{}
	_, err = figures.InTurn(*turns, 2, func(turn, side int) error {
		if side == 0 {
			return ours(ctx, consul.Address(), turn, our)
		}
		return reverb(their)
	})
	if err != nil {
		return err
	}
	return figures.Publish("bench-reverb", table(our, their))
}

func table(our, their rates) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; medians of %d turns, %v for each figure.\n\n", figures.Here(), *turns, *lasts)
	b.WriteString("| items of 1 KiB, between two processes | items/s | ratio to the fastest of Reverb, least and most of a turn |\n|---|---|---|\n")
	for _, what := range []string{"insert", "sample"} {
		base := their[their.ways(what)[0]]
		for _, side := range []struct {
			name string
			f    rates
		}{{"raysys", our}, {"Reverb", their}} {
			for _, way := range side.f.ways(what) {
				fmt.Fprintf(&b, "| %s: %s %s | %.1f k/s | %s |\n", what, side.name, way[len(what)+1:], figures.Median(side.f[way])/1e3, figures.Ratio(side.f[way], base))
			}
		}
	}
	fmt.Fprintf(&b, "| bare TCP, in pieces of %d items | %.1f k/s | |\n", piece/size, figures.Median(our[raw])/1e3)
	return b.String()
}
