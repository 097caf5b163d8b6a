package main

import (
	"fmt"
	"io"
	"strings"
)

// Sizes of the drawing, in pixels.
const (
	width, height = 640, 360
	margin        = 56
)

// drawLoads writes an SVG with p50 and p99 over the load, and the share of requests that were refused as bars.
func drawLoads(to io.Writer, points []point) error {
	top, right := 1.0, 1.0
	for _, p := range points {
		top, right = max(top, p.P99*1.1), max(right, p.Load*1.05)
	}
	x := func(load float64) float64 { return margin + load/right*(width-2*margin) }
	y := func(ms float64) float64 { return height - margin - ms/top*(height-2*margin) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/><text x="%d" y="24">latency over HTTP by load</text>`+"\n", margin)
	for i := range 6 {
		ms, load := top*float64(i)/5, right*float64(i)/5
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.0f ms</text>`, margin, width-margin, y(ms), y(ms), margin-6, y(ms)+4, ms)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%.2f</text>`+"\n", x(load), height-margin+18, load)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">requests a second, over what the model can do alone</text>`+"\n", width/2, height-12)
	for _, p := range points {
		if p.Refused > 0 {
			fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="12" height="%.1f" fill="#bbb"><title>%.1f %% refused</title></rect>`+"\n", x(p.Load)-6, y(top*p.Refused), y(0)-y(top*p.Refused), 100*p.Refused)
		}
	}
	for i, c := range []struct {
		name, color string
		of          func(point) float64
	}{
		{"p50", "#4c78a8", func(p point) float64 { return p.P50 }},
		{"p99", "#e45756", func(p point) float64 { return p.P99 }},
		{"429 (of all requests: the top is 100 %)", "#bbb", nil},
	} {
		at := margin + 80*i
		fmt.Fprintf(&b, `<rect x="%d" y="34" width="12" height="12" fill="%s"/><text x="%d" y="44">%s</text>`+"\n", at, c.color, at+18, c.name)
		if c.of == nil {
			continue
		}
		var line []string
		for _, p := range points {
			line = append(line, fmt.Sprintf("%.1f,%.1f", x(p.Load), y(c.of(p))))
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"><title>load %.2f: %s %.1f ms</title></circle>`+"\n", x(p.Load), y(c.of(p)), c.color, p.Load, c.name, c.of(p))
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(line, " "), c.color)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(to, b.String())
	return err
}
