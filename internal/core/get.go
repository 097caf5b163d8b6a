package core

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"unsafe"
)

// Get returns the value, waiting for it if need be: see raysys.Ref.Get.
func Get[T any](ctx context.Context, r Ref[T]) (v T, err error) {
	at, locked := r.future, false
	if at == nil {
		return v, zeroRef("Get on", TypeOf[T]())
	}
	t, own, err := TurnOf(ctx)
	if err != nil {
		return v, err
	}
	if !at.plainly() {
		if at, locked, err = at.get(ctx, t, own); err != nil {
			return v, err
		}
	}
	v = copied[T](at, locked)
	if t.job.Inspect != nil {
		kept := v
		err = HandOver(t.job, "result of "+r.future.work.Name()+", handed to Get", TypeOf[T](), unsafe.Pointer(&kept))
		return kept, err
	}
	return v, nil
}

// GetInto is Get for a value of vt, which goes to p.
func GetInto(ctx context.Context, l Link, vt *ValueType, p unsafe.Pointer) error {
	at, locked := l.future, false
	if at == nil {
		return zeroRef("Get on", vt)
	}
	t, own, err := TurnOf(ctx)
	if err != nil {
		return err
	}
	if !at.plainly() {
		if at, locked, err = at.get(ctx, t, own); err != nil {
			return err
		}
	}
	vt.At(p).Set(at.value(vt))
	if locked {
		at.mu.Unlock()
	}
	return nil
}

// copied is the value of c, which beginRead has begun to read.
func copied[T any](c *Future, locked bool) T {
	v := (*Result[T])(unsafe.Pointer(c)).val
	if locked {
		c.mu.Unlock()
	}
	return v
}

func zeroRef(what string, t *ValueType) error {
	return fmt.Errorf("%w: %s a zero Ref[%s]", ErrInvalidRef, what, t.Type)
}

// parker is a goroutine that waits: for a future, for the end of its own turn, or for the end of the scope the
// future was submitted under. Whatever happens pokes the channel, and the goroutine looks again; a poke too many
// does no harm, which is what lets parkers be used again.
type parker struct {
	poke     chan struct{} // capacity 1, never closed
	waiter   Waiter
	watch    [2]Watcher         // of the goroutine's own turn, and of scope
	scope    *Turn              // the first turn that futures it waits for were submitted from
	scopes   map[*Turn]*Watcher // further ones
	block    Blocked
	one      [1]*Future
	resolved atomic.Bool // the settler is done with waiter
}

// newParker takes a parker that an earlier wait of the same job is done with, or makes one. They stay within a job,
// since a channel must not leave the bubble of a virtual test.
func newParker(j *Job) *parker {
	if p, ok := j.parkers.Get().(*parker); ok {
		return p
	}
	return &parker{poke: make(chan struct{}, 1)}
}

// recycle gives p back if no other goroutine can still use a part of it: the settler has called Resolved, no watcher
// was used, and no search for cycles may be reading block.
func (p *parker) recycle(j *Job) {
	if !p.resolved.Load() || p.watch[0].fire != nil || p.watch[1].fire != nil || p.block.on != nil {
		return
	}
	p.resolved.Store(false)
	p.one[0] = nil
	p.waiter.future, p.waiter.to, p.waiter.alarm.Ring = nil, nil, nil // the alarm's ring would keep the future
	p.scope = nil
	j.parkers.Put(p)
}

// Resolved implements Resolved.
func (p *parker) Resolved(*Waiter) {
	p.resolved.Store(true)
	p.wake()
}

