package replay

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
)

// Client inserts into a buffer and samples it. It may be used by several goroutines.
type Client[T any] struct{ b buffer }

// String is the server's name and the buffer's.
func (c *Client[T]) String() string { return c.b.String() }

// Insert puts each item, of one step, into the table, with its priority: 1 each where priorities is nil. It waits while the limiter is shut,
// until ctx ends: shortly before, it fails with a *ShutError. Items that are large travel as objects, which stay here until they are sampled.
func (c *Client[T]) Insert(ctx context.Context, table string, items []T, priorities []float64) error {
	if priorities != nil && len(priorities) != len(items) {
		return fmt.Errorf("insert into %v: %w: %d priorities for %d items", c, ErrConfig, len(priorities), len(items))
	}
	at, err := c.b.d.cfg.table(table)
	if err != nil {
		return fmt.Errorf("insert into %v: %w", c, err)
	}
	for i, p := range priorities { // before anything is sent
		if err := checkPriority(p); err != nil {
			return fmt.Errorf("insert into %v: item %d: %w", c, i, err)
		}
	}
	w := c.b.sending()
	for i := range items {
		p := 1.0
		if priorities != nil {
			p = priorities[i]
		}
		if err := w.step(unsafe.Pointer(&items[i])); err != nil {
			return fmt.Errorf("insert into %v: item %d: %w", c, i, err)
		}
		if i == 0 {
			w.expect(len(items))
		}
		n := len(w.batch.Ends)
		w.item(at, p, n-1, n)
		if w.full() {
			if err := w.send(ctx, w.take); err != nil {
				return fmt.Errorf("insert into %v: %w", c, w.gaveUp(ctx, err, len(items)))
			}
		}
	}
	err = w.send(ctx, w.take)
	if bad := w.waitForRoom(ctx, 0); err == nil {
		err = bad
	}
	if err != nil {
		return fmt.Errorf("insert into %v: %w", c, w.gaveUp(ctx, err, len(items)))
	}
	return nil
}

// Samples are items of a table.
type Samples[T any] struct {
	Steps []T   // of all items, one after the other
	ends  []int // of each item in Steps
	// Of each item: its key, with which probability the sampler took it, of the items of all shards, its priority, and how often it has been
	// sampled.
	Keys          []uint64
	Probabilities []float64
	Priorities    []float64
	Times         []int
	Size          int // of the table, or of the shards that gave some
}

// Len is how many items there are.
func (s Samples[T]) Len() int { return len(s.Keys) }

// Item returns the steps of item i.
func (s Samples[T]) Item(i int) []T {
	from := 0
	if i > 0 {
		from = s.ends[i-1]
	}
	return s.Steps[from:s.ends[i]:s.ends[i]]
}

// Sample takes n items from the table. It waits while the limiter is shut, until ctx ends: shortly before, it fails with a *ShutError.
// Slices in the steps share memory with each other.
func (c *Client[T]) Sample(ctx context.Context, table string, n int) (Samples[T], error) {
	got, err := c.b.sample(ctx, table, n)
	return samplesOf[T](c.b.d, got, err)
}

func samplesOf[T any](d *definition, got collected, err error) (Samples[T], error) {
	if err != nil {
		return Samples[T]{}, err
	}
	s := Samples[T]{
		Steps: make([]T, len(got.steps)), ends: got.ends, Keys: got.keys, Probabilities: got.probabilities,
		Priorities: got.priorities, Times: got.times,
	}
	for _, n := range got.sizes {
		s.Size += n
	}
	for i, b := range got.steps {
		if err := d.plan.DecodeShared(b, reflect.ValueOf(&s.Steps[i]).Elem(), nil); err != nil {
			return Samples[T]{}, err
		}
	}
	return s, nil
}

// Update changes the priorities of items; those that have gone are left out.
func (c *Client[T]) Update(ctx context.Context, table string, keys []uint64, priorities []float64) error {
	if len(keys) != len(priorities) {
		return fmt.Errorf("update %v: %w: %d priorities for %d keys", c, ErrConfig, len(priorities), len(keys))
	}
	for i, p := range priorities {
		if err := checkPriority(p); err != nil {
			return fmt.Errorf("update %v: item %d: %w", c, i, err)
		}
	}
	return c.b.change(ctx, "update", table, keys, priorities)
}

// Delete removes items; those that have gone are left out.
func (c *Client[T]) Delete(ctx context.Context, table string, keys []uint64) error {
	return c.b.change(ctx, "delete from", table, keys, nil)
}

// Clear ends the buffer: its items are forgotten, and calls that wait begin a new one, as all that come later do.
func (c *Client[T]) Clear(ctx context.Context) error {
	refs := make([]grains.Done, c.b.d.cfg.Shards)
	for i := range refs {
		refs[i] = c.b.d.end.Call(ctx, c.b.shard(i))
	}
	if _, err := raysys.GetAll(ctx, refs).Values(); err != nil {
		return fmt.Errorf("clear %v: %w", c, err)
	}
	return nil
}

// Info tells what the buffer has.
func (c *Client[T]) Info(ctx context.Context) (Info, error) {
	refs := make([]raysys.Ref[ShardInfo], c.b.d.cfg.Shards)
	for i := range refs {
		refs[i] = c.b.d.info.Call(ctx, c.b.shard(i), i)
	}
	list, err := raysys.GetAll(ctx, refs).Values()
	if err != nil {
		return Info{}, fmt.Errorf("info of %v: %w", c, err)
	}
	return Info{Shards: list}, nil
}

func (b *buffer) change(ctx context.Context, verb, table string, keys []uint64, priorities []float64) error {
	at, err := b.d.cfg.table(table)
	if err != nil {
		return fmt.Errorf("%s %v: %w", verb, b, err)
	}
	parts := map[int]*change{}
	for i, k := range keys {
		n := int(k >> 52)
		if n >= b.d.cfg.Shards {
			continue // no key of this server
		}
		p := parts[n]
		if p == nil {
			p = &change{Shard: n, Table: uint16(at)}
			parts[n] = p
		}
		p.Keys = append(p.Keys, k)
		if priorities != nil {
			p.Priorities = append(p.Priorities, priorities[i])
		}
	}
	var refs []raysys.Ref[int]
	for n := range b.d.cfg.Shards {
		if p := parts[n]; p != nil {
			refs = append(refs, b.d.change.Call(ctx, b.shard(n), *p))
		}
	}
	if _, err := raysys.GetAll(ctx, refs).Values(); err != nil {
		return fmt.Errorf("%s %v: %w", verb, b, err)
	}
	return nil
}

// allowed is how long a shard may keep the next call; false when ctx is about to end.
func allowed(ctx context.Context) (time.Duration, bool) {
	wait := min(patience, left(ctx))
	return wait, wait > 0
}

// left is how long a call may take so that there is time for the way back.
func left(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return longIdle
	}
	left := time.Until(end)
	return left - min(left/5, time.Second)
}

// shutIn finds the reason why a shard has not taken a call.
func shutIn(err error) *ShutError {
	var shut *ShutError
	errors.As(err, &shut)
	return shut
}
