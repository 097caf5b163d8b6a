package replay

import (
	"math/rand/v2"

	"github.com/raysys/raysys"
)

// chunk is a batch of steps as it came: items are ranges of it, in one table or several.
type chunk struct {
	data   []byte
	ends   []uint32 // of each step in data
	object raysys.Handle[[]byte]
	large  bool // object has the data
	local  any  // the step itself, of a Local
}

// start is where a step begins in data.
func (c *chunk) start(step int) uint32 {
	if step == 0 {
		return 0
	}
	return c.ends[step-1]
}

// item is a range of a chunk in one table.
type item struct {
	key         uint64
	chunk       *chunk // nil for a free slot
	first, last int32
	times       int32 // sampled
	next        int32 // of its chain
	priority    float64
}

// table is one shard's part of a Table.
type table struct {
	Table
	items            []item // by slot
	free             []int32
	heads            []int32 // of keys, as many as a power of two
	sampler, remover selector
	inserts, samples uint64
	used             int // how often all items have been sampled
}

func newTable(cfg Table) *table {
	return &table{Table: cfg, sampler: cfg.Sampler.make(), remover: cfg.Remover.make()}
}

func (t *table) size() int { return len(t.items) - len(t.free) }

// insert adds an item. Then one goes where there are too many: it may be this one.
func (t *table) insert(it item, r *rand.Rand) {
	slot := len(t.items)
	if n := len(t.free); n > 0 {
		slot = int(t.free[n-1])
		t.free = t.free[:n-1]
	} else {
		t.items = append(t.items, item{})
	}
	t.items[slot] = it
	t.link(slot)
	t.sampler.insert(slot, it.priority)
	t.remover.insert(slot, it.priority)
	t.inserts++
	if t.size() > t.MaxSize {
		slot, _ := t.remover.pick(r)
		t.remove(slot)
	}
}

func (t *table) remove(slot int) {
	t.sampler.remove(slot)
	t.remover.remove(slot)
	t.unlink(slot)
	t.used -= int(t.items[slot].times)
	t.items[slot] = item{}
	t.free = append(t.free, int32(slot))
}

// sample takes an item; one that was sampled often enough goes.
func (t *table) sample(r *rand.Rand) (it item, probability float64) {
	slot, probability := t.sampler.pick(r)
	at := &t.items[slot]
	at.times++
	t.used++
	it = *at
	t.samples++
	if t.MaxTimesSampled > 0 && int(it.times) >= t.MaxTimesSampled {
		t.remove(slot)
	}
	return it, probability
}

// update changes priorities; keys that have gone are left out.
func (t *table) update(keys []uint64, priorities []float64) (n int) {
	for i, k := range keys {
		if slot := t.find(k); slot >= 0 {
			t.items[slot].priority = priorities[i]
			t.sampler.update(slot, priorities[i])
			t.remover.update(slot, priorities[i])
			n++
		}
	}
	return n
}

// drop removes items by their keys.
func (t *table) drop(keys []uint64) (n int) {
	for _, k := range keys {
		if slot := t.find(k); slot >= 0 {
			t.remove(slot)
			n++
		}
	}
	return n
}

func (t *table) mayInsert() bool { return t.Limiter.mayInsert(t.size(), t.inserts, t.samples) }

func (t *table) maySample(n int) int {
	n = t.Limiter.maySample(t.size(), t.inserts, t.samples, n)
	if t.MaxTimesSampled > 0 { // each sample may take an item away
		n = min(n, t.size()*t.MaxTimesSampled-t.used)
	}
	return n
}

// mass is what the sampler weighs in all: 0 while the table may not be sampled, and for one that does not weigh.
func (t *table) mass() float64 {
	if t.maySample(1) == 0 {
		return 0
	}
	switch s := t.sampler.(type) {
	case *uniform:
		return float64(len(s.slots))
	case *prioritized:
		return s.sums[1]
	}
	return 0
}

// shut says why a call waits.
func (t *table) shut(insert bool, shard int) *ShutError {
	e := &ShutError{Table: t.Name, Limiter: t.Limiter.name, Insert: insert, Shard: shard}
	e.Has = t.Limiter.diff(t.inserts, t.samples)
	switch {
	case insert:
		e.Needs = t.Limiter.maxDiff
	case t.size() < t.Limiter.minSize:
		e.Items, e.Has, e.Needs = true, float64(t.size()), float64(t.Limiter.minSize)
	default:
		e.Needs = t.Limiter.minDiff
	}
	return e
}
