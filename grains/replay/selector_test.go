package replay

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// modelled is an item of a model of a selector.
type modelled struct {
	slot     int
	priority float64
}

// TestSelectors: each selector picks what a plain list says, whatever was inserted, removed and updated before.
func TestSelectors(t *testing.T) {
	first := func(list []modelled, less func(a, b modelled) bool) int {
		best := list[0]
		for _, m := range list[1:] {
			if less(m, best) {
				best = m
			}
		}
		return best.slot
	}
	for _, c := range []struct {
		make func() selector
		pick func(list []modelled) int // -1: by chance
	}{
		{Uniform.make, nil},
		{Prioritized(0.6).make, nil},
		{FIFO.make, func(l []modelled) int { return l[0].slot }},
		{LIFO.make, func(l []modelled) int { return l[len(l)-1].slot }},
		{MinHeap.make, func(l []modelled) int { return first(l, func(a, b modelled) bool { return a.priority < b.priority }) }},
		{MaxHeap.make, func(l []modelled) int { return first(l, func(a, b modelled) bool { return a.priority > b.priority }) }},
	} {
		rapid.Check(t, func(t *rapid.T) {
			s := c.make()
			var list []modelled // in the order of insertion
			var free []int
			slots := 0
			priority := rapid.SampledFrom([]float64{0, 0.5, 1, 1, 2, 7})
			for range rapid.IntRange(1, 60).Draw(t, "steps") {
				switch op := rapid.IntRange(0, 3).Draw(t, "op"); {
				case op <= 1 || len(list) == 0:
					slot := slots
					if n := len(free); n > 0 {
						slot, free = free[n-1], free[:n-1]
					} else {
						slots++
					}
					p := priority.Draw(t, "priority")
					s.insert(slot, p)
					list = append(list, modelled{slot, p})
				case op == 2:
					i := rapid.IntRange(0, len(list)-1).Draw(t, "which")
					s.remove(list[i].slot)
					free = append(free, list[i].slot)
					list = append(list[:i:i], list[i+1:]...)
				default:
					i := rapid.IntRange(0, len(list)-1).Draw(t, "which")
					list[i].priority = priority.Draw(t, "priority")
					s.update(list[i].slot, list[i].priority)
					if _, ok := s.(*heaped); ok { // it is the youngest of its priority from now on
						list = append(append(list[:i:i], list[i+1:]...), list[i])
					}
				}
				if len(list) == 0 {
					continue
				}
				slot, p := s.pick(rand.New(rand.NewPCG(1, uint64(len(list)))))
				if c.pick != nil {
					if want := c.pick(list); slot != want || p != 1 {
						t.Fatalf("picked %d with probability %g, want %d of %v", slot, p, want, list)
					}
					continue
				}
				want, exponent := probability(list, slot, s)
				if want == 0 || math.Abs(p-want) > 1e-9 {
					t.Fatalf("picked %d with probability %g, want %g of %v with exponent %g", slot, p, want, list, exponent)
				}
			}
		})
	}
}

// TestRemoversSeeTheNewItem: a full table takes an item before it asks which one goes.
func TestRemoversSeeTheNewItem(t *testing.T) {
	for _, c := range []struct {
		remover Selector
		want    []int
	}{
		{MinHeap, []int{0, 1, 4}}, // the best
		{MaxHeap, []int{2, 3, 5}},
		{FIFO, []int{3, 4, 5}},
		{LIFO, []int{0, 1, 2}},
	} {
		l, err := NewLocal[int](Table{Name: "t", Sampler: FIFO, Remover: c.remover, MaxSize: 3, MaxTimesSampled: 1}, 1)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range []float64{5, 4, 2, 1, 3, 2} {
			if err := l.Insert(i, p); err != nil || l.Len() > 3 {
				t.Fatal(l.Len(), err)
			}
		}
		if got, err := l.Sample(3); err != nil || !slices.Equal(got.Steps, c.want) {
			t.Errorf("%v leaves %v, want %v, %v", c.remover, got.Steps, c.want, err)
		}
	}
}

// probability is that of a slot by the formula.
func probability(list []modelled, slot int, s selector) (p, exponent float64) {
	w, ok := s.(*prioritized)
	total, own := 0.0, 0.0
	for _, m := range list {
		x := 1.0
		if ok {
			x = math.Pow(m.priority, w.exponent)
		}
		total += x
		if m.slot == slot {
			own = x
		}
	}
	if ok {
		exponent = w.exponent
	}
	if total == 0 { // all have priority 0: each with the same probability
		return 1 / float64(len(list)), exponent
	}
	return own / total, exponent
}

// TestPrioritizedShares: items are picked as often as their priorities say.
func TestPrioritizedShares(t *testing.T) {
	s := Prioritized(1).make()
	weights := []float64{0, 1, 2, 3, 4}
	for i, w := range weights {
		s.insert(i, w)
	}
	r := rand.New(rand.NewPCG(1, 2))
	counts := make([]float64, len(weights))
	const n = 100_000
	for range n {
		slot, _ := s.pick(r)
		counts[slot]++
	}
	for i, w := range weights {
		if got := counts[i] / n; math.Abs(got-w/10) > 0.01 {
			t.Errorf("priority %g was picked in %g of all", w, got)
		}
	}
}

// TestHugePriorities: weights that no number holds leave the choice among the items.
func TestHugePriorities(t *testing.T) {
	p := &prioritized{exponent: 2}
	r := rand.New(rand.NewPCG(1, 2))
	for slot := range 100 {
		p.insert(slot, 1e200)
	}
	for slot := range 99 {
		p.remove(slot)
	}
	p.insert(3, 1e300)
	for range 100 {
		if slot, probability := p.pick(r); slot != 3 && slot != 99 || probability != 0.5 {
			t.Fatal(slot, probability)
		}
	}
}
