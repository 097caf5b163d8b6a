package core

import (
	"sync/atomic"
)

// Blocked is what a turn waits for: need of the futures on.
type Blocked struct {
	on     []*Future
	need   int
	serial atomic.Uint64 // names this wait to other nodes; 0 until one asks
	Of     *Future       // of the turn that waits, where it runs in place what it waits for and the engine knows it
}

// RunsInPlace returns the work that c, which it submitted, runs in place of; nil where there is none.
func RunsInPlace(c *Future) *Future {
	if b := c.up.block.Load(); b != nil && b.Of != nil && len(b.on) == 1 && b.on[0] == c {
		return b.Of
	}
	return nil
}

// Recheck looks for a cycle that c closes because it waits for turns only now: a grain call whose argument arrived
// after a turn began to wait for the call.
func Recheck(c *Future) {
	behind, _ := c.work.Waits()
	for _, t := range behind {
		if t.block.Load() != nil {
			breakCycle(t.Base())
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
// It reports whether x may be part of a cycle that only other nodes can show (cycle.go).
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
	t = t.Base()
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

// Waiting is a vertex of the wait graph: a blocked turn, a future whose work cannot start yet, or one that another
// node computes. It can go on when Need of its edges can.
type Waiting struct {
	ID     TaskID // of this wait: the next wait of the same turn has another
	Name   string // of a turn, "" for a future
	Queued bool   // a grain call behind blocked turns, which may give way
	Far    bool   // a future that another node computes: that node knows what it waits for
	Need   int
	Free   int   // how many of its edges depend on no other Waiting
	On     []int // the other edges, as indices in the list

	turn   *Turn
	future *Future
	live   bool
	from   int // the place before it on the way from the first
}

// WaitsFor lists up to limit of the futures that t waits for and that have not settled, and counts them; 0 where it waits for nothing.
// It may be out of date once it returns.
func WaitsFor(t *Turn, limit int) (on []*Future, count int) {
	b := t.block.Load()
	if b == nil {
		return nil, 0
	}
	for _, c := range b.on {
		if c == nil || c.Settled() {
			continue
		}
		if count++; count <= limit {
			on = append(on, c)
		}
	}
	return on, count
}

// Future is what a Waiting that Waits made, and that is Far or Held, waits for.
func (w *Waiting) Future() *Future { return w.future }

// serials numbers the waits that other nodes asked for.
var serials atomic.Uint64

func (b *Blocked) id() TaskID {
	if b.serial.Load() == 0 {
		b.serial.CompareAndSwap(0, serials.Add(1))
	}
	return TaskID{Lo: b.serial.Load()}
}

// Waits lists what t waits for as far as this node knows: t is the first, and the list is empty when t does not wait.
// far reports what another node computes.
func Waits(t *Turn, far func(*Future) bool) []Waiting {
	s := search{far: far}
	s.from(t)
	return s.waits
}

// WaitsOf is Waits for what computes c; the list is empty when it depends on no blocked turn.
func WaitsOf(c *Future, far func(*Future) bool) []Waiting {
	s := search{far: far}
	s.begin()
	s.coreWait(c)
	s.walk()
	return s.waits
}

// Stuck reports whether the first of waits can never go on. It marks the vertices that can (live).
func Stuck(waits []Waiting) bool {
	if len(waits) == 0 {
		return false
	}
	for i := range waits {
		waits[i].live = false
	}
	// The vertices that a vertex waits for mostly come after it, so few rounds are needed when they go backwards.
	for changed := true; changed; {
		changed = false
		for i := len(waits) - 1; i >= 0; i-- {
			n := &waits[i]
			if n.live {
				continue
			}
			can := n.Free
			for _, j := range n.On {
				if waits[j].live {
					can++
				}
			}
			if can >= n.Need {
				n.live, changed = true, true
			}
		}
	}
	return !waits[0].live
}

// WayBack returns the turns of the shortest way from the first of waits back to it, over stuck vertices, and the
// indices of the calls on it that may give way, nearest first. The caller has called Stuck.
func WayBack(waits []Waiting) (chain []string, queued []int) {
	for i := range waits {
		waits[i].from = unblocked
	}
	way := []int{0}
	for k := 0; k < len(way); k++ {
		i := way[k]
		for _, j := range waits[i].On {
			switch {
			case j == 0:
				for ; i != unblocked; i = waits[i].from {
					switch n := &waits[i]; {
					case n.Name != "":
						chain = append([]string{n.Name}, chain...)
					case n.Queued:
						queued = append([]int{i}, queued...)
					}
				}
				return append(chain, waits[0].Name), queued
			case !waits[j].live && waits[j].from == unblocked:
				waits[j].from = i
				way = append(way, j)
			}
		}
	}
	return nil, nil
}

// StuckWith lists the indices of the stuck vertices that the first of waits depends on. The caller has called Stuck.
func StuckWith(waits []Waiting) []int {
	seen := make([]bool, len(waits))
	all := []int{0}
	seen[0] = true
	for k := 0; k < len(all); k++ {
		for _, j := range waits[all[k]].On {
			if !waits[j].live && !seen[j] {
				seen[j] = true
				all = append(all, j)
			}
		}
	}
	return all
}

// A cycle of waits may pass through other nodes, which one look at this node does not show. A turn that may be part of
// one has its Prober look at all of them, after a pause, and again after longer pauses: most waits end before the
// first.

const (
	firstProbe = int64(50e6) // nanoseconds of waiting before the first look
	lastProbe  = 4 * int64(1e9)
)

// Prober looks for cycles of waits over nodes.
type Prober interface {
	// Away reports whether another node computes c, which has not settled. It is asked at each wait of a turn, so it
	// costs next to nothing.
	Away(c *Future) bool
	// Probe looks whether t can go on, and breaks the cycle if it is in one. It does not block.
	Probe(t *Turn)
}

// probe is the alarm of one wait.
type probe struct {
	alarm Alarm
	turn  *Turn
	block *Blocked
	pause int64
}

func (p *probe) set() {
	rt := p.turn.job.Runtime
	p.alarm.At = rt.Now() + p.pause
	rt.SetAlarm(&p.alarm)
}

// ring may run while stop does; then it rings once more, for nothing.
func (p *probe) ring() {
	if p.turn.block.Load() != p.block {
		return
	}
	p.turn.job.Prober.Probe(p.turn)
	p.pause = min(4*p.pause, lastProbe)
	p.set()
}

func (p *probe) stop() { p.turn.job.Runtime.ClearAlarm(&p.alarm) }

// maxCallers bounds the callers that travel with a call. Probes find a cycle over more of them.
const maxCallers = 16
