package grainengine

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/tally"
)

// A turn may hang, and its grain then takes no further call. Turns note nothing for that: a look every few seconds remembers which
// activation was in which turn, and so since when about. What is past its deadline is logged, once.

const (
	lookEvery = 5 * time.Second
	// lookShare bounds what looks cost on a node with very many activations: a look that took a millisecond is followed by one after
	// a second at the earliest, so they take a thousandth of one CPU.
	lookShare = 1000
	// lookLines bounds the lines of one look.
	lookLines = 10
)

// turnLooks are what the last look saw.
type turnLooks struct {
	mu    sync.Mutex // guards the rest
	timer *time.Timer
	seen  map[*activation]*seenTurn
	// waiting has the calls in mailboxes of which madeAt does not know, and since when.
	waiting map[*call]int64
}

type seenTurn struct {
	turn   any   // the future of its call, or the turn of its hook
	since  int64 // on the runtime's clock
	logged bool
}

// lookAtTurns has the next look made, if none is to come.
func (e *Engine) lookAtTurns(after time.Duration) {
	l := &e.looks
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil && !e.closed.Load() {
		l.timer = time.AfterFunc(after, e.lookAtAll)
	}
}

func (e *Engine) stopLooks() {
	e.looks.mu.Lock()
	defer e.looks.mu.Unlock()
	if e.looks.timer != nil {
		e.looks.timer.Stop()
	}
}

func (e *Engine) lookAtAll() {
	began, now := time.Now(), e.cfg.Now()
	var all, late []*activation
	e.kinds.Range(func(_, v any) bool {
		all = append(all, v.(*boundKind).activations()...)
		return true
	})
	seen, l := map[*activation]*seenTurn{}, &e.looks
	l.mu.Lock()
	untimed := map[*call]int64{}
	for _, a := range all {
		a.eachWaiting(func(c *call) {
			if madeAt(c) == 0 {
				untimed[c] = cmp.Or(l.waiting[c], now)
			}
		})
		t := a.turnNow(now)
		if t.of == nil {
			continue
		}
		s := l.seen[a]
		if s == nil || s.turn != t.of {
			s = &seenTurn{turn: t.of, since: now}
		}
		if seen[a] = s; t.late != "" && s.since < now && !s.logged && len(late) < lookLines {
			s.logged = true
			late = append(late, a)
		}
	}
	l.seen, l.waiting, l.timer = seen, untimed, nil
	l.mu.Unlock()
	if len(late) > 0 {
		stacks := GoroutineStacks()
		for _, a := range late {
			if what, since, _ := a.explainTurn(0); what != "" {
				a.warn("turn past its deadline", fmt.Sprintf("%s, for %v at least; its goroutines: %s", what, since.Round(time.Second), strings.Join(a.stacks(stacks), " | ")))
			}
		}
	}
	if len(e.Kinds()) > 0 { // one that came since found the timer still set
		e.lookAtTurns(max(lookEvery, lookShare*time.Since(began)))
	}
}

// LateTurns lists the grains in a turn for which nothing waits any more, of the turns that the last look saw.
func LateTurns(e *Engine) (list []Active) {
	now := e.cfg.Now()
	e.looks.mu.Lock()
	defer e.looks.mu.Unlock()
	for a, s := range e.looks.seen {
		if t := a.turnNow(now); t.late != "" && t.of == s.turn {
			list = append(list, activeOf(a, 0))
		}
	}
	return list
}

// oneTurn is the turn that an activation is in.
type oneTurn struct {
	of    any    // nil for none
	name  string // of the method or hook
	late  string // why nothing waits for it any more; "" while something may
	ended bool   // late for a moment also where the method has just returned an error
}

// maxStacks bounds the text of all goroutines that is looked through.
const maxStacks = 64 << 20

// GoroutineStacks is a stack of each goroutine of the process.
func GoroutineStacks() []string {
	for buf := make([]byte, 1<<20); ; buf = make([]byte, 2*len(buf)) {
		if n := runtime.Stack(buf, true); n < len(buf) || len(buf) >= maxStacks {
			return strings.Split(string(buf[:n]), "\n\n")
		}
	}
}

