package plot

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// colors are told apart by people who see fewer colors: those of Okabe and Ito, and two more. After the last the first comes again.
var colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a4fbf", "#8c6d31"}

const (
	ink   = `fill="#222222"`
	faint = `fill="#666666"`

	anchorMiddle, anchorEnd = ` text-anchor="middle"`, ` text-anchor="end"`
)

// drawing is an SVG that is being written.
type drawing struct{ b strings.Builder }

// newDrawing begins one. A white background of its own makes it readable in dark viewers.
func newDrawing(width, height int, title string) *drawing {
	d := &drawing{}
	d.put(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="Helvetica, Arial, sans-serif">`, width, height, width, height)
	d.put(`<rect width="100%%" height="100%%" fill="#ffffff"/>`)
	d.text((frameLeft+frameRight)/2, frameTop-14, 15, ink+anchorMiddle, title)
	return d
}

func (d *drawing) end() []byte {
	d.put("</svg>")
	return []byte(d.b.String())
}

func (d *drawing) put(format string, args ...any) { fmt.Fprintf(&d.b, format+"\n", args...) }

func (d *drawing) text(x, y float64, size int, style, s string) {
	if s != "" {
		d.put(`<text x="%.1f" y="%.1f" font-size="%d" %s>%s</text>`, x, y, size, style, escape(shorten(s, 90)))
	}
}

func (d *drawing) line(x1, y1, x2, y2 float64, style string) {
	d.put(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`, x1, y1, x2, y2, style)
}

// frame draws the axes with their ticks.
func (d *drawing) frame(x, y *axis, evaluated bool) {
	const grid, edge = `stroke="#e4e4e4"`, `stroke="#222222"`
	at, text := x.ticks(6)
	for _, v := range at {
		p := x.pixel(v)
		d.line(p, frameTop, p, frameBottom, grid)
		d.line(p, frameBottom, p, frameBottom+5, edge)
		d.text(p, frameBottom+19, 12, ink+anchorMiddle, text(v))
	}
	at, text = y.ticks(6)
	for _, v := range at {
		p := y.pixel(v)
		d.line(frameLeft, p, frameRight, p, grid)
		d.line(frameLeft-5, p, frameLeft, p, edge)
		d.text(frameLeft-9, p+4, 12, ink+anchorEnd, text(v))
	}
	d.line(frameLeft, frameTop, frameLeft, frameBottom, edge)
	d.line(frameLeft, frameBottom, frameRight, frameBottom, edge)
	d.text((frameLeft+frameRight)/2, frameBottom+40, 13, ink+anchorMiddle, "environment steps")
	label := "mean return of training"
	if evaluated {
		label = "mean return of fresh episodes"
	}
	d.text(0, 0, 13, fmt.Sprintf(`%s%s transform="translate(18 %d) rotate(-90)"`, ink, anchorMiddle, (frameTop+frameBottom)/2), label)
}

// levels draws lines through the plot, and their labels beside it, which do not cover each other.
func (d *drawing) levels(list []Level, y *axis) {
	const apart = 14
	slices.SortStableFunc(list, func(a, b Level) int { return cmp.Compare(b.At, a.At) })
	last := float64(frameTop - apart)
	for _, l := range list {
		p, dashes := y.pixel(l.At), `stroke-dasharray="8 5"`
		if l.Dotted {
			dashes = `stroke-dasharray="0.1 5" stroke-linecap="round"`
		}
		d.line(frameLeft, p, frameRight, p, `stroke="#444444" stroke-width="1.5" `+dashes)
		last = max(p, last+apart)
		d.text(frameRight+8, last+4, 12, ink, shorten(l.Label, 22))
	}
}

func (d *drawing) curve(c *curve, x, y *axis, color string) {
	path := func(values []float64) []string {
		points := make([]string, len(values))
		for i, v := range values {
			points[i] = fmt.Sprintf("%.1f,%.1f", x.pixel(c.x[i]), y.pixel(v))
		}
		return points
	}
	if len(c.seeds) > 1 && len(c.x) > 1 {
		back := path(c.low)
		slices.Reverse(back)
		d.put(`<polygon points="%s" fill="%s" fill-opacity="0.18"/>`, strings.Join(append(path(c.high), back...), " "), color)
	}
	switch line := path(c.mean); len(line) {
	case 0:
	case 1:
		d.dot(xy{c.x[0], c.mean[0]}, x, y, color)
	default:
		d.put(`<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-linejoin="round"/>`, strings.Join(line, " "), color)
	}
	for _, p := range c.dots {
		d.dot(p, x, y, color)
	}
}

func (d *drawing) dot(p xy, x, y *axis, color string) {
	d.put(`<circle cx="%.1f" cy="%.1f" r="3" fill="%s" stroke="#ffffff"/>`, x.pixel(p.x), y.pixel(p.y), color)
}

func (d *drawing) legend(c *curve, y float64, color string) {
	if len(c.seeds) > 1 {
		d.put(`<rect x="%d" y="%.1f" width="28" height="12" fill="%s" fill-opacity="0.18"/>`, frameLeft, y-10, color)
	}
	d.line(frameLeft, y-4, frameLeft+28, y-4, fmt.Sprintf(`stroke="%s" stroke-width="2"`, color))
	d.text(frameLeft+36, y, 12, ink, c.legend())
}

// escape is s as XML has it.
func escape(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(s)) // the builder takes all
	return b.String()
}

// shorten keeps the first letters of what is too long for its place.
func shorten(s string, letters int) string {
	if r := []rune(s); len(r) > letters {
		return string(r[:letters-1]) + "…"
	}
	return s
}
