package core

import (
	"fmt"
	"reflect"
	"sync"
)

// Source brings the outcome of a future that has it elsewhere: on the node that owns the future, or in a file of this
// node. One may also be Located, a Viewer, or a Remaker.
type Source interface {
	// Name says what the future is, for messages.
	Name() string
	// ID is the id of the submission, on whichever node it was made.
	ID() TaskID
	// Fetch asks for the outcome. into is a *T for the value; done is called once, on any goroutine, after *into was
	// filled, or with the failure. An *Elsewhere is no failure: the value is ready, large, and its Source has it.
	Fetch(into any, done func(error))
	// Cancelled is called when this side gives the future up. Others may still wait for it at its owner.
	Cancelled()
}

// Untyped stands for a reference that arrived from another node, before its type is known. The codec places it in a
// Ref[T], which makes it a future of T.
type Untyped struct {
	Future
	job   *Job
	src   Source
	mu    sync.Mutex // guards typed
	typed *Future    // of a Result, once its type is known: it replaces this one
}

// NewUntyped makes the stand-in. The outcome is fetched for the first waiter.
func NewUntyped(job *Job, src Source) *Untyped {
	f := &Untyped{job: job, src: src}
	f.Init(untypedWork{f}, job.Top, 0, false)
	return f
}

// Fresh reports whether the future may be handed out for a reference that arrives: it has neither been released here
// nor failed.
func (f *Untyped) Fresh() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.typed == nil {
		return true
	}
	w := f.typed.word.Load()
	return w&flagReleased == 0 && w&phaseMask <= phaseReady
}

// SourceOf returns where the value of c comes from when it is not in c: that of a future from another node, or of one
// that was evicted. It is nil for one of this node's own.
func SourceOf(c *Future) Source {
	if c.Settled() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if a := c.absenceLocked(); a != nil {
			return a.src
		}
	}
	switch w := c.work.(type) {
	case sourced:
		return w.source()
	case untypedWork:
		return w.f.src
	}
	return nil
}

// untypedWork is the work of an Untyped; nothing waits for it.
type untypedWork struct{ f *Untyped }

func (u untypedWork) Name() string                { return u.f.src.Name() }
func (u untypedWork) Help(*Turn) bool             { return false }
func (u untypedWork) Expires() int64              { return 0 }
func (u untypedWork) Waits() ([]*Turn, []*Future) { return nil, nil }
func (u untypedWork) Break([]string) bool         { return false }

// Untyped reports whether c is the future of an Untyped: it never settles, and only its source knows anything.
func (c *Future) Untyped() bool {
	_, ok := c.work.(untypedWork)
	return ok
}

// adopt makes the future of t behind f, or returns the one made before.
func (f *Untyped) adopt(t *ValueType) (*Future, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.typed == nil {
		f.typed = newFetched(t, f.src, nil, f.job, t.gated).future
	} else if f.typed.valueType() != t {
		return nil, fmt.Errorf("%w: not a reference to %s", ErrInvalidRef, t.Type)
	}
	return f.typed, nil
}

// fetched is the Work of the future of a value that a Source brings: of a reference from another node, or of an absent future.
type fetched struct {
	of     *ValueType
	future *Future
	src    Source
	absent *Future // the absent future whose value this brings; nil for a reference from another node
	once   sync.Once
}

func newFetched(t *ValueType, src Source, absent *Future, job *Job, gated bool) *fetched {
	o := t.makeFetched()
	o.of, o.src, o.absent = t, src, absent
	o.future.Init(o, job.Top, 0, gated)
	return o
}

func (o *fetched) ValueType() *ValueType       { return o.of }
func (o *fetched) Name() string                { return o.src.Name() }
func (o *fetched) Expires() int64              { return 0 }
func (o *fetched) Waits() ([]*Turn, []*Future) { return nil, nil }
func (o *fetched) Break([]string) bool         { return false }
func (o *fetched) source() Source              { return o.src }

// Help fetches nothing in place: the caller parks.
func (o *fetched) Help(*Turn) bool { return false }

// wanted is called for the first waiter, or question for the state.
func (o *fetched) wanted() { o.once.Do(func() { o.begin(o.src, 0) }) }

// Stopped tells the source that this side gave up; see Future.Cancel.
func (o *fetched) Stopped() { o.src.Cancelled() }

// resolve settles it with what v, a *T, points to.
func (o *fetched) resolve(v any) bool {
	o.future.value(o.of).Set(reflect.ValueOf(v).Elem())
	return o.future.Resolve()
}

// Pin keeps the value of c readable although the program releases it; Unpin ends that. A future that
// another node knows is pinned for it. Pin fails with ErrReleased when the value may be gone.
func (c *Future) Pin() error {
	if c.valueType() == nil {
		if c.Untyped() {
			return nil // no reference here can release it
		}
		return fmt.Errorf("%w: its type is not known here", ErrInvalidRef)
	}
	c.pin()
	if c.word.Load()&phaseMask == phaseReleased {
		c.unpin()
		return ErrReleased
	}
	return nil
}

// Unpin ends Pin.
func (c *Future) Unpin() {
	if c.valueType() != nil {
		c.unpin()
	}
}

// Outcome returns a *T to the value of a settled, pinned future, which must only be read, or its failure. An *Elsewhere
// says that the value is not here.
func (c *Future) Outcome() (value any, err error) {
	c = c.at()
	if err := c.Failure(); err != nil {
		return nil, err
	}
	t := c.valueType()
	if t == nil || !c.Settled() {
		return nil, fmt.Errorf("%w: no value is known here", ErrInvalidRef)
	}
	switch w := c.word.Load(); {
	case w&flagAbsent != 0:
	case w&flagKept == 0:
		return c.pointer(t), nil
	default:
		if v := c.copyOf(t); v != nil {
			return v, nil
		}
		if err := c.Failure(); err != nil { // released this moment
			return nil, err
		}
	}
	return nil, &Elsewhere{SourceOf(c)}
}
