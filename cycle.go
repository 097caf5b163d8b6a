package raysys

// Blocked is what a turn waits for: need of the futures on. For runtimes.
type Blocked struct {
	on   []*Core
	need int
}

// SetBlocked records that t waits for c while it runs c in place, and returns what undoes it. For engines.
func (t *Turn) SetBlocked(b *Blocked, c *Core) (undo *Blocked) {
	b.on, b.need = []*Core{c}, 1
	return t.base.block.Swap(b)
}

// RestoreBlocked ends SetBlocked.
func (t *Turn) RestoreBlocked(prev *Blocked) { t.base.block.Store(prev) }

// breakCycle runs when x has begun to wait. It follows each future to its producer, and a blocked producer to what it
// waits for (rule C5). If every way on leads back to x, nothing would ever move; then a grain call that is queued
// behind a blocked turn on that way gives way: it is refused with the chain, or admitted where its grain is
// reentrant.
//
// A turn publishes what it waits for before it looks, and loads and stores are sequentially consistent, so of the
// turns that close a cycle at the same time at least the last one sees all of it.
func breakCycle(x *Turn) {
	s := search{x: x}
	if !s.turn(x, true) {
		return
	}
	for _, c := range s.queued {
		if c.work.Break(s.chain) {
			return
		}
	}
}

// search is one walk over the waits.
type search struct {
	x      *Turn
	seen   []*Turn
	known  map[*Core]bool // answers for futures that others need, each asked for once however often it is needed
	queued []*Core        // grain calls behind blocked turns, nearest x first
	chain  []string       // the cycle in words
}

// turn reports whether z cannot go on without x.
func (s *search) turn(z *Turn, first bool) bool {
	if z == s.x && !first {
		s.chain = append(s.chain, z.name)
		return true
	}
	for _, t := range s.seen {
		if t == z {
			return false
		}
	}
	b := z.block.Load()
	if b == nil {
		return false
	}
	s.seen = append(s.seen, z)
	stuck := 0
	queued, chain := len(s.queued), len(s.chain)
	s.chain = append(s.chain, z.name)
	for _, c := range b.on {
		if s.core(c) {
			stuck++
		}
		if len(b.on)-stuck < b.need {
			return true
		}
	}
	s.queued, s.chain = s.queued[:queued], s.chain[:chain]
	return false
}

// core reports whether c cannot settle without x.
func (s *search) core(c *Core) bool {
	switch w := c.word.Load() & phaseMask; {
	case w >= phaseReady:
		return false
	case w == phaseRunning:
		own := c.own.Load()
		return own != nil && s.turn(own, false)
	}
	held, needs := c.work.Waits()
	mark := len(s.queued)
	if len(held) > 0 {
		s.queued = append(s.queued, c)
	}
	for _, t := range held {
		if s.turn(t.base, false) {
			return true
		}
	}
	for _, n := range needs {
		if s.needed(n) {
			return true
		}
	}
	s.queued = s.queued[:mark]
	return false
}

func (s *search) needed(c *Core) bool {
	stuck, ok := s.known[c]
	if !ok {
		if s.known == nil {
			s.known = map[*Core]bool{}
		}
		s.known[c] = false
		stuck = s.core(c)
		s.known[c] = stuck
	}
	return stuck
}
