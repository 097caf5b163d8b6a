package rl

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	live "github.com/raysys/raysys/progress"
)

const (
	redraw   = 100 * time.Millisecond // between two drawings of the live line
	rateOver = time.Second            // that steps per second are measured over
	unlooked = 64                     // calls between two looks at the clock: it costs as much as a step of a small environment
)

// progress says how a run goes: on a terminal by a line that is drawn again and again, elsewhere by a line for each Point.
type progress struct {
	line   *live.Line
	name   string
	steps  int
	random float64
	now    func() time.Time

	skip          int       // calls until the next look at the clock
	looked, drawn time.Time // the last times
	last          Point     // that was looked at
	evaluated     float64   // the last that was measured

	since   time.Time // when the window began, at sinceAt steps
	sinceAt int
	rate    float64 // steps per second of the last window that is whole
}

func newProgress(name string, p *Plan, random float64) *progress {
	line := live.NewLine(p.Progress)
	if p.Progress == nil && !line.Live() || p.Progress == io.Discard {
		return nil
	}
	return &progress{line: line, name: name, steps: p.Steps, random: random, now: time.Now, evaluated: math.NaN()}
}

// begin draws a line that is live before the first step, which may take long.
func (g *progress) begin(p *Point) {
	if g.last = *p; g.line.Live() {
		g.line.Draw(g.text())
	}
}

// drawLine draws the line where it is time to.
func (g *progress) drawLine(p *Point) {
	now := g.now()
	if g.since.IsZero() { // the first call: a run that goes on has steps already
		g.since, g.sinceAt, g.drawn = now, p.Steps, now
	}
	if !g.line.Live() {
		g.skip = math.MaxInt
		return
	}
	if g.skip = unlooked; now.Sub(g.looked) > redraw/2 { // calls are rare
		g.skip = 1
	}
	g.looked, g.last = now, *p
	if now.Sub(g.drawn) >= redraw {
		g.drawn = now
		g.measure(now)
		g.line.Draw(g.text())
	}
}

// add takes what a Point says.
func (g *progress) add(p *Point) {
	g.last = *p
	if finite64(p.Evaluated) {
		g.evaluated = p.Evaluated
	}
	if !g.line.Live() {
		g.measure(g.now())
		g.line.Draw(g.text())
	}
}

// end draws the line a last time, and leaves it.
func (g *progress) end() {
	if !g.line.Live() {
		return
	}
	if !g.since.IsZero() {
		g.line.Draw(g.text())
	}
	g.line.End()
}

// measure measures the steps per second.
func (g *progress) measure(now time.Time) {
	if t := now.Sub(g.since); t >= rateOver {
		g.rate = float64(g.last.Steps-g.sinceAt) / t.Seconds()
		g.since, g.sinceAt = now, g.last.Steps
	}
}

func (g *progress) text() string {
	p := &g.last
	s := fmt.Sprintf("%s: %d of %d steps (%.0f%%)", g.name, p.Steps, g.steps, 100*float64(p.Steps)/float64(g.steps))
	if g.rate > 0 {
		s += ", " + brief(g.rate) + " steps/s"
	}
	if finite64(p.Return) {
		s += ", return " + brief(p.Return)
	}
	if finite64(g.evaluated) {
		s += ", evaluated " + brief(g.evaluated)
	}
	if finite64(g.random) {
		s += " (random " + brief(g.random) + ")"
	}
	if p.LearnerSteps > 0 {
		s += fmt.Sprintf(", %s learner steps/step, age %d", brief(ratio(p.LearnerSteps, p.Steps)), p.Age)
	}
	if finite64(p.Loss) {
		s += ", loss " + brief(p.Loss)
	}
	return s
}

// brief is a number as a person reads it.
func brief(x float64) string {
	if a := math.Abs(x); a >= 1000 && a < 1e9 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

func ratio(a, b int) float64 { return float64(a) / float64(max(1, b)) }