// foldStack folds a goroutine's stack without the runtime's own part below the program's.
func foldStack(g string) (folded string, names []string) {
	head, body, _ := strings.Cut(g, "\n")
	for line := range strings.Lines(body) {
		if line[0] == '\t' || strings.HasPrefix(line, "created by ") {
			continue
		}
		if i := strings.LastIndexByte(line, '('); i > 0 {
			names = append(names, line[:i])
		}
	}
	slices.Reverse(names)
	for len(names) > 1 && (strings.Contains(names[0], "raysys/internal/") || strings.Contains(names[0], "protoactor-go/actor.")) {
		names = names[1:]
	}
	_, state, _ := strings.Cut(head, "[")
	state, _, _ = strings.Cut(state, "]")
	state, _, _ = strings.Cut(state, ",")
	return strings.Join(append(slices.Clone(names), "["+state+"]"), ";"), names
}

// Functions is what the node has counted of each method, with what runs and waits now.
func Functions(e *Engine) []tally.Row {
	now, m := e.cfg.Now(), tally.Merge(e.cfg.Tally, tally.CallKind)
	e.looks.mu.Lock()
	untimed := e.looks.waiting // replaced, never changed
	e.looks.mu.Unlock()
	e.kinds.Range(func(_, v any) bool {
		for _, a := range v.(*boundKind).activations() {
			if c := a.current.Load(); c != nil {
				running(m, c)
			}
			if g := a.gate.Load(); g != nil {
				g.mu.Lock()
				for _, p := range g.inner {
					running(m, p.call)
				}
				g.mu.Unlock()
			}
			a.eachWaiting(func(c *call) {
				since := cmp.Or(madeAt(c), untimed[c], now)
				m.Row(c.method.entry.Name).Waits(time.Duration(max(now-since, 0)))
			})
		}
		return true
	})
	return m.Rows()
}

func running(m *tally.Merged, f *core.Future) {
	if c := callOf(f); c != nil {
		m.Row(c.method.entry.Name).Running++
	}
}

// Move. Between two turns an activation ends to be elsewhere: what waits in its mailbox runs, OnDeactivate runs, the
// registry puts the placement on the other node, and calls follow.
//
//	CountTurns ─► package balance ─► Move ─► mailbox: move ─► leavesFor ─► OnDeactivate ─► close
//	                                                                                        │
//	 callers ◄─ refused, with the place ◄─ released ◄─ Release, with the node ◄─ route ◄────┘

// move asks an activation to go to another node.
type move struct {
	to    core.NodeKey
	moved func(graindir.Place) // called when the grain is placed there; it must not block
}

// leavesFor reports whether an activation, whose turn it is, goes now: not one that keeps calls or has timers, which
// end with the struct.
func leavesFor(a *activation, m move) bool {
	return mayLeave(a) && a.parting.CompareAndSwap(nil, &parting{over: make(chan struct{}), move: &m})
}

// wantEnd notes that the end of an activation is wanted, also of one that is about to move; false where it ends already.
func wantEnd(a *activation) bool {
	if a.parting.CompareAndSwap(nil, &parting{over: make(chan struct{})}) {
		return true
	}
	a.parting.Load().ends.Store(true)
	return false
}

// mayLeave reports whether an activation may move.
func mayLeave(a *activation) bool {
	e := a.kind.engine
	return a.holding == nil && !a.tenure.bound && !a.tenure.stale.Load() && a.parting.Load() == nil &&
		a.laters.Load().keptCalls() == 0 && !a.timers.Load().any() && !e.draining.Load() && !e.closed.Load()
}

// turnCount is what CountTurns, which alone uses it, has seen of an activation.
type turnCount struct {
	turns uint32 // how many it had had; it wraps around
	since uint32 // when it was seen first, in units of ageUnit; 0: not yet
}

const (
	ageUnit = time.Second
	// leastAge is how long a grain has been on its node before it moves, unless it stands.
	leastAge = time.Minute
	// leastTurn and mostTurn bound the mean time of a kind's turns: a longer turn mostly waits.
	leastTurn, mostTurn = time.Microsecond, time.Millisecond
)

