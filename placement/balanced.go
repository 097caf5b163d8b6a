package placement

import "time"

// tries is how many nodes are drawn before the whole view is read. Where half of the nodes fit, eight find two of them
// in 96 of 100 cases.
const tries = 8

// pair is the two nodes between which balanced decides; b is -1 where there is but one.
type pair struct{ a, b int }

// sample draws two nodes that fit and are sound, without reading all of the view. ok is false when it did not find
// them.
func (v *View) sample(r *Request, d *draw) (p pair, ok bool) {
	if len(v.nodes) < 2 {
		return p, false
	}
	p.a = -1
	for range tries {
		i := v.node(d)
		if i == p.a || v.exclude(i, r) != fit || v.reserve(i, r.Avoid) != 0 {
			continue
		}
		if p.a >= 0 {
			p.b = i
			return p, true
		}
		p.a = i
	}
	return p, false
}

// two draws two of c, or its only one, with odds by size.
func (v *View) two(c *set, d *draw) pair {
	p := pair{c.bySize(d), -1}
	if c.n > 1 {
		c.remove(p.a)
		p.b = c.bySize(d)
		c.add(p.a)
	}
	return p
}

// better is the power of two choices (Mitzenmacher 2001): of two random nodes the less busy one. Taking the least
// busy of all would make all nodes that read the same stale report choose the same node.
func (v *View) better(p pair, r *Request) int {
	if p.b < 0 {
		return p.a
	}
	v.refresh(p.a, p.b)
	if !v.busier(p.a, p.b, r) {
		return p.a
	}
	return p.b
}

// A wait must be longer than another by slack to count, and by an eighth: the estimate is no better, and with a
// difference that means nothing the grains would not be even. Grains do not stand in the task queue, they only share
// its CPUs, so for them a queue counts once it is a backlog.
const (
	taskSlack  = time.Millisecond
	grainSlack = 100 * time.Millisecond
)

// busier reports whether a should rather not take r when b can.
func (v *View) busier(a, b int, r *Request) bool {
	m, n := &v.nodes[a], &v.nodes[b]
	slack := grainSlack
	if r.Kind == Task {
		slack = taskSlack
	}
	x, y := m.Wait(r.Needs), n.Wait(r.Needs)
	if x > y+y/8+slack {
		return true
	}
	if y > x+x/8+slack {
		return false
	}
	if r.Kind == Task {
		if x, y := m.load(), n.load(); x != y {
			return x > y
		}
	}
	return float64(m.Grains)*n.size() > float64(n.Grains)*m.size()
}

// load is the tasks per CPU.
func (n *Node) load() float64 { return float64(n.Queued+n.Running) / n.size() }
