package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// progress tells how a run goes: on a terminal by one line that changes, elsewhere by one line for each event. It
// belongs to the goroutine of the driver.
type progress struct {
	w     io.Writer
	bar   bool
	drawn bool // the cursor stands behind a bar
}

func newProgress(w io.Writer) *progress { return &progress{w: w, bar: isTerminal(w)} }

// isTerminal tells a character device from files, pipes and buffers. /dev/null is one too, and takes a bar as well.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// learning tells of an update. The bar is how far the return has come, since that ends the learning, not the steps.
func (p *progress) learning(s Stats, goal float64) {
	if p.bar {
		p.draw("learning", s.MeanReturn/goal, fmt.Sprintf("return %.0f of %.0f, %s steps", s.MeanReturn, goal, grouped(float64(s.TotalSteps))))
		return
	}
	fmt.Fprintf(p.w, "learning: mean return %.1f over %d episodes, %d steps\n", s.MeanReturn, s.Episodes, s.TotalSteps)
}

// serving tells how long the policy has been served; lines say only that it begins.
func (p *progress) serving(d, of time.Duration) {
	switch {
	case p.bar:
		p.draw("serving", float64(d)/float64(of), fmt.Sprintf("%.1f of %.1f s", min(d, of).Seconds(), of.Seconds()))
	case d == 0:
		fmt.Fprintf(p.w, "serving for %v\n", of)
	}
}

const barWidth = 30

func (p *progress) draw(what string, share float64, detail string) {
	full := int(barWidth * min(max(share, 0), 1))
	// Back to the start of the line, and erase what a longer one left.
	fmt.Fprintf(p.w, "\r\x1b[K%-8s [%s%s] %s", what, strings.Repeat("#", full), strings.Repeat(".", barWidth-full), detail)
	p.drawn = true
}

// end takes the bar away, so that what follows begins a line.
func (p *progress) end() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}