// Turns are those of the grains of a node in some time, but for stateless workers.
type Turns struct {
	Count  int
	Time   time.Duration // that they took, by the mean of their kinds
	Active int           // activations
	Stands int           // of those, the ones that are spread by their number: of kinds that are both Keep and Movable
}

// Candidate is an activation that may move.
type Candidate struct {
	Turns  int // since the last count
	Each   time.Duration
	Stands bool
	Busy   bool // it is in a turn
	a      *activation
}

// ID names the grain.
func (c *Candidate) ID() graindir.ID { return graindir.ID{Kind: c.a.kind.def.name, Key: c.a.key} }

// Wanted is what the grain asks of a node.
func (c *Candidate) Wanted() graindir.Wanted { return c.a.kind.def.wanted() }

// CountTurns counts the turns since it was called last, and with list returns the activations that may move. One
// goroutine calls it.
func CountTurns(e *Engine, list bool) (t Turns, may []Candidate) {
	means, now := meanTurns(e), uint32(e.cfg.Now()/int64(ageUnit))+1
	e.kinds.Range(func(_, v any) bool {
		k := v.(*boundKind)
		if k.def.Stateless || k.live.Load() == 0 {
			return true
		}
		each := min(max(means[k.def.entry], leastTurn), mostTurn)
		count := 0
		eachActivation(k, func(a *activation) {
			done := uint32(a.popped.Load())
			turns := int(done - a.counted.turns)
			a.counted.turns, a.counted.since = done, cmp.Or(a.counted.since, now)
			count += turns
			t.Active++
			if k.def.stands() {
				t.Stands++
			}
			old := k.def.stands() || time.Duration(now-a.counted.since)*ageUnit >= leastAge
			if list && old && k.def.moves() && mayLeave(a) {
				may = append(may, Candidate{turns, each, k.def.stands(), a.busy.Load(), a})
			}
		})
		t.Count += count
		t.Time += time.Duration(count) * each
		return true
	})
	return t, may
}

// meanTurns is how long turns of each kind have taken in the mean, where each that took longer than mostTurn counts as
// that.
func meanTurns(e *Engine) map[*core.Entry]time.Duration {
	type sum struct {
		n    uint64
		time time.Duration
	}
	sums := map[*core.Entry]sum{}
	for _, row := range e.cfg.Tally.Rows(tally.CallKind) {
		entry := e.cfg.Table.Lookup("method", row.Name)
		if entry == nil {
			continue // of a timer
		}
		kind := entry.Impl.(*methodVariants).of().entry
		s := sums[kind]
		for _, b := range row.Times.Buckets {
			s.n += b.N
			s.time += time.Duration(b.N) * min(b.Below, mostTurn)
		}
		sums[kind] = s
	}
	means := map[*core.Entry]time.Duration{}
	for kind, s := range sums {
		means[kind] = s.time / time.Duration(max(s.n, 1))
	}
	return means
}

// Move has an activation go to a node, between two of its turns, if it still may then. moved is called when it is
// placed there, and must not block.
func Move(c *Candidate, to core.NodeKey, moved func(graindir.Place)) {
	c.a.post(&mail{msg: move{to, moved}})
}

// Waiting is a grain and where it, or its calls, wait on this node, but for the name of the node.
type Waiting struct {
	ID graindir.ID
	raysys.Waiting
	Want graindir.Wanted // what it asks of placement
}

// Active is a grain in memory.
type Active struct {
	ID      graindir.ID
	Mailbox int  // messages
	Waits   bool // for its node's resources: it has not begun
	a       *activation
	calls   int // of a stateless kind's key, for any of its activations
}

// EachActive shows the activations of a kind, or of all where that is "", in no order.
func EachActive(e *Engine, kind string, f func(Active)) {
	e.kinds.Range(func(_, v any) bool {
		if k := v.(*boundKind); kind == "" || kind == k.def.name {
			for _, a := range k.activations() {
				f(activeOf(a, 0))
			}
		}
		return true
	})
}

