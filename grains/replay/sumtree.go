package replay

import (
	"math"
	"math/rand/v2"
)

// prioritized is a sum tree: sums[i] is the sum of sums[2i] and sums[2i+1], and the leaves, from sums[leaves], are the slots. Each change
// adds up anew what lies above it, so that no error of rounding grows.
type prioritized struct {
	exponent float64
	leaves   int
	sums     []float64
	zeros    uniform // the slots of weight 0
	zero     []bool
	n        int
}

// maxWeight keeps sums of weights finite: a table has maxItems at most.
const maxWeight = math.MaxFloat64 / maxItems / 2

func (p *prioritized) insert(slot int, priority float64) {
	for slot >= p.leaves {
		p.double()
	}
	p.n++
	p.zero = grow(p.zero, slot)
	p.zero[slot] = false
	p.update(slot, priority)
}

func (p *prioritized) remove(slot int) {
	p.n--
	p.set(slot, 0)
	if p.zero[slot] {
		p.zeros.remove(slot)
		p.zero[slot] = false
	}
}

func (p *prioritized) update(slot int, priority float64) {
	w := min(math.Pow(priority, p.exponent), maxWeight)
	if priority == 0 {
		w = 0 // whatever the exponent
	}
	p.set(slot, w)
	switch zero := w == 0; {
	case zero && !p.zero[slot]:
		p.zeros.insert(slot, 0)
		p.zero[slot] = true
	case !zero && p.zero[slot]:
		p.zeros.remove(slot)
		p.zero[slot] = false
	}
}

func (p *prioritized) set(slot int, w float64) {
	i := p.leaves + slot
	p.sums[i] = w
	for i /= 2; i > 0; i /= 2 {
		p.sums[i] = p.sums[2*i] + p.sums[2*i+1]
	}
}

func (p *prioritized) double() {
	old := p.sums[p.leaves:]
	p.leaves = max(64, 2*p.leaves)
	p.sums = make([]float64, 2*p.leaves)
	copy(p.sums[p.leaves:], old)
	for i := p.leaves - 1; i > 0; i-- {
		p.sums[i] = p.sums[2*i] + p.sums[2*i+1]
	}
}

func (p *prioritized) pick(r *rand.Rand) (int, float64) {
	total := p.sums[1]
	if total == 0 {
		return p.zeros.pick(r)
	}
	at := r.Float64() * total
	i := 1
	for i < p.leaves {
		i *= 2
		// A sum of rounded numbers may be below at: then the last with a weight is taken.
		if left := p.sums[i]; at >= left && p.sums[i+1] > 0 {
			at -= left
			i++
		}
	}
	return i - p.leaves, p.sums[i] / total
}
