package core

import (
	"sync"
	"time"
)

// A turn is final when it cannot run again: what submitted it has its outcome, and is final too. A driver always is. Until then
// durable grains keep their replies to the turn's calls, which its next attempt would make again.
//
//	turn ── WhenFinal ──► its list ── HandUp: what submitted it has the outcome ──► the list of the turn above ──► ... a driver: Final
//	                          ├── another node submitted it, and says that it is final ── Finish ──► Final
//	                          └── a grain's turn has been over for a while ───────────── Finish ──► Final
//
// Where this node will not learn whether the turn is final, what waits is dropped: other nodes wait for nothing then.

// Finality is what a turn leaves that is not needed once the turn is final.
type Finality interface {
	// Final or Dropped is called once, or neither. Neither may block. After Dropped this node will not say that the turn is final.
	Final()
	Dropped()
}

// finals are what waits for one turn, or for several that were handed up to it.
type finals struct {
	mu    sync.Mutex // guards the rest
	list  []Finality
	up    *finals // has the list
	turn  *Turn   // of a grain; nil else
	armed bool    // an alarm looks after turn
	over  bool    // the turn is final, or nothing waits for it any more
	lost  bool    // with over: what comes is dropped
}

const (
	// maxFinals bounds what waits for one turn. What is beyond it is dropped.
	maxFinals = 1 << 16
	// untilFinal is how long a grain's turn that is over is not final yet: its answer is on its way. It is looked at twice.
	untilFinal = 2 * time.Second
)

// always are those of turns that are final, and never of turns that this node will not know to be.
var (
	always = &finals{over: true}
	never  = &finals{over: true, lost: true}
)

// finalsOf returns those of b, made now where there are none; nil where the turn never becomes final here.
func (b *base) finalsOf() *finals {
	switch f := b.finals.Load(); {
	case f != nil:
		return f
	case b.remote:
		return nil
	case b.kind == TurnRoot:
		return always
	}
	f := &finals{}
	if b.kind == TurnGrain {
		f.turn = &b.turn
	}
	if !b.finals.CompareAndSwap(nil, f) {
		return b.finals.Load()
	}
	return f
}

// whole is the base of the turn, or of the one that it is branched from.
func (t *Turn) whole() *base {
	b := t.base
	for b.turn.trunk != nil {
		b = b.turn.trunk.base
	}
	return b
}

// lock returns the finals that have the list of f, locked.
func (f *finals) lock() *finals {
	for {
		f.mu.Lock()
		if f.up == nil {
			return f
		}
		up := f.up
		f.mu.Unlock()
		f = up
	}
}

// WhenFinal has x.Final called once t is final, and x.Dropped where this node will not learn of that.
func (t *Turn) WhenFinal(x Finality) {
	f := t.whole().finalsOf()
	if f == nil {
		f = never
	}
	f.add(x)
}

func (f *finals) add(list ...Finality) {
	f = f.lock()
	lost := f.lost
	if !f.over {
		n := min(len(list), maxFinals-len(f.list))
		f.list, list, lost = append(f.list, list[:n]...), list[n:], true
		f.arm()
	}
	f.mu.Unlock()
	conclude(list, lost)
}

// conclude tells the list that its turn is final, or that this will not be known.
func conclude(list []Finality, lost bool) {
	for _, x := range list {
		if lost {
			x.Dropped()
		} else {
			x.Final()
		}
	}
}

// HandUp is called when to, which submitted the work of t, has its outcome.
func (t *Turn) HandUp(to *Turn) {
	up := to.whole().finalsOf()
	if up == nil {
		return
	}
	b := t.whole()
	if b.finals.CompareAndSwap(nil, up) { // for what comes later
		return
	}
	up = up.lock()
	up.mu.Unlock()
	f := b.finals.Load().lock()
	if f == up || f.over {
		f.mu.Unlock()
		return
	}
	list := f.list
	f.list, f.up = nil, up
	f.mu.Unlock()
	if len(list) > 0 {
		up.add(list...)
	}
}

// Awaits reports whether something waits for t to be final.
func (t *Turn) Awaits() bool {
	f := t.whole().finals.Load()
	if f == nil {
		return false
	}
	f = f.lock()
	defer f.mu.Unlock()
	return len(f.list) > 0
}

// Finish is called when t is final.
func (t *Turn) Finish() { t.whole().finish(always) }

// Drop is called when this node will not learn whether t is final.
func (t *Turn) Drop() { t.whole().finish(never) }

func (b *base) finish(as *finals) {
	if b.finals.CompareAndSwap(nil, as) {
		return
	}
	f := b.finals.Load().lock()
	if f.over {
		f.mu.Unlock()
		return
	}
	list := f.list
	f.list, f.over, f.lost = nil, true, as.lost
	f.mu.Unlock()
	conclude(list, as.lost)
}

// passFinals makes what waits for a failed attempt wait for the next one.
func (b *base) passFinals(next *base) {
	f := b.finals.Load()
	if f == nil {
		return
	}
	next.finals.Store(f)
	f = f.lock()
	if f.turn == &b.turn {
		f.turn = &next.turn
	}
	f.mu.Unlock()
}

// arm has the turn of a grain looked after. mu is locked.
func (f *finals) arm() {
	if f.turn == nil || f.armed {
		return
	}
	f.armed = true
	f.passWhenFinal(false)
}

func (f *finals) passWhenFinal(ended bool) {
	rt := f.turn.Runtime()
	rt.SetAlarm(&Alarm{At: rt.Now() + int64(untilFinal), Ring: func() { f.looked(ended) }})
}

// looked is called after a while; before says whether the turn was over at the look before. What waits for one that was cancelled,
// or failed by no fault of its own, is dropped: what called the grain may call it again, later than that.
func (f *finals) looked(before bool) {
	f.mu.Lock()
	t := f.turn
	switch {
	case t.Cancelled() != nil, t.failedOtherwise():
		list := f.list
		f.list, f.armed = nil, false
		f.mu.Unlock()
		conclude(list, true)
		return
	case !before || !t.Ended():
		f.passWhenFinal(t.Ended())
	default:
		f.mu.Unlock()
		t.Finish()
		return
	}
	f.mu.Unlock()
}

// failedOtherwise reports whether the turn has failed, and the failure is not the work's own.
func (b *base) failedOtherwise() bool {
	f := b.failed.Load()
	return f != nil && !ownFailure(f.err)
}
