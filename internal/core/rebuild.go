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

// Effect is what must not be done twice: a call of a grain's method that is neither ReadOnly nor Idempotent.
type Effect struct {
	Method string // "" where that is not known
	Node   NodeID // of the task that made the call; "" for this one, or where it is not known
}

func (e *Effect) String() string {
	const declared = "a grain's method that is neither ReadOnly nor Idempotent"
	switch {
	case e.Method != "":
		return "it, or a task of it, called " + e.Method + ", " + declared
	case e.Node != "":
		return "it, or a task of it, called " + declared + ", by a task on node " + string(e.Node)
	}
	return "it, or a task of it, called " + declared
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

// rebuild has the value made again that src has lost, and fetches it from where it is then.
func (o *fetched) rebuild(src Source, lost error, hops int) {
	if o.absent != nil {
		o.absent.Rebuild(src, lost, func(err error) {
			if err != nil {
				o.future.Fail(err)
			} else if src := o.again(); src != nil {
				o.begin(src, hops+1)
			}
		})
		return
	}
	by, ok := src.(Remaker)
	if !ok {
		o.future.Fail(lost)
		return
	}
	by.Remake(o.future, lost, func(src Source, err error) {
		if err != nil {
			o.future.Fail(err)
			return
		}
		o.begin(src, hops+1)
	})
}

// again returns where the value of the absent future is after a rebuild. It returns nil when it has settled o: the value
// is here by now, or was released.
func (o *fetched) again() Source {
	c := o.absent
	c.mu.Lock()
	w, a := c.word.Load(), c.absenceLocked()
	v := reflect.New(o.of.Type)
	v.Elem().Set(c.value(o.of))
	c.mu.Unlock()
	switch {
	case w&phaseMask != phaseReady || a == nil:
		o.future.Fail(ErrReleased)
	case w&flagAbsent != 0:
		return SourceOf(c)
	default:
		o.future.Start()
		o.resolve(v.Interface())
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
	return Through(c)
}

// Through is Local whose Source keeps c in any case: the value may go with c. It waits for a c that has not settled.
func Through(c *Future) Alias { return &local{c} }

// Alias is a Source whose value another future of this node has, or brings.
type Alias interface {
	Source
	Behind() *Future
}

// HeldBy returns the future that has the value which src brings, where that is another one of this node; else nil.
func HeldBy(src Source) *Future {
	if a, ok := src.(Alias); ok {
		return a.Behind()
	}
	return nil
}

// Behind returns the future of this node that has the value of c, or knows where it is: c itself unless its Source is an
// Alias.
func Behind(c *Future) *Future { return c.at() }

func (s *local) Name() string { return s.future.work.Name() }
func (s *local) ID() TaskID   { return s.future.ID() }
func (s *local) Cancelled()   {}

// Behind implements Alias.
func (s *local) Behind() *Future { return s.future }

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
	l := &localFetch{future: s.future, into: into, done: done}
	if !s.future.Subscribe(&l.waiter, l) {
		l.look(s.future)
	}
}

// localFetch waits until a future has settled, and its value is here.
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
