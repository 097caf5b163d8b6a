package member

import (
	"slices"
)

// A broken pair is two members that both live, renew, and do not hear each other, with no third node to relay between
// them. Each of them says so in its own record, so that all members see the same graph of broken pairs and come to
// the same verdict without talking: the node with the fewest links leaves, on a tie the junior one, which is no host
// yet or has the later incarnation; its pairs are mended by that, and if some are left, the next one goes. In a cut
// between two groups this takes the smaller group, and of two equal ones the one that has the latest incarnation,
// rather than nodes of both.

// pair is two incarnations, the smaller first.
type pair struct{ a, b uint64 }

func pairOf(a, b uint64) pair { return pair{min(a, b), max(a, b)} }

// brokenPairs returns the pairs that at least one of two members names, each once, in order.
func brokenPairs(nodes []Node) []pair {
	var pairs []pair
	for _, n := range nodes {
		for _, other := range n.unheard {
			member := slices.ContainsFunc(nodes, func(o Node) bool { return o.Incarnation == other })
			if p := pairOf(n.Incarnation, other); member && p.a != p.b && !slices.Contains(pairs, p) {
				pairs = append(pairs, p)
			}
		}
	}
	slices.SortFunc(pairs, func(p, q pair) int {
		if p.a != q.a {
			return compare(p.a, q.a)
		}
		return compare(p.b, q.b)
	})
	return pairs
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// leavers returns the incarnations that should leave, in order, at most half of the members.
func leavers(nodes []Node, pairs []pair) []uint64 {
	members := make(map[uint64]Node, len(nodes))
	for _, n := range nodes {
		members[n.Incarnation] = n
	}
	var out []uint64
	rest := slices.Clone(pairs)
	for len(rest) > 0 && len(out) < len(nodes)/2 {
		broken := map[uint64]int{}
		for _, p := range rest {
			broken[p.a]++
			broken[p.b]++
		}
		var worst uint64
		for id, n := range broken {
			if n > broken[worst] || n == broken[worst] && juniorOf(members, id, worst) == id {
				worst = id
			}
		}
		out = append(out, worst)
		rest = slices.DeleteFunc(rest, func(p pair) bool { return p.a == worst || p.b == worst })
	}
	return out
}
