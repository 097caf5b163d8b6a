package grainengine

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/raysys/raysys/internal/core"
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
		l.timer = time.AfterFunc(after, e.look)
	}
}

func (e *Engine) stopLooks() {
	e.looks.mu.Lock()
	defer e.looks.mu.Unlock()
	if e.looks.timer != nil {
		e.looks.timer.Stop()
	}
}

func (e *Engine) look() {
	began, now := time.Now(), e.cfg.Now()
	var all, late []*activation
	e.kinds.Range(func(_, v any) bool {
		all = append(all, v.(*boundKind).activations()...)
		return true
	})
	seen, l := map[*activation]*seenTurn{}, &e.looks
	l.mu.Lock()
	for _, a := range all {
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
	l.seen, l.timer = seen, nil
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
			if a.waits() == 0 {
				continue
			}
			for e := a.head.Load().next.Load(); e != nil; e = e.next.Load() {
				if c, ok := e.msg.(*call); ok && c.Future.Pending() {
					m.Row(c.method.entry.Name).Waits(sinceMade(c, now))
				}
			}
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

// sinceMade is how long ago the call was made, about; 0 where it has no deadline.
func sinceMade(c *call, now int64) time.Duration {
	if c.until == 0 {
		return 0
	}
	return max(time.Duration(now-c.until)+c.Limit(), 0)
}
