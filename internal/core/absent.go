package core

import (
	"errors"
	"fmt"
	"reflect"
)

// A future may be ready and its value elsewhere: on the node that computed it, or in a file. Such a future is absent.
// It knows the Source that brings the value. The first reader of the value makes a second future, a fetched, which asks
// the Source; a caller that only asks for the state does not wait.
//
//	the future       pending ── Forward ──► ready, absent ── brought ──► ready, value here
//	                                              ▲                        │
//	                                              └──────── Evict ─────────┘
//	its fetched            first reader: pending ── Fetch ──► ready, value here    readers wait for this one
//	                                            ▲        │
//	                                            └────────┴── the Source has lost it: Rebuild (rebuild.go)
//
// Readers that wait read the value from the fetched, so that the future may lose the value again at any moment.
//
// Future.waiters is a union. Before the outcome it is the list of the waiters. After the outcome it is the absence of
// the future, by the Waiter in that, or nil for a future that never was absent; absenceLocked tells them apart. So a
// future that never is absent has no word for it.

// absence is what a future knows of its value's Source from the moment when it is absent first.
type absence struct {
	Waiter
	src     Source
	size    int64    // about, 0 where src alone may know
	fetch   *Future  // the future that brings the value; nil until it is needed, and again when the value is here
	rebuild *rebuild // under way, or failed; nil else (rebuild.go)
}

// Resolved implements Resolved, and is never called.
func (a *absence) Resolved(*Waiter) {}

func newAbsence(src Source) *absence {
	a := &absence{src: src}
	a.to = a
	return a
}

// absenceLocked returns what c knows of a value that is or was elsewhere; the caller holds mu.
func (c *Future) absenceLocked() *absence {
	if c.waiters == nil {
		return nil
	}
	a, _ := c.waiters.to.(*absence)
	return a
}

// Elsewhere is the error of a Fetch that found the owner of the value in place of the value, and of an Outcome whose
// value is not here.
type Elsewhere struct{ Source Source }

func (e *Elsewhere) Error() string { return "the value is elsewhere: " + e.Source.Name() }

// maxHops bounds how often a fetch follows an Elsewhere.
const maxHops = 16

// Forward settles the future as ready, with its value where src finds it. It reports whether it was first.
func (c *Future) Forward(src Source) bool { return c.ForwardSized(src, 0) }

// ForwardSized is Forward for a value of about size bytes.
func (c *Future) ForwardSized(src Source, size int64) bool {
	a := newAbsence(src)
	a.size = size
	c.mu.Lock()
	for {
		w := c.word.Load()
		if w&phaseMask >= phaseReady {
			c.mu.Unlock()
			return false
		}
		if c.word.CompareAndSwap(w, w&^(phaseMask|flagWaiting)|phaseReady|flagAbsent) {
			break
		}
	}
	list := c.waiters
	c.waiters = &a.Waiter
	c.mu.Unlock()
	c.wakeAll(list)
	c.settleReleased()
	return true
}