// FindActive lists the activations of one grain.
func FindActive(e *Engine, id graindir.ID) (list []Active) {
	e.kinds.Range(func(_, v any) bool {
		k := v.(*boundKind)
		if k.def.name != id.Kind {
			return true
		}
		if a, _ := k.lookup(id.Key); a != nil {
			list = append(list, activeOf(a, 0))
		}
		if p, ok := k.pools.Load(id.Key); ok {
			all, calls := p.(*pool).members()
			for _, a := range all {
				list = append(list, activeOf(a, calls))
			}
		}
		return true
	})
	return list
}

func activeOf(a *activation, calls int) Active {
	return Active{
		ID: graindir.ID{Kind: a.kind.def.name, Key: a.key}, Mailbox: a.waits() + calls, a: a, calls: calls,
		Waits: a.holding != nil && a.holding.hold.Load() == nil,
	}
}

// OneTurn is a turn that a grain is in.
type OneTurn struct {
	Call  *core.Future  // nil of a hook
	Turn  *core.Turn    // nil of a call that has submitted nothing
	Name  string        // of the method or hook
	Late  string        // why nothing waits for it any more; "" while something may
	Since time.Duration // how long it lasts, at least; 0 where that is not known
}

// Turns lists the turns that the grain is in: more than one where it interleaves.
func (g *Active) Turns() (list []OneTurn) {
	a := g.a
	e := a.kind.engine
	now := e.cfg.Now()
	if t := a.turnNow(now); t.of != nil {
		one := OneTurn{Name: t.name, Late: t.late}
		switch of := t.of.(type) {
		case *core.Future:
			one.Call, one.Turn = of, of.OwnTurn()
		case *core.Turn:
			one.Turn = of
		}
		e.looks.mu.Lock()
		if s := e.looks.seen[a]; s != nil && s.turn == t.of {
			one.Since = time.Duration(now - s.since)
		}
		e.looks.mu.Unlock()
		list = append(list, one)
	}
	if g := a.gate.Load(); g != nil {
		g.mu.Lock()
		for _, p := range g.inner {
			list = append(list, OneTurn{Call: p.call, Turn: p.call.OwnTurn(), Name: callOf(p.call).method.entry.Name})
		}
		g.mu.Unlock()
	}
	return list
}

// EachSent shows the calls that this node has sent to others and that they have not answered. f is called under locks: it does not call the
// engine.
func EachSent(e *Engine, f func(*core.Future, graindir.ID)) {
	e.peers.Range(func(_, v any) bool {
		v.(*peer).sent.Each(func(_ uint64, o *outboundCall) { f(&o.call.Future, graindir.ID{Kind: o.kind.def.name, Key: o.key}) })
		return true
	})
}

// CallOf says of a call of this node to which grain it is, in whose mailbox here it is, or to which node it was sent; false for other work.
func CallOf(c *core.Future) (id graindir.ID, at raysys.NodeID, ok bool) {
	if id, ok = GrainOf(c); !ok {
		return id, "", false
	}
	if call := callOf(c); call.queuedAt() == nil {
		if p, _, away := engineOf(c.Up()).Away(c); away {
			at = p.Node()
		}
	}
	return id, at, true
}

// GrainOf returns the grain that a call of this node is to; false for other work.
func GrainOf(c *core.Future) (graindir.ID, bool) {
	call := callOf(c)
	if call == nil {
		return graindir.ID{}, false
	}
	if a := call.queuedAt(); a != nil {
		return graindir.ID{Kind: a.kind.def.name, Key: a.key}, true
	}
	o := call.outbound()
	if o == nil {
		v, ok := engineOf(c.Up()).forwarded.Load(c)
		if !ok {
			return graindir.ID{}, false
		}
		o = v.(*outboundCall)
	}
	return graindir.ID{Kind: o.kind.def.name, Key: o.key}, true
}

// members lists the activations of a stateless kind's key, and how many calls wait for them.
func (p *pool) members() (list []*activation, calls int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.all {
		list = append(list, a)
	}
	return list, len(p.queue) - p.first
}

// count is how many calls to a grain are held.
func (h *heldCalls) count(k *boundKind, key string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for of, l := range h.line {
		if of.kind == k && of.key == key || of.call != nil && of.call.kind == k && of.call.key == key {
			n += len(l.queue)
		}
	}
	return n
}
