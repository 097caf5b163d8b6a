package params

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
)

// Weights are what a Pull saw.
type Weights[T Float] struct {
	// Version is the oldest that a shard had: a push for it is stale at no shard that takes one for its own.
	Version Version
	// Ahead is how many steps the newest shard was ahead of that: 0 where the weights are of one version.
	Ahead  uint64
	Values []T
}

// Pull returns all weights.
func (m Model[T]) Pull(ctx context.Context) (Weights[T], error) {
	parts, w, err := m.pullShards(ctx, nil)
	if err != nil {
		return w, err
	}
	w.Values = slices.Concat(parts...)
	return w, nil
}

// PullRange returns weights lo to hi, of the shards that have them.
func (m Model[T]) PullRange(ctx context.Context, lo, hi int) (Weights[T], error) {
	var w Weights[T]
	states, err := m.Status(ctx)
	if err != nil {
		return w, err
	}
	n := 0
	for _, s := range states {
		n += s.Len
	}
	if lo < 0 || hi < lo || hi > n {
		return w, fmt.Errorf("pull %v: %w: range %d to %d of %d weights", m, ErrLength, lo, hi, n)
	}
	var refs []raysys.Ref[answer[T]]
	for i := range m.d.shards {
		begin, end := m.d.span(n, i)
		if a, b := max(lo, begin), min(hi, end); a < b {
			refs = append(refs, m.d.pull.Call(ctx, m.shard(i), question{Lo: a - begin, Hi: b - begin}))
		}
	}
	answers, err := raysys.GetAll(ctx, refs).Values()
	if err != nil {
		return w, fmt.Errorf("pull %v: %w", m, err)
	}
	if w, err = m.merge(answers); err != nil {
		return w, err
	}
	for _, a := range answers {
		v, err := a.get(ctx)
		if err != nil {
			return w, fmt.Errorf("pull %v: %w", m, err)
		}
		w.Values = append(w.Values, v...)
	}
	if len(w.Values) != hi-lo {
		return Weights[T]{}, fmt.Errorf("pull %v: %w: it was changed meanwhile", m, ErrNoModel)
	}
	return w, nil
}

// pullShards pulls every shard that has another version than have says; parts of the others are nil.
func (m Model[T]) pullShards(ctx context.Context, have []Version) (parts [][]T, w Weights[T], err error) {
	answers, err := each(ctx, m, "pull", func(i int, g grains.Grain[shard[T]]) raysys.Ref[answer[T]] {
		q := question{Hi: math.MaxInt}
		if have != nil {
			q.Have = have[i]
		}
		return m.d.pull.Call(ctx, g, q)
	})
	if err != nil {
		return nil, w, err
	}
	if w, err = m.merge(answers); err != nil {
		return nil, w, err
	}
	parts = make([][]T, len(answers))
	for i, a := range answers {
		if have != nil {
			if have[i] == a.At {
				continue
			}
			have[i] = a.At
		}
		if parts[i], err = a.get(ctx); err != nil {
			return nil, w, fmt.Errorf("pull %v: shard %d: %w", m, i, err)
		}
	}
	return parts, w, nil
}

// merge says what version the answers make together.
func (m Model[T]) merge(answers []answer[T]) (w Weights[T], err error) {
	for i, a := range answers {
		switch {
		case i == 0:
			w.Version = a.At
		case a.At.Run != w.Version.Run:
			return Weights[T]{}, fmt.Errorf("pull %v: %w: its shards are of different runs", m, ErrNoModel)
		case a.At.Step < w.Version.Step:
			w.Ahead += w.Version.Step - a.At.Step
			w.Version = a.At
		default:
			w.Ahead = max(w.Ahead, a.At.Step-w.Version.Step)
		}
	}
	return w, nil
}

// get returns the values, which others may read too.
func (a answer[T]) get(ctx context.Context) ([]T, error) {
	if r := a.Object.Ref(); !r.IsZero() {
		return r.Get(ctx)
	}
	if a.Values == nil {
		return []T{}, nil
	}
	return a.Values, nil
}

// Cache keeps the weights it pulled last, and pulls only the shards that have others by now. It may be used by several
// goroutines.
type Cache[T Float] struct {
	m    Model[T]
	mu   sync.Mutex // guards the rest, and is held while it pulls
	have []Version
	part [][]T
	all  Weights[T]
}

// Cache returns an empty one.
func (m Model[T]) Cache() *Cache[T] { return &Cache[T]{m: m} }

// Pull returns the current weights, and whether they differ from those it returned last. Callers share Values, which
// must not be changed.
func (c *Cache[T]) Pull(ctx context.Context) (_ Weights[T], changed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := make([]Version, c.m.d.shards)
	copy(have, c.have)
	parts, w, err := c.m.pullShards(ctx, have)
	if err != nil {
		return Weights[T]{}, false, err
	}
	if c.part == nil {
		c.part = make([][]T, c.m.d.shards)
	}
	for i, p := range parts {
		if p != nil {
			c.part[i], changed = p, true
		}
	}
	c.have = have
	if changed {
		w.Values = slices.Concat(c.part...)
	} else {
		w.Values = c.all.Values
	}
	c.all = w
	return w, changed, nil
}
