package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Sizes of the drawing, in pixels.
const (
	labelWidth = 150
	plotWidth  = 1000
	rowHeight  = 22
	barHeight  = 16
	titleSpace = 30
)

var colors = map[string]string{"rollout": "#4c78a8", "update": "#e45756"}

// draw writes an SVG with a row for each node of each run, and a bar for each piece of work where and when it ran.
func draw(to io.Writer, names []string, runs map[string][]span) error {
	var b strings.Builder
	height := titleSpace
	for _, name := range names {
		height += titleSpace + rowHeight*len(nodesOf(runs[name]))
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", labelWidth+plotWidth+20, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	y := 0
	for _, name := range names {
		y += titleSpace
		y = drawRun(&b, name, runs[name], y)
	}
	x := labelWidth
	for _, work := range []string{"rollout", "update"} {
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="12" height="12" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n", x, height-20, colors[work], x+18, height-10, work)
		x += 100
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(to, b.String())
	return err
}

// nodesOf are those of a run, by name.
func nodesOf(spans []span) (list []string) {
	for _, s := range spans {
		if n := string(s.Node); !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list
}

// drawRun draws one below y and returns where it ends.
func drawRun(b *strings.Builder, name string, spans []span, y int) int {
	if len(spans) == 0 {
		return y
	}
	from, to := spans[0].From, spans[0].To
	for _, s := range spans {
		if s.From.Before(from) {
			from = s.From
		}
		if s.To.After(to) {
			to = s.To
		}
	}
	whole := max(to.Sub(from), time.Microsecond)
	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold">%s: %.0f ms</text>`+"\n", 10, y-8, name, whole.Seconds()*1000)
	nodes := nodesOf(spans)
	for i, n := range nodes {
		top := y + i*rowHeight
		fmt.Fprintf(b, `<text x="10" y="%d">%s</text><line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#ddd"/>`+"\n", top+13, escaped(n), labelWidth, top+rowHeight-3, labelWidth+plotWidth, top+rowHeight-3)
	}
	for _, s := range spans {
		scale := float64(plotWidth) / float64(whole)
		x, width := float64(s.From.Sub(from))*scale, max(float64(s.busy())*scale, 0.5)
		fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"><title>%s of iteration %d, %.2f ms</title></rect>`+"\n",
			labelWidth+x, y+slices.Index(nodes, string(s.Node))*rowHeight, width, barHeight, colors[s.Work], s.Work, s.Iteration, s.busy().Seconds()*1000)
	}
	return y + len(nodes)*rowHeight
}

func escaped(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
