package replay

import (
	"context"
	"fmt"
	"unsafe"
)

// Pattern says which runs of steps a Writer makes items of.
type Pattern struct {
	Table          string
	Length, Period int
	// Priority of the items: 1 unless set.
	Priority float64
	rest     bool // at the end of an episode also shorter runs are items
}

// NStep makes an item of each n steps that follow each other, one step apart. At the end of an episode shorter ones follow, down to one
// step: each step begins one item.
func NStep(table string, n int) Pattern {
	return Pattern{Table: table, Length: n, Period: 1, Priority: 1, rest: true}
}

// Sequence makes an item of each length steps, period steps apart: they overlap where period is less than length. At the end of an episode
// the steps that are in no item yet make one that may be shorter.
func Sequence(table string, length, period int) Pattern {
	return Pattern{Table: table, Length: length, Period: period, Priority: 1}
}

// Episode makes one item of each episode.
func Episode(table string) Pattern {
	return Pattern{Table: table, Length: 1<<31 - 1, Period: 1<<31 - 1, Priority: 1}
}

func (p Pattern) check() error {
	if p.Length < 1 || p.Period < 1 || p.Period > p.Length {
		return fmt.Errorf("%w: items of %d steps, %d apart: give 1 or more, and no more apart than they are long", ErrConfig, p.Length, p.Period)
	}
	return checkPriority(p.Priority)
}

// Writer makes items of one stream of steps. It is for one goroutine.
//
// It loses nothing: items whose insert has failed, for whatever reason, stay in their order, and go with the next Append, End or Flush. A step
// that Append has taken may be in after any of these, and is in after a Flush without an error. Only items that are with a shard when its node dies go.
type Writer[T any] struct{ w writer }

type writer struct {
	sending
	patterns []pattern
	episode  int // where the episode begins in the batch; below 0 once its first steps have gone
	steps    int // of the episode
}

type pattern struct {
	Pattern
	table int
	next  int // the step of the episode at which the next item begins
}

// Writer returns a writer of such items.
func (c *Client[T]) Writer(patterns ...Pattern) (*Writer[T], error) {
	w := &Writer[T]{writer{sending: sending{b: &c.b, keeps: true}}}
	for _, p := range patterns {
		at, err := c.b.d.cfg.table(p.Table)
		if err == nil {
			err = p.check()
		}
		if err != nil {
			return nil, fmt.Errorf("writer to %v: %w", c, err)
		}
		w.w.patterns = append(w.w.patterns, pattern{Pattern: p, table: at})
	}
	return w, nil
}

// Append adds the next step. Items go to the buffer in batches; Append waits while its limiter is shut, and fails like Insert, then or at a
// later step. An Append that fails has taken its step all the same: do not append it again. Only a step that cannot be encoded is not taken.
func (w *Writer[T]) Append(ctx context.Context, step T) error {
	return w.w.append(ctx, unsafe.Pointer(&step))
}

// End ends the episode, also where it fails: the next step begins another. It waits as Append does.
func (w *Writer[T]) End(ctx context.Context) error { return w.w.end(ctx) }

// Flush sends what is left, and waits until all items are in the buffer. Steps of an episode that has not ended stay for later items.
func (w *Writer[T]) Flush(ctx context.Context) error { return w.w.flush(ctx) }

// Pending is how many items are made and, as far as the Writer knows, not in the buffer: 0 after a Flush without an error. Read it before you
// drop a Writer whose Flush has failed.
func (w *Writer[T]) Pending() int {
	n := len(w.w.batch.Tables)
	for _, s := range w.w.open {
		n += s.items - s.done
	}
	return n
}

func (w *writer) append(ctx context.Context, step unsafe.Pointer) error {
	if err := w.step(step); err != nil {
		return fmt.Errorf("append to %v: %w", w.b, err)
	}
	w.steps++
	for i := range w.patterns {
		if p := &w.patterns[i]; w.steps-p.next >= p.Length {
			w.make(p)
		}
	}
	if w.full() {
		return w.pass(ctx)
	}
	return nil
}

// make makes an item of the steps of p up to the last.
func (w *writer) make(p *pattern) {
	w.item(p.table, p.Priority, w.episode+p.next, w.episode+w.steps)
	p.next += p.Period
}

func (w *writer) end(ctx context.Context) error {
	for i := range w.patterns {
		p := &w.patterns[i]
		for p.next < w.steps && (p.rest || p.next == 0 || p.next+p.Length-p.Period < w.steps) {
			if w.make(p); !p.rest {
				break
			}
		}
		p.next = 0
	}
	w.episode += w.steps
	w.steps = 0
	if w.full() {
		return w.pass(ctx)
	}
	return nil
}

// cut takes the batch, and leaves the steps that later items need in the next.
func (w *writer) cut() batch {
	keep := len(w.batch.Ends)
	for _, p := range w.patterns {
		keep = min(keep, max(0, w.episode+p.next))
	}
	from := uint32(0)
	if keep > 0 {
		from = w.batch.Ends[keep-1]
	}
	rest, ends := w.batch.Data[from:], w.batch.Ends[keep:]
	x := w.take()
	w.batch.Data = append(w.batch.Data, rest...)
	for _, e := range ends {
		w.batch.Ends = append(w.batch.Ends, e-from)
	}
	w.kept = len(rest)
	w.episode -= keep
	return x
}

// pass sends the batch. It stays for the next time where one before it fails.
func (w *writer) pass(ctx context.Context) error {
	if err := w.send(ctx, w.cut); err != nil {
		return fmt.Errorf("write to %v: %w", w.b, err)
	}
	return nil
}

func (w *writer) flush(ctx context.Context) error {
	if err := w.pass(ctx); err != nil {
		return err
	}
	if err := w.waitForRoom(ctx, 0); err != nil {
		return fmt.Errorf("write to %v: %w", w.b, err)
	}
	return nil
}
