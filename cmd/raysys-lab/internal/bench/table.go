package bench

import (
	"fmt"
	"io"
	"strings"
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

// Table writes a whole table.
func Table(w io.Writer, results []Result) error {
	names := make([]string, len(results))
	for i, r := range results {
		names[i] = r.Row
	}
	p := NewPrinter(w, names)
	if err := p.Head(); err != nil {
		return err
	}
	for _, r := range results {
		if err := p.Row(r); err != nil {
			return err
		}
	}
	return nil
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
