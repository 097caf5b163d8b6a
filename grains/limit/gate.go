package limit

import (
	"container/list"
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
)

const (
	// hearing is how long a new gate hears who holds permits before it grants any, and how long a holder whose
	// connection broke may take to come back before its units do.
	hearing = 2 * time.Second
	// mailbox bounds the calls that a gate keeps: two for each permit.
	mailbox = 200_000
)

// gate is the grain that has the units of one key. mu guards what is not of its turns: a call that ends is no turn of
// the grain.
//
// A permit of AtMost makes two calls. hold lasts as long as the permit, and acquire until it is granted. Both are
// made again to a new gate, unless they have ended. So a hold that comes alone is of a permit that an older gate has
// granted, and has its units. Where acquire follows it has none yet.
//
// A Rate has acquire alone. full is when all units will be back: a grant of u units moves it by u n-th parts of the
// limit's time, and is due once it stays within one such time from now.
type gate struct {
	// Used is 0 from the first grant on. At the end it goes where all units are back, or is full in nanoseconds of
	// Unix time.
	Used   grains.State[int64]
	marked bool // it is 0

	mu     sync.Mutex
	open   bool // it has heard of the permits of the gate before, and has not ended
	out    int  // units that are held
	full   time.Time
	timer  *time.Timer // rings when the next is due
	takers map[uint64]*taker
	line   line
}

// taker is a permit, or who waits for it.
type taker struct {
	take
	hold    *grains.Later[struct{}] // nil while it is not here
	stop    func() bool             // of what watches hold
	wait    *grains.Later[struct{}] // nil where it does not wait
	at      *list.Element           // in the line: hold has come too, or none is made
	has     bool                    // its units
	granted bool                    // by this gate
}

var (
	gates   = grains.Define[gate]("limit", grains.Mailbox(mailbox), grains.Unfiltered())
	hold    = grains.LaterMethod(gates, "hold", (*gate).Hold).Idempotent().With(raysys.NoDeadline())
	acquire = grains.LaterMethod(gates, "acquire", (*gate).Acquire).Idempotent().With(raysys.NoDeadline())
	release = grains.Action(gates, "release", (*gate).Release).Idempotent()
)

// OnActivate implements grains.Activator.
func (g *gate) OnActivate(context.Context) error {
	g.takers, g.line.tenants = map[uint64]*taker{}, map[string]*tenant{}
	now := time.Now()
	g.full = now.Add(time.Duration(g.Used.Value - now.UnixNano())) // in the past where there is none
	if g.open = !g.Used.Exists() || g.Used.Value != 0; g.open {
		return nil
	}
	g.marked, g.full = true, now.Add(longest)
	time.AfterFunc(hearing, func() { g.change(func() { g.open = g.takers != nil }) })
	return nil
}

// OnDeactivate implements grains.Deactivator.
func (g *gate) OnDeactivate(ctx context.Context) error {
	g.mu.Lock()
	empty := len(g.takers) == 0
	g.open, g.takers = false, nil
	g.mu.Unlock()
	switch now := time.Now(); {
	case !empty || !g.marked:
		return nil
	case g.full.After(now):
		g.Used.Value = now.UnixNano() + int64(g.full.Sub(now))
		return g.Used.Write(ctx)
	}
	return g.Used.Clear(ctx)
}

// change changes the gate, and grants what can be granted then.
func (g *gate) change(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
	g.grant()
}

// grant grants units to those who are next; mu is held. Settle fails for who has gone.
func (g *gate) grant() {
	for k := g.line.first(); k != nil && g.open; k = g.line.first() {
		full, due := g.due(k, time.Now())
		if !due {
			return
		}
		g.line.leave(k, true)
		l := k.wait
		k.wait = nil
		if k.granted = l.Settle(struct{}{}) == nil; !k.granted {
			continue
		}
		if g.full = full; k.Per == 0 {
			k.has = true
			g.out += k.Units
		}
	}
}

