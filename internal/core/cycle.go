package core

import "sync/atomic"

// Blocked is what a turn waits for: need of the futures on.
type Blocked struct {
	on     []*Future
	need   int
	serial atomic.Uint64 // names this wait to other nodes; 0 until one asks
	Of     *Future       // of the turn that waits, where it runs in place what it waits for and the engine knows it
}

// SetBlocked records that t waits for c while it runs c in place, and returns what undoes it. For engines. A grain's
// turn lets others in meanwhile, as it does when it parks: c may call the grain.
func (t *Turn) SetBlocked(b *Blocked, c *Future) (undo *Blocked) {
	b.on, b.need = []*Future{c}, 1
	undo = t.base.block.Swap(b)
	if t.base.kind == TurnGrain {
		t.job.Runtime.Block(t.base)
	}
	return undo
}

// RunsInPlace returns the work that c, which it submitted, runs in place of; nil where there is none.
func RunsInPlace(c *Future) *Future {
	if b := c.up.base.block.Load(); b != nil && b.Of != nil && len(b.on) == 1 && b.on[0] == c {
		return b.Of
	}
	return nil
}

// RestoreBlocked ends SetBlocked.
func (t *Turn) RestoreBlocked(prev *Blocked) {
	if t.base.kind == TurnGrain {
		t.job.Runtime.Unblock(t.base)
	}
	t.base.block.Store(prev)
}

// Recheck looks for a cycle that c closes because it waits for turns only now: a grain call whose argument arrived
// after a turn began to wait for the call.
func Recheck(c *Future) {
	behind, _ := c.work.Waits()
	for _, t := range behind {
		if t.base.block.Load() != nil {
			breakCycle(t.base)
		}
	}
}

// breakCycle runs when x has begun to wait. It follows each future to its producer, and a blocked producer to what it
// waits for (rule C5). Turns that can go on are taken out, then turns that wait only for those, and so forth. If x is
// left over, it would wait for ever. Then a grain call that is queued behind a blocked turn on the way from x back to
// x gives way: it is refused with the chain, or admitted where its grain is reentrant. That is repeated until x can
// go on, since it may wait for several futures. A turn publishes what it waits for before it looks, and loads and
// stores are sequentially consistent. So of the turns that close a cycle at the same time at least the last one sees
// the whole cycle.
//
// It reports whether x may be part of a cycle that only other nodes can show (probe.go).
func breakCycle(x *Turn) (unseen bool) {
	b := x.block.Load()
	if b == nil {
		return false
	}
	free, away := movable(b, x.job.Prober)
	if free+away >= b.need {
		return free < b.need // nearly always: no search, and nothing allocated
	}
	s := search{}
	for s.from(x); Stuck(s.waits); s.from(x) {
		chain, queued := WayBack(s.waits)
		if !s.giveWay(chain, queued) {
			break // x depends on a cycle of others, whose own waits see to it
		}
	}
	return x.job.Prober != nil
}

// movable counts the futures of b that depend on no blocked turn (free), up to the number that b needs, and those
// that another node computes (away).
func movable(b *Blocked, p Prober) (free, away int) {
	for _, c := range b.on {
		switch w := c.word.Load() & phaseMask; {
		case w >= phaseReady:
			free++
		case w == phaseRunning:
			switch own := c.own.Load(); {
			case own != nil && own.block.Load() != nil:
			case p != nil && p.Away(c):
				away++
			default:
				free++
			}
		default:
			switch behind, needs := c.work.Waits(); {
			case len(behind) > 0 || len(needs) > 0:
			case p != nil && p.Away(c):
				away++
			default:
				free++
			}
		}
		if free >= b.need {
			break
		}
	}
	return free, away
}

// search is one walk over the waits that a turn or a future depends on.
type search struct {
	waits   []Waiting // the first is where the walk began
	turns   map[*Turn]int
	futures map[*Future]int
	gave    []*Future          // calls that gave way: no longer in anyone's way
	far     func(*Future) bool // reports what another node computes; nil to take that for what can go on
}

func (s *search) begin() {
	s.waits, s.turns, s.futures = s.waits[:0], map[*Turn]int{}, map[*Future]int{}
}

// from walks from x.
func (s *search) from(x *Turn) {
	s.begin()
	s.turnWait(x)
	s.walk()
}

func (s *search) walk() {
	for i := 0; i < len(s.waits); i++ {
		s.expand(i)
	}
}

// unblocked is the index of a turn or future that can go on.
const unblocked = -1

func (s *search) add(w Waiting) int {
	s.waits = append(s.waits, w)
	return len(s.waits) - 1
}

// turnWait returns the index of t in the list, unblocked when t is not blocked.
func (s *search) turnWait(t *Turn) int {
	t = t.base
	if i, ok := s.turns[t]; ok {
		return i
	}
	if t.block.Load() == nil {
		return unblocked
	}
	i := s.add(Waiting{turn: t, Name: t.name})
	s.turns[t] = i
	return i
}

// coreWait returns the index of the wait that c depends on, unblocked when c depends on no blocked turn.
func (s *search) coreWait(c *Future) int {
	if i, ok := s.futures[c]; ok {
		return i
	}
	for _, g := range s.gave {
		if g == c {
			return unblocked
		}
	}
	switch w := c.word.Load() & phaseMask; {
	case w >= phaseReady:
		return unblocked
	case w == phaseRunning:
		if own := c.own.Load(); own != nil {
			if i := s.turnWait(own); i != unblocked {
				return i
			}
		}
		return s.farWait(c)
	}
	if behind, needs := c.work.Waits(); len(behind) == 0 && len(needs) == 0 {
		return s.farWait(c)
	}
	i := s.add(Waiting{future: c})
	s.futures[c] = i
	return i
}

// farWait returns the place of c, which another node may compute.
func (s *search) farWait(c *Future) int {
	if s.far == nil || !s.far(c) {
		return unblocked
	}
	i := s.add(Waiting{future: c, Far: true, Need: 1})
	s.futures[c] = i
	return i
}

func (s *search) expand(i int) {
	n := s.waits[i]
	follow := func(j int) {
		if j == unblocked {
			n.Free++
			return
		}
		n.On = append(n.On, j)
	}
	switch {
	case n.Far:
		return
	case n.turn != nil:
		b := n.turn.block.Load()
		if b == nil {
			return // it went on meanwhile
		}
		n.Need = b.need
		if s.far != nil {
			n.ID = b.id()
		}
		for _, c := range b.on {
			follow(s.coreWait(c))
		}
	default:
		behind, needs := n.future.work.Waits()
		n.Need, n.Queued = len(behind)+len(needs), len(behind) > 0
		if s.far != nil {
			n.ID = n.future.ID()
		}
		for _, t := range behind {
			follow(s.turnWait(t))
		}
		for _, c := range needs {
			follow(s.coreWait(c))
		}
	}
	s.waits[i] = n
}

func (s *search) giveWay(chain []string, queued []int) bool {
	for _, i := range queued {
		if c := s.waits[i].future; c.work.Break(chain) {
			s.gave = append(s.gave, c)
			return true
		}
	}
	return false
}
