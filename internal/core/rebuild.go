package core

import (
	"errors"
	"reflect"
)

// A value is lost when no node has a copy. A future whose value is lost has it made again where something knows how: its
// Work, or the Source that has lost it. The future then has another Source, and stays what it was to all who hold it.
//
//	absent at src ── Fetch: ErrObjectLost ──► Rebuild ──► absent at another source ── Fetch ──► here
//	                                             │
//	                                             └──► failed: stays, as a fetch that failed with ErrObjectLost does

// Remaker is a Work, or a Source, that can have a lost value made again. A future asks its Work, or else its Source.
type Remaker interface {
	// Remake has the value of c made again; lost says how it was lost. done is called once, on any goroutine, with the
	// Source that has it now, or with why it cannot be made, which matches ErrObjectLost. It must not block.
	Remake(c *Future, lost error, done func(Source, error))
}

// rebuild is one attempt to replace a source that has lost the value.
type rebuild struct {
	lost    Source
	waiting []func(error)
	err     error // of one that has failed
}

// failure is why the value that src has lost cannot be made again, nil while that is not known.
func (r *rebuild) failure(src Source) error {
	if r == nil || r.lost != src {
		return nil
	}
	return r.err
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
	case err != nil && current:
		r.err = err
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

// rebuild has the value made again that src has lost, and fetches it from where it is then.
func (o *fetched[T]) rebuild(src Source, lost error, hops int) {
	if o.absent != nil {
		o.absent.Rebuild(src, lost, func(err error) {
			if err != nil {
				o.Fail(err)
			} else if src := o.again(); src != nil {
				o.begin(src, hops+1)
			}
		})
		return
	}
	by, ok := src.(Remaker)
	if !ok {
		o.Fail(lost)
		return
	}
	by.Remake(&o.Future, lost, func(src Source, err error) {
		if err != nil {
			o.Fail(err)
			return
		}
		o.begin(src, hops+1)
	})
}

// again returns where the value of the absent future is after a rebuild. It returns nil when it has settled o: the value
// is here by now, or was released.
func (o *fetched[T]) again() Source {
	f := o.absent
	f.mu.Lock()
	w, v := f.word.Load(), f.val
	a := f.absenceLocked()
	f.mu.Unlock()
	switch {
	case w&phaseMask != phaseReady || a == nil:
		o.Fail(ErrReleased)
	case w&flagAbsent != 0:
		return SourceOf(&f.Future)
	default:
		o.Start()
		o.Resolve(v)
	}
	return nil
}

// errElsewhere: another future has the value.
var errElsewhere = errors.New("the value is in another future of this node")

// local is the Source of a value that another future of this node has, or brings.
type local struct{ future *Future }

// Local returns the Source of the value of c, another future of this node that has settled as ready. Where the value of c
// is elsewhere that is its Source.
func Local(c *Future) Source {
	if c.Absent() {
		return SourceOf(c)
	}
	return &local{c}
}

func (s *local) Name() string { return s.future.work.Name() }
func (s *local) ID() TaskID   { return s.future.ID() }
func (s *local) Cancelled()   {}

// Where implements Located.
func (s *local) Where() (NodeKey, int64) {
	w, _ := WhereaboutsOf(s.future)
	return w.NodeKey, w.Size
}

// Fetch implements Source.
func (s *local) Fetch(into any, done func(error)) {
	if err := s.future.Pin(); err != nil {
		done(err)
		return
	}
	(&localFetch{future: s.future, into: into, done: done}).look(s.future)
}

// localFetch waits until the value of a settled future is here.
type localFetch struct {
	waiter Waiter
	future *Future // pinned
	into   any
	done   func(error)
}

// Resolved implements Resolved.
func (l *localFetch) Resolved(w *Waiter) { l.look(w.Future()) }

// look is called with the future, and then with the one that has brought its value.
func (l *localFetch) look(at *Future) {
	for !at.Follow(&l.waiter, l) {
		v, err := at.Outcome()
		if e := (*Elsewhere)(nil); errors.As(err, &e) && at.Absent() {
			continue // the value was evicted in this moment
		}
		if err == nil {
			reflect.ValueOf(l.into).Elem().Set(reflect.ValueOf(v).Elem())
		}
		l.future.Unpin()
		l.done(err)
		return
	}
}
