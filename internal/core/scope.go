package core

import (
	"context"
	"errors"
)

// Cancellation is pulled, not pushed. A task registers nowhere when it is submitted: it points at the turn that
// submitted it. A goroutine that starts it, asks for its Err or waits for it looks up that chain. Only what waits is
// registered (Watch), and a turn is registered with the one above it only while something below it watches, so that a
// chain of n blocked turns costs n registrations and not n squared. Locks are taken from a turn to the one above it;
// cancel runs callbacks without any.

// Watcher is one registration for the end of a turn.
type Watcher struct {
	prev, next *Watcher
	on         *Turn
	fire       func()
}

// errTurnEnded is the cause of a turn's own context after the turn returned, so that goroutines it left behind end.
var errTurnEnded = errors.New("the task or turn of this context has returned")

// Watch arranges that fire is called once when t is cancelled; it must not block. It returns false when t is cancelled
// already, and then does not call fire.
func (t *Turn) Watch(w *Watcher, fire func()) bool {
	if t.Cancelled() != nil {
		return false
	}
	w.fire = fire
	return t.watch(w)
}

func (t *Turn) watch(w *Watcher) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cause.Load() != nil {
		return false
	}
	if t.watchers == nil && !t.linkLocked() {
		return false
	}
	w.on, w.prev, w.next = t, nil, t.watchers
	if t.watchers != nil {
		t.watchers.prev = w
	}
	t.watchers = w
	return true
}

// linkLocked registers t with the turn above and arms its deadline, because t has a watcher now.
func (t *Turn) linkLocked() bool {
	if up := t.above(); up != nil {
		// A new Watcher each time: the one before may still be on its way through up's cancel.
		link := &Watcher{fire: func() { t.cancel(up.Cancelled()) }}
		if !up.watch(link) {
			t.cause.CompareAndSwap(nil, &endCause{endError(up.Cancelled())})
			return false
		}
		t.link, t.linked = link, up
	}
	if t.deadline != 0 && t.base == t {
		t.alarm.At, t.alarm.Ring = t.deadline, t.expire
		t.job.Runtime.SetAlarm(&t.alarm)
	}
	return true
}

// Unwatch takes w back. fire may be under way when it returns.
func (t *Turn) Unwatch(w *Watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.on != t {
		return // fired, or never registered
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		t.watchers = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	w.on, w.prev, w.next = nil, nil, nil
	if t.watchers == nil {
		t.unlinkLocked()
	}
}

func (t *Turn) unlinkLocked() {
	if t.linked != nil {
		t.linked.Unwatch(t.link)
		t.link, t.linked = nil, nil
	}
	if t.alarm.Ring != nil {
		t.job.Runtime.ClearAlarm(&t.alarm)
	}
}

// Cancel ends the turn and everything it submitted.
func (t *Turn) Cancel(cause error) { t.cancel(endError(cause)) }

func (t *Turn) cancel(err error) {
	t.mu.Lock()
	if !t.cause.CompareAndSwap(nil, &endCause{err}) {
		t.mu.Unlock()
		return
	}
	list := t.watchers
	t.watchers = nil
	for w := list; w != nil; w = w.next {
		w.on = nil
	}
	t.unlinkLocked()
	stop := t.stop
	t.mu.Unlock()
	if stop != nil {
		stop(err)
	}
	for list != nil {
		next := list.next
		list.prev, list.next = nil, nil
		list.fire()
		list = next
	}
}

func (t *Turn) expire() {
	if t.job.Runtime.Now() >= t.deadline {
		t.cancel(&deadlineError{t.name, t.limit})
	}
}

// Cancelled returns why the turn ended early, nil while it may go on. It looks at every turn above.
func (t *Turn) Cancelled() error {
	var now int64
	for ; t != nil; t = t.above() {
		if c := t.cause.Load(); c != nil {
			return c.err
		}
		// The caller's context tells the turn of its end on a goroutine, which may not have run yet.
		if t.outer != nil && t.outer.Err() != nil {
			t.cancel(endError(context.Cause(t.outer)))
			return t.cause.Load().err
		}
		if t.deadline != 0 {
			if now == 0 {
				now = t.job.Runtime.Now()
			}
			if now >= t.deadline {
				return &deadlineError{t.name, t.limit}
			}
		}
	}
	return nil
}

// above returns the next turn up that can still be cancelled. A turn that has returned cannot, so the chain is
// shortened past it: a task that submits its successor and returns, for ever, leaves no chain behind. One that has a
// deadline stays, since its submissions inherit that, and it ends the chain.
func (t *Turn) above() *Turn {
	for {
		up := t.up.Load()
		if up == nil || !up.over() || up.cause.Load() != nil || up.deadline != 0 {
			return up
		}
		t.up.CompareAndSwap(up, up.up.Load())
	}
}

// over reports whether the turn, or the one it is derived or branched from, has returned: contexts derived from a
// task's own end with it.
func (t *Turn) over() bool {
	return t.ended.Load() || (t.base != t && t.base.ended.Load()) || (t.trunk != nil && t.trunk.over())
}

// End marks the turn as returned: its context ends, its submissions go on.
func (t *Turn) End() {
	t.mu.Lock()
	stop, watch, pins := t.stop, t.innerWatch, t.pins
	t.innerWatch, t.pins = nil, nil
	t.mu.Unlock()
	t.ended.Store(true)
	if watch != nil {
		t.Unwatch(watch)
	}
	for _, p := range pins {
		p.unpin()
	}
	if stop != nil {
		stop(errTurnEnded)
	}
}

// ownDone returns the Done channel of the turn's own context if it has one.
func (t *Turn) ownDone() <-chan struct{} {
	if t.trunk != nil {
		return t.outer.Done()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inner == nil {
		return nil
	}
	return t.inner.Done()
}

// endless returns the turn above a driver's whose caller's context never ends: such a driver ends with the node alone,
// shares the node's inner context, and so leaves nothing behind, however many of them there were. Nil for any other
// turn.
func (t *Turn) endless() *Turn {
	if t.outer == nil || t.outer.Done() != nil {
		return nil
	}
	return t.up.Load()
}

// innerContext backs Done, Cause and AfterFunc of the turn's context by one of the standard library's, which then
// costs no goroutine to derive from. A driver's is derived from the caller's, so that it ends with either.
func (t *Turn) innerContext() context.Context {
	if t.trunk != nil {
		return t.outer
	}
	if up := t.endless(); up != nil {
		shared := up.innerContext()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.inner = shared // for ownDone; it is the same one each time
		return shared
	}
	t.mu.Lock()
	if t.inner != nil {
		defer t.mu.Unlock()
		return t.inner
	}
	outer := t.outer
	if outer == nil {
		outer = context.Background()
	}
	t.inner, t.stop = context.WithCancelCause(outer)
	inner, stop := t.inner, t.stop
	w := new(Watcher)
	t.innerWatch = w
	t.mu.Unlock()
	switch {
	case t.ended.Load():
		stop(errTurnEnded)
	case !t.Watch(w, func() {}): // watched, so that a cancel above reaches t.cancel, which calls stop
		stop(t.Cancelled())
	}
	return inner
}
