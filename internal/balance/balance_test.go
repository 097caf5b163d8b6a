package balance_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/raysys/raysys/internal/balance"
)

// cluster is a drawn one: nodes, and the grains that each has.
type cluster struct {
	nodes  []balance.Node
	grains [][]float64
}

// draw draws 2 to 12 nodes of one size or of several, with grains of equal, exponential or very unequal loads.
func draw(rng *rand.Rand) (c cluster) {
	sizes, shape, skew := rng.IntN(2) == 0, rng.IntN(3), rng.Float64()*3
	for range 2 + rng.IntN(11) {
		n := balance.Node{CPUs: 4}
		if sizes {
			n.CPUs = float64(int(1) << rng.IntN(5))
		}
		var list []float64
		for range int(200 * math.Pow(rng.Float64(), skew)) {
			load := 1.0
			switch shape {
			case 1:
				load = rng.ExpFloat64()
			case 2:
				load = math.Pow(rng.Float64(), -1.2)
			}
			list = append(list, load)
			n.Load += load
		}
		c.nodes, c.grains = append(c.nodes, n), append(c.grains, list)
	}
	return c
}

// step has every node that is to give do so, all by the same reports, and checks the laws of one step.
func (c *cluster) step(t *testing.T) (moved int) {
	before := slices.Clone(c.nodes)
	mean := balance.Mean(before)
	got := make([]float64, len(before))  // how much each node got
	most := make([]float64, len(before)) // the largest grain that it got
	type arrival struct {
		to   int
		load float64
	}
	var arrivals []arrival
	for self := range before {
		gifts := balance.Gifts(before, self)
		if gifts == nil {
			continue
		}
		if before[self].Load/before[self].CPUs <= balance.High*mean {
			t.Fatalf("node %d gives with %v for a CPU, and the mean is %v", self, before[self].Load/before[self].CPUs, mean)
		}
		list := make([]balance.Grain, len(c.grains[self]))
		for i, load := range c.grains[self] {
			list[i] = balance.Grain{Load: load, Fits: func(int) bool { return true }}
		}
		moves := balance.Choose(before, self, gifts, list, len(list))
		gone := map[int]bool{}
		for _, m := range moves {
			if gone[m.Grain] || m.To == self {
				t.Fatalf("grain %d of node %d goes twice, or to its own node", m.Grain, self)
			}
			gone[m.Grain] = true
			load := list[m.Grain].Load
			if d := (before[self].Load/before[self].CPUs - before[m.To].Load/before[m.To].CPUs); load*(1/before[self].CPUs+1/before[m.To].CPUs) > d+1e-9 {
				t.Fatalf("a grain of load %v goes from %+v to %+v: it would come back", load, before[self], before[m.To])
			}
			got[m.To] += load
			most[m.To] = max(most[m.To], load)
			arrivals = append(arrivals, arrival{m.To, load})
			c.nodes[self].Load -= load
		}
		kept := c.grains[self][:0]
		for i, load := range c.grains[self] {
			if !gone[i] {
				kept = append(kept, load)
			}
		}
		c.grains[self] = kept
		moved += len(moves)
		if low := mean*before[self].CPUs - list2max(list)/2*float64(len(before)); c.nodes[self].Load < low-1e-9 {
			t.Fatalf("node %d goes down to %v; its share of the mean is %v", self, c.nodes[self].Load, mean*before[self].CPUs)
		}
	}
	givers := 0
	for self := range before {
		if balance.Gifts(before, self) != nil {
			givers++
		}
	}
	for i, load := range got {
		if lack := mean*before[i].CPUs - before[i].Load; load > 0 && load > lack+most[i]/2*float64(givers)+1e-9 {
			t.Fatalf("node %d lacks %v, and gets %v", i, lack, load)
		}
	}
	for _, a := range arrivals {
		c.grains[a.to] = append(c.grains[a.to], a.load)
		c.nodes[a.to].Load += a.load
	}
	return moved
}

func list2max(list []balance.Grain) (most float64) {
	for _, g := range list {
		most = max(most, g.Load)
	}
	return most
}

// spread is the sum of the squares of the loads for a CPU, weighted by CPUs: each move that evens out makes it less.
func (c *cluster) spread() (s float64) {
	for _, n := range c.nodes {
		s += n.Load * n.Load / n.CPUs
	}
	return s
}

// TestLawOfBalance: in 10,000 drawn clusters every step makes the loads more even, no single move could be taken back, no node gets more
// than it lacks, and after a few steps nothing moves any more: then a node above High has only grains that no other can take.
func TestLawOfBalance(t *testing.T) {
	for seed := range uint64(10_000) {
		rng := rand.New(rand.NewPCG(seed, 65))
		c := draw(rng)
		steps, moved := 0, 1
		for ; moved > 0; steps++ {
			if steps == 40 {
				t.Fatalf("seed %d: grains move without an end: %+v", seed, c.nodes)
			}
			was := c.spread()
			if moved = c.step(t); moved > 0 && c.spread() >= was {
				t.Fatalf("seed %d: %d moves make it less even", seed, moved)
			}
		}
		mean := balance.Mean(c.nodes)
		for i, n := range c.nodes {
			if n.Load/n.CPUs <= balance.High*mean {
				continue
			}
			for _, load := range c.grains[i] { // one that could go and does not would be a node that stays too high
				for j, o := range c.nodes {
					share := (n.Load - mean*n.CPUs) * max(0, mean*o.CPUs-o.Load) / lacks(c.nodes, mean)
					if share >= load/2 && (n.Load-load)/n.CPUs >= (o.Load+load)/o.CPUs {
						t.Fatalf("seed %d: node %d of %+v keeps a grain of load %v that node %d can take", seed, i, c.nodes, load, j)
					}
				}
			}
		}
	}
}

