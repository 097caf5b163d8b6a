package countload

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys/tools/internal/figures"
)

// Line is a system in a table, with keys or without.
type Line struct {
	Name  string
	Keyed bool
	Ours  bool // it is compared with the others

	parts map[string][]Result // by the part's name, a Result a round
}

// Add adds a Result of the next round.
func (l *Line) Add(r Result) {
	if l.parts == nil {
		l.parts = map[string][]Result{}
	}
	l.parts[r.Part] = append(l.parts[r.Part], r)
}

// list returns a figure of a part, of all rounds.
func (l *Line) list(part string, figure func(Result) float64) (list []float64) {
	for _, r := range l.parts[part] {
		list = append(list, figure(r))
	}
	return list
}

func rateOf(r Result) float64 { return r.Rate }

// Table compares systems. A system without keys stands right before itself with keys.
type Table struct {
	Lines   []*Line
	Loads   []string      // of the machine before each round
	Each    time.Duration // the time of a part
	Skipped []string      // sentences, on systems that are not there
}

// OrderRound returns the order of n lines in a round: every second round has them the other way round.
func OrderRound(round, n int) (order []int) {
	for i := range n {
		order = append(order, i)
	}
	if round%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

// bestPeer returns the rate of the best peer in each round of a part; nil without peers.
func (t *Table) bestPeer(part string, keyed bool) (best []float64) {
	for _, l := range t.Lines {
		if l.Ours || l.Keyed != keyed {
			continue
		}
		for i, rate := range l.list(part, rateOf) {
			if i == len(best) {
				best = append(best, 0)
			}
			best[i] = max(best[i], rate)
		}
	}
	return best
}

// ratio is figures.Ratio; "" where there is nothing to divide by.
func ratio(of, to []float64) string {
	if len(of) == 0 || len(to) != len(of) || slices.Min(to) == 0 {
		return ""
	}
	return figures.Ratio(of, to)
}

// String is the table in Markdown.
func (t *Table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; medians of %d rounds, %v a part; the load before each round was %s.",
		figures.Here(), len(t.Loads), t.Each, strings.Join(t.Loads, ", "))
	for _, s := range t.Skipped {
		b.WriteString(" " + s)
	}
	b.WriteString("\n\n| callers | side | calls/s | p50, p99 | CPU a call | written to the disks a call " +
		"| ratio to the best peer, least and most of a round | to itself without keys |\n" +
		"|" + strings.Repeat("---|", 8) + "\n")
	for _, p := range allParts {
		for _, keyed := range []bool{false, true} {
			for i, l := range t.Lines {
				if l.Keyed == keyed {
					t.writeRow(&b, p.name, i)
				}
			}
		}
	}
	return b.String()
}

// writeRow writes a part of a line.
func (t *Table) writeRow(b *strings.Builder, part string, i int) {
	l := t.Lines[i]
	of := func(figure func(Result) float64) float64 { return figures.Median(l.list(part, figure)) }
	p50, p99 := of(func(r Result) float64 { return r.P50 }), of(func(r Result) float64 { return r.P99 })
	cpu, bytes := of(func(r Result) float64 { return r.CPU }), of(func(r Result) float64 { return r.Bytes })
	rates := l.list(part, rateOf)
	name, peers, plain, failed := l.Name, "", "", ""
	if l.Keyed {
		name, plain = name+", keys", ratio(rates, t.Lines[i-1].list(part, rateOf))
	}
	if l.Ours {
		peers = ratio(rates, t.bestPeer(part, l.Keyed))
	}
	if n := of(func(r Result) float64 { return float64(r.Failed) }); n > 0 {
		failed = fmt.Sprintf(", %.0f calls failed", n)
	}
	fmt.Fprintf(b, "| %s | %s | %.0f%s | %s, %s ms | %.0f us | %.0f B | %s | %s |\n", part, name, of(rateOf), failed,
		threeDigits(p50), threeDigits(p99), cpu, bytes, peers, plain)
}

// threeDigits is a number with three digits, or all that stand before the point.
func threeDigits(f float64) string {
	if f >= 100 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.3g", f)
}

// Wrong is an error with each Result that is Wrong; nil without one.
func (t *Table) Wrong() error {
	var errs []error
	for _, l := range t.Lines {
		for _, p := range allParts {
			for round, r := range l.parts[p.name] {
				if r.Wrong != "" {
					where := fmt.Sprintf("%s, keys %t, callers %s, round %d", l.Name, l.Keyed, p.name, round+1)
					errs = append(errs, fmt.Errorf("%s: %s", where, r.Wrong))
				}
			}
		}
	}
	return errors.Join(errs...)
}
