package raysys

// Blocked is what a turn waits for: need of the futures on. For runtimes.
type Blocked struct {
	on   []*Core
	need int
}

// SetBlocked records that t waits for c while it runs c in place, and returns what undoes it. For engines. A grain's
// turn lets others in meanwhile, as it does when it parks: c may call the grain.
func (t *Turn) SetBlocked(b *Blocked, c *Core) (undo *Blocked) {
	b.on, b.need = []*Core{c}, 1
	undo = t.base.block.Swap(b)
	if t.base.kind == TurnGrain {
		t.job.Runtime.Block(t.base)
	}
	return undo
}

// RestoreBlocked ends SetBlocked.
func (t *Turn) RestoreBlocked(prev *Blocked) {
	if t.base.kind == TurnGrain {
		t.job.Runtime.Unblock(t.base)
	}
	t.base.block.Store(prev)
}

// Recheck looks for a cycle that c closes because only now it waits for turns: a grain call whose argument arrived
// after somebody began to wait for the call. For runtimes.
func Recheck(c *Core) {
	held, _ := c.work.Waits()
	for _, t := range held {
		if t.base.block.Load() != nil {
			breakCycle(t.base)
		}
	}
}

// breakCycle runs when x has begun to wait. It follows each future to its producer, and a blocked producer to what it
// waits for (rule C5). Whoever can go on is taken out, then those who wait only for such, and so forth. If x is left
// over, nothing would ever move it; then a grain call that is queued behind a blocked turn on the way from x back to x
// gives way: it is refused with the chain, or admitted where its grain is reentrant. That is repeated until x can go
// on, since it may wait for several.
//
// A turn publishes what it waits for before it looks, and loads and stores are sequentially consistent, so of the
// turns that close a cycle at the same time at least the last one sees all of it.
func breakCycle(x *Turn) {
	b := x.block.Load()
	if b == nil || movable(b) {
		return // nearly always: no search, and nothing allocated
	}
	s := search{}
	for s.stuck(x) {
		chain, queued := s.wayBack()
		if !s.giveWay(chain, queued) {
			return // x depends on a cycle of others, whose own waits see to it
		}
	}
}

// movable reports whether enough of what b waits for needs nobody who is blocked.
func movable(b *Blocked) bool {
	free := 0
	for _, c := range b.on {
		switch w := c.word.Load() & phaseMask; {
		case w >= phaseReady:
			free++
		case w == phaseRunning:
			if own := c.own.Load(); own == nil || own.block.Load() == nil {
				free++
			}
		default:
			if held, needs := c.work.Waits(); len(held) == 0 && len(needs) == 0 {
				free++
			}
		}
		if free >= b.need {
			return true
		}
	}
	return false
}

// search is one walk over the waits that x depends on.
type search struct {
	nodes []*node // nodes[0] is x
	turns map[*Turn]*node
	cores map[*Core]*node
	gave  []*Core // calls that gave way: no longer in anyone's way
}

// node is a blocked turn, or a future whose work cannot start yet. It can go on when need of next can.
type node struct {
	turn *Turn
	core *Core
	held bool // core is a grain call behind blocked turns
	next []*node
	free int // of what it waits for, how much depends on no node
	need int
	live bool
	from *node // on the way from x
}

func (s *search) stuck(x *Turn) bool {
	s.nodes, s.turns, s.cores = s.nodes[:0], map[*Turn]*node{}, map[*Core]*node{}
	s.turnNode(x)
	for i := 0; i < len(s.nodes); i++ {
		s.expand(s.nodes[i])
	}
	if len(s.nodes) == 0 {
		return false
	}
	// What a node waits for mostly comes after it, so going backwards few rounds are needed.
	for changed := true; changed; {
		changed = false
		for i := len(s.nodes) - 1; i >= 0; i-- {
			n := s.nodes[i]
			if n.live {
				continue
			}
			can := n.free
			for _, m := range n.next {
				if m.live {
					can++
				}
			}
			if can >= n.need {
				n.live, changed = true, true
			}
		}
	}
	return !s.nodes[0].live
}

func (s *search) add(n *node) *node {
	s.nodes = append(s.nodes, n)
	return n
}

// turnNode returns the node of t, nil when t is not blocked.
func (s *search) turnNode(t *Turn) *node {
	t = t.base
	if n := s.turns[t]; n != nil {
		return n
	}
	if t.block.Load() == nil {
		return nil
	}
	n := s.add(&node{turn: t})
	s.turns[t] = n
	return n
}

// coreNode returns the node that c depends on, nil when c needs nobody who is blocked.
func (s *search) coreNode(c *Core) *node {
	if n := s.cores[c]; n != nil {
		return n
	}
	for _, g := range s.gave {
		if g == c {
			return nil
		}
	}
	switch w := c.word.Load() & phaseMask; {
	case w >= phaseReady:
		return nil
	case w == phaseRunning:
		if own := c.own.Load(); own != nil {
			return s.turnNode(own)
		}
		return nil
	}
	if held, needs := c.work.Waits(); len(held) == 0 && len(needs) == 0 {
		return nil
	}
	n := s.add(&node{core: c})
	s.cores[c] = n
	return n
}

func (s *search) expand(n *node) {
	follow := func(m *node) {
		if m == nil {
			n.free++
			return
		}
		n.next = append(n.next, m)
	}
	if n.turn != nil {
		b := n.turn.block.Load()
		if b == nil {
			return // it went on meanwhile
		}
		n.need = b.need
		for _, c := range b.on {
			follow(s.coreNode(c))
		}
		return
	}
	held, needs := n.core.work.Waits()
	n.need = len(held) + len(needs)
	for _, t := range held {
		n.held = true
		follow(s.turnNode(t))
	}
	for _, c := range needs {
		follow(s.coreNode(c))
	}
}

// wayBack returns the turns of the shortest way from x back to x over nodes that are stuck, and the calls on it that
// may give way, nearest x first.
func (s *search) wayBack() (chain []string, queued []*Core) {
	x := s.nodes[0]
	queue := []*node{x}
	for i := 0; i < len(queue); i++ {
		n := queue[i]
		for _, m := range n.next {
			switch {
			case m == x:
				for ; n != nil; n = n.from {
					switch {
					case n.turn != nil:
						chain = append([]string{n.turn.name}, chain...)
					case n.held:
						queued = append([]*Core{n.core}, queued...)
					}
				}
				return append(chain, x.turn.name), queued
			case !m.live && m.from == nil:
				m.from = n
				queue = append(queue, m)
			}
		}
	}
	return nil, nil
}

func (s *search) giveWay(chain []string, queued []*Core) bool {
	for _, c := range queued {
		if c.work.Break(chain) {
			s.gave = append(s.gave, c)
			return true
		}
	}
	return false
}