func lacks(nodes []balance.Node, mean float64) (all float64) {
	for _, n := range nodes {
		all += max(0, mean*n.CPUs-n.Load)
	}
	return all
}

// TestOneJoins: a node that joins gets its share of many equal grains by no more moves than are needed, also where chance makes the counts
// of alike grains differ.
func TestOneJoins(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 4))
		perGrain := 1 + rng.Float64()*20
		nodes := make([]balance.Node, 4)
		counts := make([][]float64, 3)
		for i := range counts {
			for range 1000 {
				n := poisson(rng, perGrain)
				counts[i] = append(counts[i], n)
				nodes[i].Load += n
			}
		}
		for i := range nodes {
			nodes[i].CPUs = 2
		}
		moved := 0
		for i := range counts {
			var list []balance.Grain
			for _, n := range balance.Steady(counts[i]) {
				list = append(list, balance.Grain{Load: n, Fits: func(to int) bool { return to != i }})
			}
			moved += len(balance.Choose(nodes, i, balance.Gifts(nodes, i), list, 1000))
		}
		if moved < 675 || moved > 825 { // 750 are even
			t.Errorf("seed %d: %d of 3000 grains move to the fourth node", seed, moved)
		}
	}
}

// poisson draws a count with that mean.
func poisson(rng *rand.Rand, mean float64) (n float64) {
	for at := rng.ExpFloat64(); at < mean; at += rng.ExpFloat64() {
		n++
	}
	return n
}

// TestHottestStays: a grain that is more than half of the difference stays, others leave it; one whose nodes do not fit stays, too.
func TestHottestStays(t *testing.T) {
	nodes := []balance.Node{{1, 100}, {1, 10}, {1, 10}}
	all, none := func(int) bool { return true }, func(int) bool { return false }
	got := balance.Choose(nodes, 0, balance.Gifts(nodes, 0), []balance.Grain{{60, all}, {20, all}, {19, none}, {1, all}}, 9)
	if want := []balance.Move{{1, 1}, {3, 2}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := balance.Choose(nodes, 0, balance.Gifts(nodes, 0), []balance.Grain{{5, all}, {5, all}}, 1); len(got) != 1 {
		t.Errorf("got %v with a limit of 1", got)
	}
	if balance.Gifts([]balance.Node{{1, 9}}, 0) != nil || balance.Gifts([]balance.Node{{1, 12}, {1, 10}}, 0) != nil || balance.Gifts(make([]balance.Node, 2), 0) != nil {
		t.Error("a node gives that is alone, has little more than the mean, or has no load as the others")
	}
}

// TestSteady: of counts that differ by chance alone nearly nothing is left of the differences; large ones stay.
func TestSteady(t *testing.T) {
	if got := balance.Steady([]float64{3, 1, 2, 2}); !slices.Equal(got, []float64{2, 2, 2, 2}) {
		t.Errorf("got %v", got)
	}
	got := balance.Steady([]float64{1000, 1, 0, 1})
	if got[0] < 950 || got[1] > 50 {
		t.Errorf("got %v", got)
	}
	if got := balance.Steady(nil); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

// TestHand: drawn numbers of standing grains are even after one step of all nodes, by the fewest moves, and then nothing moves.
func TestHand(t *testing.T) {
	for seed := range uint64(10_000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		counts := make([]int, 1+rng.IntN(9))
		all := 0
		for i := range counts {
			counts[i] = rng.IntN(20) * rng.IntN(3)
			all += counts[i]
		}
		after, moved := slices.Clone(counts), 0
		for self := range counts {
			for to, n := range balance.Hand(counts, self) {
				after[self] -= n
				after[to] += n
				moved += n
			}
		}
		if slices.Max(after)-slices.Min(after) > 1 {
			t.Fatalf("seed %d: %v become %v", seed, counts, after)
		}
		least, sorted := 0, slices.Sorted(slices.Values(counts))
		slices.Reverse(sorted)
		for rank, n := range sorted {
			share := all / len(counts)
			if rank < all%len(counts) {
				share++
			}
			least += max(0, n-share)
		}
		if moved != least {
			t.Fatalf("seed %d: %d of %v move, and %d are needed", seed, moved, counts, least)
		}
		for self := range after {
			for _, n := range balance.Hand(after, self) {
				if n != 0 {
					t.Fatalf("seed %d: %v are even, and %d move", seed, after, n)
				}
			}
		}
	}
}
