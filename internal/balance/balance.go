package balance

import (
	"cmp"
	"slices"
)

// High is the share of the mean above which a node gives. A node between the mean and High keeps what it has: to move
// costs more than such a difference.
const High = 1.25

// Node is what a node reports.
type Node struct {
	CPUs float64
	Load float64 // of its grains, in any unit
}

// each is the node's load for a CPU.
func (n Node) each() float64 { return n.Load / max(n.CPUs, 1e-3) }

// Mean is the load of all nodes together for a CPU.
func Mean(nodes []Node) float64 {
	var all Node
	for _, n := range nodes {
		all.Load += n.Load
		all.CPUs += max(n.CPUs, 1e-3)
	}
	return all.each()
}

// Gifts returns how much load the node self gives to each node; nil where it gives nothing. A node above High of the
// mean gives what it has above the mean. The nodes below the mean share that by what they lack: several givers together
// give a node no more than it lacks.
func Gifts(nodes []Node, self int) []float64 {
	mean := Mean(nodes)
	excess := nodes[self].Load - mean*nodes[self].CPUs
	if len(nodes) < 2 || nodes[self].each() <= High*mean {
		return nil
	}
	lack := 0.0 // of all: as much as all nodes above the mean have above it
	gifts := make([]float64, len(nodes))
	for i, n := range nodes {
		gifts[i] = max(0, mean*n.CPUs-n.Load)
		lack += gifts[i]
	}
	for i := range gifts {
		gifts[i] *= excess / lack
	}
	return gifts
}

// Grain is one that may move.
type Grain struct {
	Load float64
	Fits func(node int) bool // whether a node may have it
}

// Move is one grain, by its place in the list, and the node that it goes to.
type Move struct{ Grain, To int }

// Choose returns which grains the node self gives for gifts, the largest first and at most limit of them: so the fewest
// go. A grain goes only to a node that has less load than self for each CPU also when the grain is there. So the
// hottest grain of a node stays, and others leave it.
func Choose(nodes []Node, self int, gifts []float64, list []Grain, limit int) (moves []Move) {
	nodes, gifts = slices.Clone(nodes), slices.Clone(gifts)
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(list[b].Load, list[a].Load) })
	for _, i := range order {
		g := list[i]
		if len(moves) == limit || g.Load <= 0 {
			break
		}
		to := -1
		for n := range nodes {
			// Half of a grain may be above the gift: else what is left of each gift would add up.
			best := gifts[n] >= g.Load/2 && (to < 0 || gifts[n] > gifts[to])
			if best && lowers(nodes[self], nodes[n], g.Load) && g.Fits(n) {
				to = n
			}
		}
		if to < 0 {
			continue
		}
		moves = append(moves, Move{i, to})
		gifts[to] -= g.Load
		nodes[self].Load -= g.Load
		nodes[to].Load += g.Load
	}
	return moves
}

// lowers reports whether a load that goes from one node to another leaves the first with no less for a CPU than the
// second.
func lowers(from, to Node, load float64) bool {
	from.Load -= load
	to.Load += load
	return from.each() >= to.each()
}

// Steady returns estimates of how many turns each grain has in a window, where n were counted. A count of few turns is
// chance more than habit: of grains that are all alike some had many, and none of these is worth more than another. So
// counts are drawn to their mean by the share of their variance that chance explains.
func Steady(n []float64) []float64 {
	mean, variance := 0.0, 0.0
	for _, x := range n {
		mean += x / float64(len(n))
	}
	for _, x := range n {
		variance += (x - mean) * (x - mean) / float64(len(n))
	}
	habit := 1.0
	if variance > 0 {
		habit = max(0, 1-mean/variance) // the variance of chance is the mean, as of a Poisson process
	}
	steady := make([]float64, len(n))
	for i, x := range n {
		steady[i] = mean + (x-mean)*habit
	}
	return steady
}

// Hand returns how many of its standing grains the node self gives to each node. The numbers of all nodes, where each
// gives so, differ by one at most, and no fewer grains could move for that. Of those that have the one more, most had
// it before.
func Hand(counts []int, self int) []int {
	order, all := make([]int, len(counts)), 0
	for i, n := range counts {
		order[i] = i
		all += n
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(counts[b], counts[a]) })
	over := make([]int, len(counts)) // above 0: to give; below: to get
	for rank, i := range order {
		over[i] = counts[i] - all/len(counts)
		if rank < all%len(counts) {
			over[i]--
		}
	}
	give := make([]int, len(counts))
	to := 0
	for from := range over { // all nodes go through the same list
		for over[from] > 0 {
			for over[to] >= 0 {
				to++
			}
			n := min(over[from], -over[to])
			over[from] -= n
			over[to] += n
			if from == self {
				give[to] += n
			}
		}
	}
	return give
}
