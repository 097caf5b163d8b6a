package devices

import (
	"math"
	"slices"
)

// Link is one NVLink of a GPU, seen from there.
type Link struct {
	Remote string // PCI address of what is at its other end
	Switch bool   // that is a switch, not a GPU
}

// matrix counts the links between devices whose GPUs have these links. Two GPUs at one switch are linked through it as often
// as the one with fewer links to it; what a link leads to may be outside the inventory.
func matrix(list []Device, links [][]Link) [][]int {
	m := make([][]int, len(list))
	for i := range list {
		m[i] = make([]int, len(list))
		for j := range list {
			if i != j && !list[i].MIG() && !list[j].MIG() {
				m[i][j] = between(links[i], links[j], list[j].PCI)
			}
		}
	}
	return m
}

// between counts the links of a GPU to another, which is at that address and has links of its own.
func between(from, to []Link, address string) (n int) {
	switches := map[string]int{}
	for _, l := range from {
		if l.Switch {
			switches[l.Remote]++
		} else if l.Remote == address {
			n++
		}
	}
	for _, l := range to {
		if l.Switch && switches[l.Remote] > 0 {
			switches[l.Remote]--
			n++
		}
	}
	return n
}

// exhaustive is how many sets Best compares at most: all of any size among 16 devices, in half a millisecond (BenchmarkBest).
const exhaustive = 12870

// Best chooses n of the free devices, by their numbers: those with the most links among them; of several such sets the one
// that leaves the most links among the rest, so that the next set is good too; of these the first. It returns nil when there
// are fewer than n, and sorts the rest of its answers.
//
// Up to 16 free devices every set is looked at. Among more, such as MIG instances, which have no links, a set grows from
// each device by the one with the most links into it, and the best of those is taken.
//
// A [Source] need not know the links: devices of which links has no row or no column have none.
func Best(links [][]int, free []int, n int) []int {
	if n <= 0 || n > len(free) {
		return nil
	}
	free = slices.Sorted(slices.Values(free))
	c := chooser{links: links, free: free, degree: make([]int, free[len(free)-1]+1), set: make([]int, 0, n), score: -1}
	for _, a := range free {
		for _, b := range free {
			c.degree[a] += c.linked(a, b)
		}
		c.total += c.degree[a]
	}
	c.total /= 2
	if binomial(len(free), n) <= exhaustive {
		c.all(0, n, 0)
	} else {
		c.grow(n)
	}
	return c.best
}

// chooser looks for the best set.
type chooser struct {
	links  [][]int
	free   []int
	degree []int // links of each device with all that are free
	total  int   // links among the free
	set    []int // the set that is built
	best   []int
	score  int // links within best
	left   int // links among the rest of free
}

// all tries every set that has the ones in c.set, whose links are score, and further ones from free[from:].
func (c *chooser) all(from, n, score int) {
	if len(c.set) == n {
		c.offer(score)
		return
	}
	for i := from; i <= len(c.free)-(n-len(c.set)); i++ {
		d := c.free[i]
		more := c.into(d)
		c.set = append(c.set, d)
		c.all(i+1, n, score+more)
		c.set = c.set[:len(c.set)-1]
	}
}

// grow tries one set from each device.
func (c *chooser) grow(n int) {
	for _, first := range c.free {
		c.set = append(c.set[:0], first)
		score := 0
		for len(c.set) < n {
			next, most := -1, -1
			for _, d := range c.free {
				if m := c.into(d); m > most && !slices.Contains(c.set, d) {
					next, most = d, m
				}
			}
			c.set = append(c.set, next)
			score += most
		}
		c.offer(score)
	}
}

// into counts the links of d with the set.
func (c *chooser) into(d int) (n int) {
	for _, s := range c.set {
		n += c.linked(d, s)
	}
	return n
}

// linked is the number of links of device a to b, none where they are not known.
func (c *chooser) linked(a, b int) int {
	if a >= len(c.links) || b >= len(c.links[a]) {
		return 0
	}
	return c.links[a][b]
}

// offer takes the set when it is better than the best.
func (c *chooser) offer(score int) {
	if score < c.score {
		return
	}
	// Links of the set's devices count once each, and those within it twice.
	left := c.total + score
	for _, d := range c.set {
		left -= c.degree[d]
	}
	if score > c.score || left > c.left {
		c.best, c.score, c.left = slices.Sorted(slices.Values(c.set)), score, left
	}
}

// binomial is how many sets of k there are of n; at most about 2^31.
func binomial(n, k int) int {
	r := 1
	for i := range min(k, n-k) {
		if r = r * (n - i) / (i + 1); r > math.MaxInt32 {
			return r
		}
	}
	return r
}
