package replay

import (
	"fmt"
	"math/rand/v2"
)

// Local is one table in this process, without grains: for one goroutine, which repeats by its seed. It does not wait: where the limiter is shut,
// an insert or a sample fails with a *ShutError, and nothing of it was done.
type Local[T any] struct {
	t    *table
	rand *rand.Rand
	next uint64 // key
}

// NewLocal makes an empty table.
func NewLocal[T any](t Table, seed uint64) (*Local[T], error) {
	cfg, err := Config{Tables: []Table{t}}.complete()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return &Local[T]{t: newTable(cfg.Tables[0]), rand: rand.New(rand.NewPCG(seed, 0x10ca1))}, nil
}

// Insert puts an item of one step into the table, which keeps it: it is not to be changed.
func (l *Local[T]) Insert(step T, priority float64) error {
	if err := checkPriority(priority); err != nil {
		return err
	}
	if !l.t.mayInsert() {
		return l.t.shut(true, 0)
	}
	l.t.insert(item{key: l.next, chunk: &chunk{local: &step}, last: 1, priority: priority}, l.rand)
	l.next++
	return nil
}

// Sample takes n items, which share memory with the table.
func (l *Local[T]) Sample(n int) (Samples[T], error) {
	if n < 1 {
		return Samples[T]{}, fmt.Errorf("%w: %d samples", ErrConfig, n)
	}
	if l.t.maySample(n) < n {
		return Samples[T]{}, l.t.shut(false, 0)
	}
	s := Samples[T]{
		Steps: make([]T, n), ends: make([]int, n), Keys: make([]uint64, n), Probabilities: make([]float64, n),
		Priorities: make([]float64, n), Times: make([]int, n), Size: l.t.size(),
	}
	for i := range n {
		it, p := l.t.sample(l.rand)
		s.Steps[i], s.ends[i] = *it.chunk.local.(*T), i+1
		s.Keys[i], s.Probabilities[i], s.Priorities[i], s.Times[i] = it.key, p, it.priority, int(it.times)
	}
	return s, nil
}

// Update changes the priorities of items; those that have gone are left out.
func (l *Local[T]) Update(keys []uint64, priorities []float64) error {
	if len(keys) != len(priorities) {
		return fmt.Errorf("%w: %d priorities for %d keys", ErrConfig, len(priorities), len(keys))
	}
	for i, p := range priorities {
		if err := checkPriority(p); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	l.t.update(keys, priorities)
	return nil
}

// Len is how many items the table has.
func (l *Local[T]) Len() int { return l.t.size() }