func (p *parker) wake() {
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

// await returns when c has settled, or with the reason ctx ended before.
func await(ctx context.Context, t *Turn, own bool, c *Future) error {
	if own && c.work.Help(t) && c.Settled() {
		return nil
	}
	p := newParker(t.job)
	if !c.Subscribe(&p.waiter, p) {
		return nil
	}
	p.one[0] = c
	err := p.park(ctx, t, own, p.one[:], 1, c.Settled)
	if err != nil {
		c.Unsubscribe(&p.waiter)
		return err
	}
	p.recycle(t.job)
	return nil
}

// park blocks the goroutine of t until done reports true or ctx ends. on are the futures it waits for, need how many
// of them.
func (p *parker) park(ctx context.Context, t *Turn, own bool, on []*Future, need int, done func() bool) error {
	b := t.Base()
	if b.kind != TurnRoot {
		p.block = Blocked{on: on, need: need}
		prev := b.block.Swap(&p.block)
		defer b.block.Store(prev)
		if breakCycle(b) {
			if far := b.watchFar(&p.block); far != nil {
				defer far.stop()
			}
		}
	}
	rt := t.job.Runtime
	rt.Block(b)
	defer rt.Unblock(b)

	// A driver's turn is above all and ends with its context or the node, a task's or grain's is watched.
	var ended, closed <-chan struct{}
	if b.kind == TurnRoot {
		closed = t.job.Closed
	}
	switch {
	case own && t.outer != nil && t.trunk == nil:
		ended = t.outer.Done() // the node's end is in closed, so a driver's own channel need not be made
	case own && t.outer == nil:
		// The turn's own context: watching the turn avoids making a channel for it.
		if t.Watch(&p.watch[0], p.wake) {
			defer t.Unwatch(&p.watch[0])
		} else {
			p.wake()
		}
	default:
		ended = ctx.Done()
	}
	p.watchScopes(t, on)
	defer p.unwatchScopes()
	for {
		select {
		case <-p.poke:
		case <-closed:
			if !done() {
				// The node ends the turn above every driver before it closes this channel.
				return cmp.Or(t.Cancelled(), error(ErrClosed))
			}
			return nil
		case <-ended:
			if !done() {
				return waitError(on, endError(context.Cause(ctx)))
			}
			return nil
		}
		if done() {
			return nil
		}
		// Cancellation is pulled: work in a cancelled scope is settled by its waiters.
		for _, c := range on {
			if err := c.up.Cancelled(); err != nil {
				c.Cancel(err)
			}
		}
		if done() {
			return nil
		}
		if err := t.Cancelled(); err != nil {
			return err
		}
	}
}

// waitError names the work that the caller waited for when its context ended.
func waitError(on []*Future, err error) error {
	if len(on) == 0 {
		return err
	}
	what := on[0].work.Name()
	if len(on) > 1 {
		what = fmt.Sprintf("%s and %d more", what, len(on)-1)
	}
	return fmt.Errorf("wait for %s: %w", what, err)
}

// watchScopes watches the turns that on were submitted from, each once, and but for t, whose end the caller sees.
func (p *parker) watchScopes(t *Turn, on []*Future) {
	last := t
	for _, c := range on {
		s := c.up
		if s == nil || s == last || s == t || s == p.scope || p.scopes[s] != nil {
			continue
		}
		last = s
		w := &p.watch[1]
		if p.scope == nil {
			p.scope = s
		} else {
			w = &Watcher{}
			if p.scopes == nil {
				p.scopes = map[*Turn]*Watcher{}
			}
			p.scopes[s] = w
		}
		if !s.Watch(w, p.wake) {
			p.wake()
		}
	}
}

func (p *parker) unwatchScopes() {
	if p.scope != nil {
		p.scope.Unwatch(&p.watch[1])
	}
	for s, w := range p.scopes {
		s.Unwatch(w)
	}
}

// maxListed bounds what Listed names.
const maxListed = 4

// Listed names the first of items, and says how many more there are: "a, b or c", "a, b, c, d and 5 more". or is before the last.
func Listed(items []string, or string) string {
	n := len(items)
	switch {
	case n > maxListed:
		return fmt.Sprintf("%s and %d more", strings.Join(items[:maxListed], ", "), n-maxListed)
	case n > 1:
		return strings.Join(items[:n-1], ", ") + or + items[n-1]
	}
	return strings.Join(items, "")
}
