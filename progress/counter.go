package progress

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"sync"
	"time"

	"github.com/raysys/raysys"
)

const (
	redraw = 100 * time.Millisecond // between two drawings of a live line
	repeat = 10 * time.Second       // between two lines elsewhere
)

// AsCompleted is raysys.AsCompleted, and shows under that name how many of refs have settled, how many of these failed, how many a second, and how long
// the others will take at that rate.
func AsCompleted[T any](ctx context.Context, name string, refs []raysys.Ref[T]) iter.Seq2[int, raysys.Ref[T]] {
	return func(yield func(int, raysys.Ref[T]) bool) {
		c := Count(name, len(refs))
		defer c.End()
		for i, r := range raysys.AsCompleted(ctx, refs) {
			c.Done(raysys.PhaseOf(r) != raysys.PhaseReady)
			if !yield(i, r) {
				return
			}
		}
	}
}

// Counter counts pieces of work, and shows what AsCompleted does. Any goroutine may use it.
type Counter struct {
	name  string
	all   int
	line  *Line // nil: nothing is shown
	begun time.Time
	stop  chan struct{}
	ended sync.WaitGroup

	mu           sync.Mutex // guards the rest
	done, failed int
	shown        string
	over         bool
}

// Count begins to count that many pieces of work. End it.
func Count(name string, pieces int) *Counter { return count(NewLine(nil), name, pieces) }

func count(line *Line, name string, pieces int) *Counter {
	c := &Counter{name: name, all: pieces, line: line, begun: time.Now(), stop: make(chan struct{})}
	if line != nil {
		c.ended.Go(c.watch)
	}
	return c
}

// Done counts one more piece of work that is done, or has failed.
func (c *Counter) Done(failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done++; failed {
		c.failed++
	}
}

// End shows how far the work came, but not of work that was over before its first line. A second End does nothing.
func (c *Counter) End() {
	c.mu.Lock()
	again := c.over
	c.over = true
	c.mu.Unlock()
	if again {
		return
	}
	close(c.stop)
	c.ended.Wait()
	if c.shown != "" || c.line.Live() && c.done > 0 {
		c.show()
	}
	c.line.End()
}

// watch shows the count from time to time.
func (c *Counter) watch() {
	each := repeat
	if c.line.Live() {
		each = redraw
	}
	tick := time.NewTicker(each)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.show()
		case <-c.stop:
			return
		}
	}
}

func (c *Counter) show() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if text := c.text(); text != c.shown || !c.line.Live() {
		c.shown = text
		c.line.Draw(text)
	}
}

func (c *Counter) text() string {
	took := time.Since(c.begun)
	s := fmt.Sprintf("%s: %d of %d (%.0f%%)", c.name, c.done, c.all, 100*float64(c.done)/float64(max(1, c.all)))
	if c.failed > 0 {
		s += fmt.Sprintf(", %d failed", c.failed)
	}
	if c.done > 0 && took > 0 {
		s += ", " + rate(float64(c.done)/took.Seconds())
		if c.done < c.all && !c.over {
			s += fmt.Sprintf(", %v left", (took / time.Duration(c.done) * time.Duration(c.all-c.done)).Round(time.Second))
		}
	}
	if c.over {
		s += fmt.Sprintf(", in %v", took.Round(redraw))
	}
	return s
}

// rate is a number a second, of three digits or so.
func rate(x float64) string {
	digits := 0
	for at := 100.0; digits < 3 && x < at; at /= 10 {
		digits++
	}
	return strconv.FormatFloat(x, 'f', digits, 64) + "/s"
}
