package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/tools/internal/figures"
)

// vector is how many environments a vector of gymnasium has.
const vector = 64

// ours are the names of our rows, by goroutines.
var ours = []string{"raysys, one goroutine", "raysys, two goroutines"}

// stepping returns the steps a second of so many goroutines, each with an environment of its own.
func stepping(goroutines int) float64 {
	steps, begun := make(chan int), time.Now()
	for i := range goroutines {
		go func() {
			env, n := envs.CartPole(uint64(i)+1), 0
			env.Reset()
			for time.Since(begun) < *lasts {
				for range 1000 {
					n++
					if s := env.Step(n & 1); s.Done() {
						env.Reset()
					}
				}
			}
			steps <- n
		}()
	}
	sum := 0
	for range goroutines {
		sum += <-steps
	}
	return float64(sum) / time.Since(begun).Seconds()
}

// stepsTable has a row for each name, the fastest first.
func stepsTable(rates map[string][]float64) string {
	names := slices.SortedFunc(maps.Keys(rates), func(a, b string) int { return int(figures.Median(rates[b]) - figures.Median(rates[a])) })
	best := names[slices.IndexFunc(names, func(name string) bool { return !slices.Contains(ours, name) })]
	var b strings.Builder
	b.WriteString("| CartPole alone | steps/s | ratio to the fastest of gymnasium, least and most of a round |\n|---|---|---|\n")
	for _, name := range names {
		fmt.Fprintf(&b, "| %s | %.3g M/s | %s |\n", name, figures.Median(rates[name])/1e6, figures.Ratio(rates[name], rates[best]))
	}
	return b.String()
}
