package main

import (
	"fmt"
	"strings"
	"time"
)

// draw is an SVG with a row for each actor of each way, and a bar for each of its episodes: as much time as ten of the longest take, on one scale.
func draw(actors int, c comparison) []byte {
	const left, width, row, title = 70, 1000, 16, 28
	shown := 10 * longest * stepWait
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12"><rect width="100%%" height="100%%" fill="white"/>`+"\n",
		left+width+10, 2*(title+actors*row)+title)
	y := 0
	for _, part := range []struct {
		name string
		way
	}{{"asynchronous", c.Async}, {"bulk-synchronous", c.Bulk}} {
		y += title
		fmt.Fprintf(&b, `<text x="10" y="%d" font-weight="bold">%s: %.0f steps/s</text>`+"\n", y-8, part.name, part.Rate)
		for i := range actors {
			fmt.Fprintf(&b, `<text x="10" y="%d">actor %d</text>`+"\n", y+i*row+11, i)
		}
		for _, s := range part.spans {
			if s.from >= shown {
				continue
			}
			x := float64(s.from) / float64(shown) * width
			fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#4c78a8" stroke="white" stroke-width="0.5"><title>%d steps, %v</title></rect>`+"\n",
				left+x, y+s.actor*row, float64(min(s.to, shown))/float64(shown)*width-x, row-4, s.steps, (s.to - s.from).Round(10*time.Microsecond))
		}
		y += actors * row
	}
	fmt.Fprintf(&b, `<text x="10" y="%d">the first %v of each; a gap is an actor that waits</text>`+"\n</svg>\n", y+18, shown)
	return []byte(b.String())
}