// due reports whether there are units for k, and what full is then. Where a Rate has to wait it has the gate look
// again.
func (g *gate) due(k *taker, now time.Time) (full time.Time, due bool) {
	if k.Per == 0 {
		return g.full, g.out+k.Units <= k.N
	}
	if most := now.Add(k.Per); g.full.After(most) {
		g.full = most // an older gate had no time to say when, or went by a clock that was ahead
	} else if g.full.Before(now) {
		g.full = now
	}
	full = g.full.Add(time.Duration(math.Ceil(float64(k.Per) / float64(k.N) * float64(k.Units))))
	wait := full.Sub(now) - k.Per
	if wait <= time.Microsecond { // what floats make of the time is less
		return full, true
	}
	if g.timer != nil {
		g.timer.Stop()
	}
	g.timer = time.AfterFunc(wait, func() { g.change(func() {}) })
	return full, false
}

// Hold stands for the permit: it ends when that does.
func (g *gate) Hold(_ context.Context, t take, l *grains.Later[struct{}]) error {
	if err := t.check(); err != nil {
		return err
	}
	g.change(func() {
		k := g.takers[t.ID]
		if k == nil {
			k = &taker{take: t, has: true}
			g.takers[t.ID] = k
			g.out += k.Units
		} else if k.wait != nil && k.at == nil {
			g.line.add(k)
		}
		k.hold = l
		k.stop = context.AfterFunc(l.Context(), func() { g.change(func() { g.lose(k, l) }) })
	})
	return nil
}

// Acquire waits for the units.
func (g *gate) Acquire(ctx context.Context, t take, l *grains.Later[struct{}]) error {
	if err := t.check(); err != nil {
		return err
	}
	if !g.marked {
		g.Used.Value = 0
		if err := g.Used.Write(ctx); err != nil {
			return err
		}
		g.marked = true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.takers[t.ID]
	switch {
	case k == nil && t.Per == 0:
		k = &taker{take: t}
		g.takers[t.ID] = k
	case k == nil:
		k = &taker{take: t}
	case k.granted:
		return l.Settle(struct{}{})
	case k.has:
		k.has = false
		g.out -= k.Units
	}
	g.drop(k, k.wait) // an older call of the same Take
	if k.wait = l; k.hold != nil || t.Per > 0 {
		g.line.add(k)
	}
	if g.grant(); k.granted {
		return nil
	}
	if t.Try {
		k.wait = nil
		g.line.leave(k, false)
		return ErrBusy
	}
	context.AfterFunc(l.Context(), func() { g.change(func() { g.drop(k, l) }) })
	l.Because(func() string { return "others have the units" })
	return nil
}

// Release ends the permit of an ID. It comes in the order of its holder's calls, so that the holder can take the
// units again at once.
func (g *gate) Release(_ context.Context, id uint64) error {
	g.change(func() { g.free(g.takers[id]) })
	return nil
}

// lose is when the call l of hold has ended; mu is held. Where its caller has ended it the permit has ended.
// Otherwise the call is made again, by a node whose connection broke, or to the next gate: one that does not come
// again was of a node that is dead.
func (g *gate) lose(k *taker, l *grains.Later[struct{}]) {
	var o *core.Orphaned
	cause := context.Cause(l.Context())
	if errors.As(cause, &o) {
		cause = o.Err
	}
	switch {
	case k.hold != l:
	case cause == raysys.ErrCancelled: // and nothing more, as where a node is gone
		g.free(k)
	default:
		k.hold = nil
		g.line.leave(k, false)
		time.AfterFunc(hearing, func() {
			g.change(func() {
				if k.hold == nil {
					g.free(k)
				}
			})
		})
	}
}

// free takes k out, with its units; mu is held.
func (g *gate) free(k *taker) {
	if k == nil || g.takers[k.ID] != k {
		return
	}
	delete(g.takers, k.ID)
	g.drop(k, k.wait)
	if k.has {
		g.out -= k.Units
	}
	if l := k.hold; l != nil {
		k.hold = nil
		k.stop()
		_ = l.Settle(struct{}{})
	}
}

// drop ends the wait of k for l; mu is held. Who has gone hears nothing of it.
func (g *gate) drop(k *taker, l *grains.Later[struct{}]) {
	if l != nil && l == k.wait {
		k.wait = nil
		g.line.leave(k, false)
		_ = l.Fail(raysys.ErrCancelled)
	}
}
