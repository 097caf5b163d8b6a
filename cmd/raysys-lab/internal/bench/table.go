package bench

import (
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// Printer writes the table line by line, as rows are measured. Its columns are as wide as the names need, which is why
// it is told the rows beforehand.
type Printer struct {
	w     io.Writer
	names int
}

// NewPrinter returns a printer for rows of these names.
func NewPrinter(w io.Writer, names []string) *Printer {
	p := &Printer{w: w, names: len("row")}
	for _, n := range names {
		p.names = max(p.names, len(n))
	}
	return p
}

// Head writes the titles.
func (p *Printer) Head() error {
	return p.line("row", "value", "p50", "p99", "max", "raw", "ratio", "raw limit")
}

// Row writes one result.
func (p *Printer) Row(r Result) error {
	return p.line(r.Row, amount(r.Value, r.Unit), duration(r.P50), duration(r.P99), duration(r.Max),
		amount(r.LimitValue, r.Unit), fmt.Sprintf("%.3g", r.Ratio), r.Limit)
}

func (p *Printer) line(name, value, p50, p99, most, raw, ratio, limit string) error {
	_, err := fmt.Fprintf(p.w, "%-*s %10s %9s %9s %9s %10s %7s  %s\n", p.names, name, value, p50, p99, most, raw, ratio, limit)
	return err
}

// amount shows a value for people. The unit of a rate is left to the row's name.
func amount(v float64, u Unit) string {
	switch u {
	case Latency, Tail:
		return duration(&v)
	case Bytes:
		switch {
		case v >= 1<<20:
			return short(v/(1<<20)) + " MiB"
		case v >= 10<<10:
			return short(v/(1<<10)) + " KiB"
		}
		return short(v) + " B"
	}
	if u == GigabytesPerSecond {
		if v >= 1000 {
			return short(v/1000) + " TB/s"
		}
		return short(v) + " GB/s"
	}
	switch {
	case v >= 1e6:
		return short(v/1e6) + "M/s"
	case v >= 1e4:
		return short(v/1e3) + "k/s"
	}
	return short(v) + "/s"
}

// duration shows microseconds; nothing was timed when us is nil.
func duration(us *float64) string {
	switch {
	case us == nil:
		return "-"
	case *us >= 1e6:
		return short(*us/1e6) + " s"
	case *us >= 1e3:
		return short(*us/1e3) + " ms"
	}
	return short(*us) + " us"
}

// short keeps three figures of numbers below a thousand.
func short(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	s := fmt.Sprintf("%.3g", v)
	if strings.Contains(s, "e") { // below 0.0001: as good as nothing
		return "0"
	}
	return s
}

// Pending is a row that this version cannot measure.
type Pending struct {
	Name string
	Tier Tier
	Why  string // the feature that it needs, to follow "it"
}

func (p Pending) String() string { return p.Name + " (" + p.Why + ")" }

// pending lists the rows that need features which raysys does not have yet.
func pending() []Pending {
	return []Pending{
		{"returns_3k", InProcess, "is not written yet"},
		{"placement_group", InProcess, "comes with bundles"},
	}
}

// SelectionError says that a row, tier or child that was asked for does not exist, and names those that do.
type SelectionError struct{ text string }

func (e *SelectionError) Error() string { return e.text }

// Select returns the rows of these names, in the table's order; when names is empty all of them, but for those that want
// to be named.
func Select(names []string, tier Tier) ([]Row, error) {
	if !slices.Contains(Tiers(), tier) {
		return nil, &SelectionError{fmt.Sprintf("tier %q does not exist: use --tier in-process or --tier cross-process", tier)}
	}
	all := Rows(tier)
	if len(names) == 0 {
		return slices.DeleteFunc(all, func(r Row) bool { return r.Named }), nil
	}
	names = slices.Clone(names)
	for i := range names {
		names[i] = strings.TrimSpace(names[i]) // people write "a, b"
		if err := find(names[i], tier); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(all, func(r Row) bool { return !slices.Contains(names, r.Name) }), nil
}

// find returns why a name is of no row in the tier, and says where the row is.
func find(name string, tier Tier) error {
	if has(name, tier) {
		return nil
	}
	for _, t := range Tiers() {
		if has(name, t) {
			return &SelectionError{fmt.Sprintf("row %s is measured in another tier: use --tier %s", name, t)}
		}
	}
	for _, t := range Tiers() {
		later := Later(t)
		if at := slices.IndexFunc(later, func(p Pending) bool { return p.Name == name }); at >= 0 {
			return &SelectionError{fmt.Sprintf("row %s cannot be measured yet: it %s; raysys-lab bench --help lists the rows there are",
				name, later[at].Why)}
		}
	}
	return &SelectionError{fmt.Sprintf("row %q does not exist: use --row with %s", name, strings.Join(Names(Rows(tier)), ", "))}
}

func has(name string, tier Tier) bool {
	return slices.ContainsFunc(Rows(tier), func(r Row) bool { return r.Name == name })
}

// Names lists the names of rows.
func Names(rows []Row) []string {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Name
	}
	return names
}

// hist counts durations in buckets that are at most 1/128 of their value wide: constant memory, and no allocation
// while something is being measured.
type hist struct {
	counts [histBuckets]uint64
	n      uint64
	max    time.Duration
}

const (
	histBits    = 7
	histSub     = 1 << histBits
	histBuckets = (64 - histBits) * histSub
)

func histIndex(d time.Duration) int {
	v := uint64(max(d, 0))
	shift := bits.Len64(v) - histBits - 1
	if shift <= 0 {
		return int(v)
	}
	return shift*histSub + int(v>>shift)
}

// histMiddle is the middle of bucket i.
func histMiddle(i int) time.Duration {
	shift := i/histSub - 1
	if shift <= 0 {
		return time.Duration(i)
	}
	low := uint64(i%histSub+histSub) << shift
	return time.Duration(low + 1<<shift/2)
}

func (h *hist) add(d time.Duration) {
	h.counts[histIndex(d)]++
	h.n++
	h.max = max(h.max, d)
}

func (h *hist) merge(o *hist) {
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.n += o.n
	h.max = max(h.max, o.max)
}

// quantile returns the duration that a share q of the durations does not exceed; 0 when there are none.
func (h *hist) quantile(q float64) time.Duration {
	rank := uint64(q * float64(h.n))
	var seen uint64
	for i, c := range h.counts {
		if seen += c; seen > rank {
			return min(histMiddle(i), h.max)
		}
	}
	return h.max
}

// us is a duration in microseconds.
func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