// Evict forgets the value of a future that Objects keeps; src brings it back for the next reader. With nil it comes
// from where it came from before. It returns false when the value cannot be forgotten: it is not ready, or src could
// not bring it back.
func (c *Future) Evict(src Source) bool {
	if c.valueType() == nil || c.up == nil {
		return false
	}
	if src == nil {
		src = SourceOf(c)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.word.Load()
	if w&(phaseMask|flagGated|flagKept) != phaseReady|flagGated|flagKept {
		return false
	}
	a := c.absenceLocked()
	switch {
	case w&flagAbsent != 0:
		return true
	case src == nil, a == nil && c.waiters != nil: // in the second case they are about to be told
		return false
	case a == nil:
		a = newAbsence(src)
		c.waiters = &a.Waiter
	}
	a.src, a.fetch = src, nil
	c.word.Or(flagAbsent)
	c.Forget()
	return true
}

// Absent reports whether the future is ready and its value elsewhere.
func (c *Future) Absent() bool { return c.word.Load()&(phaseMask|flagAbsent) == phaseReady|flagAbsent }

// Follow subscribes w to the arrival of c's value when c is ready and that is elsewhere. It returns false, and does
// nothing, when the value is here, or will not come, which Failure then tells. What waits for values calls it
// after c has settled.
func (c *Future) Follow(w *Waiter, to Resolved) bool {
	if c = c.at(); !c.Absent() {
		return false
	}
	f := c.fetching()
	return f != nil && f.Subscribe(w, to)
}

// lostFetch returns why the value of an absent future cannot be had, nil while it may.
func (c *Future) lostFetch() error {
	c = c.at() // who waits for the value waits there
	c.mu.Lock()
	var f *Future
	var lost error
	if a := c.absenceLocked(); a != nil && c.word.Load()&flagAbsent != 0 {
		f, lost = a.fetch, a.rebuild.failure(a.src)
	}
	c.mu.Unlock()
	if f == nil {
		return lost
	}
	return f.Failure()
}

// fetchLocked returns what brings the value of c, which is absent; the caller holds mu. One that failed stays when the value is
// lost, and else is tried again.
func (c *Future) fetchLocked() *fetched {
	a := c.absenceLocked()
	if a.fetch != nil {
		o := a.fetch.work.(*fetched)
		if err := o.future.Failure(); err == nil || errors.Is(err, ErrObjectLost) || errors.Is(err, ErrClosed) {
			return o
		}
	}
	o := newFetched(c.valueType(), a.src, c, c.up.job, false)
	a.fetch = o.future
	return o
}

// fetching returns the future that brings the value, nil when that is here, or its type is not known.
func (c *Future) fetching() *Future {
	if c.valueType() == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.word.Load()&(phaseMask|flagAbsent) != phaseReady|flagAbsent {
		return nil
	}
	return c.fetchLocked().future
}

// brought puts the value that o has brought, to which v points, back into c, unless c has been released or there is no room for
// it: then only the waiting readers have it, from o. Nor is it put there when another future of this node has it.
func (c *Future) brought(o *fetched, v any, src Source) {
	full := errElsewhere
	if HeldBy(src) == nil {
		full = c.keep(v)
	}
	c.mu.Lock()
	a := c.absenceLocked()
	if c.word.Load()&(phaseMask|flagAbsent) != phaseReady|flagAbsent || a.fetch != o.future {
		kept := c.word.Load()&flagKept != 0
		c.mu.Unlock()
		c.dropped(kept)
		return
	}
	a.fetch = nil
	if full == nil {
		c.value(o.of).Set(reflect.ValueOf(v).Elem())
		c.word.And(^flagAbsent) // after the value: readers of an ungated one take no lock
	}
	c.mu.Unlock()
}

// passedOn notes that the value of c, which was thought to be at from, has been found at src.
func (c *Future) passedOn(from, src Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.absenceLocked(); a != nil && a.src == from {
		a.src = src
	}
}

// begin fetches the outcome from src, or from where src says that it is.
func (o *fetched) begin(src Source, hops int) {
	into := reflect.New(o.of.Type).Interface()
	src.Fetch(into, func(err error) {
		var e *Elsewhere
		switch {
		case errors.As(err, &e) && o.absent == nil:
			o.future.Forward(e.Source)
		case e != nil && hops == maxHops:
			o.future.Fail(fmt.Errorf("%w: %s was passed on %d times", ErrObjectLost, o.src.Name(), hops))
		case e != nil:
			o.absent.passedOn(src, e.Source)
			o.begin(e.Source, hops+1)
		case errors.Is(err, ErrObjectLost) && hops < maxHops:
			o.rebuild(src, err, hops)
		case err != nil:
			o.future.Fail(err)
		default:
			if o.absent != nil {
				o.absent.brought(o, into, src)
			}
			o.future.Start()
			o.resolve(into)
		}
	})
}

// Rebuild replaces lost, the Source of c, which is absent, by one that has the value, made again. done is called once:
// with nil when c has another Source than lost, or its value; else with why it cannot have one. Those who ask while a
// rebuild is under way share it.
func (c *Future) Rebuild(lost Source, cause error, done func(error)) {
	c.mu.Lock()
	a := c.absenceLocked()
	switch {
	case a == nil, c.word.Load()&(phaseMask|flagAbsent) != phaseReady|flagAbsent, a.src != lost:
		c.mu.Unlock()
		done(nil)
		return
	case a.rebuild.failure(lost) != nil:
		err := a.rebuild.err
		c.mu.Unlock()
		done(err)
		return
	case a.rebuild != nil && a.rebuild.lost == lost:
		a.rebuild.waiting = append(a.rebuild.waiting, done)
		c.mu.Unlock()
		return
	}
	by, ok := c.work.(Remaker)
	if HeldBy(lost) != nil { // that future has tried
		ok = false
	}
	if !ok {
		if by, ok = lost.(Remaker); !ok {
			c.mu.Unlock()
			done(cause)
			return
		}
	}
	r := &rebuild{lost: lost, waiting: []func(error){done}}
	a.rebuild = r
	c.mu.Unlock()
	by.Remake(c, cause, func(src Source, err error) { c.rebuilt(a, r, src, err) })
}

// rebuilt ends a rebuild of c.
func (c *Future) rebuilt(a *absence, r *rebuild, src Source, err error) {
	c.mu.Lock()
	current := a.rebuild == r
	switch {
	case current && errors.Is(err, ErrObjectLost):
		r.err = err
	case current && err != nil: // it may be made later
		a.rebuild = nil
	case current:
		a.rebuild = nil
		if a.src == r.lost && c.word.Load()&flagAbsent != 0 {
			a.src = src
			if a.fetch != nil && a.fetch.Failure() != nil {
				a.fetch = nil // it failed before another asked for the rebuild
			}
		}
	}
	waiting := r.waiting
	r.waiting = nil
	c.mu.Unlock()
	for _, done := range waiting {
		done(err)
	}
}

// toldSize is the reported size of a value that is or was elsewhere, 0 when it is not known.
func (c *Future) toldSize() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.absenceLocked(); a != nil && a.size > 0 {
		return a.size
	}
	return unknownSize
}
