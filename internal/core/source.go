package core

import (
	"context"
	"errors"
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

// Viewer is a Source that can show a value without giving it away.
type Viewer interface {
	// View is Fetch for a value that is looked at and then put back: it may share memory that is not the collector's.
	// Unless done is told of an error, close, which may be nil, is called once when the value is not used any more.
	View(into any, done func(close func(), err error))
}

// SentViewer is a Viewer that can have the bytes sent to this node where View would map those of another process. The copy is for
// one reader: it goes with the View.
type SentViewer interface {
	ViewSent(into any, done func(close func(), err error))
}

// View is raysys.View.
func View[T any](ctx context.Context, r Ref[T], f func(T) error) error {
	return viewed(ctx, r, f, false)
}

func viewed[T any](ctx context.Context, r Ref[T], f func(T) error, sent bool) error {
	if r.future == nil {
		return zeroRef("View of", TypeOf[T]())
	}
	t, at, locked, end, err := r.future.view(ctx, sent)
	if end != nil {
		defer end()
	}
	if err != nil {
		return err
	}
	return call(t, copied[T](at, locked), f)
}

// ViewSent is View of a value that is read once, see SentViewer.
func ViewSent[T any](ctx context.Context, r Ref[T], f func(T) error) error {
	return viewed(ctx, r, f, true)
}

func isViewer(src Source) bool {
	_, ok := src.(Viewer)
	return ok
}

// call lends the value to f. In strict mode f gets a copy, so that a change by f is found; the value itself is not
// watched, because its memory may be gone when f has returned.
func call[T any](t *Turn, v T, f func(T) error) error {
	if in := t.job.Inspect; in != nil {
		at := new(T)
		*at = v
		back, err := in.Lend("value of View", at)
		if err != nil {
			return err
		}
		defer back()
		v = *at
	}
	return f(v)
}

// open waits until the value is open that from would bring.
func open(ctx context.Context, t *Turn, own bool, from *fetched, sent bool) (*showing, error) {
	o := &showing{fetched: fetched{of: from.of, future: from.of.make(), src: from.src, absent: from.absent}, sent: sent}
	o.future.Init(o, t.job.Top, 0, false)
	if err := await(ctx, t, own, o.future); err != nil {
		if !o.future.Cancel(err) {
			o.end()
		}
		return nil, err
	}
	return o, nil
}

// showing is the Work of the future of a value that is open for a View.
type showing struct {
	fetched
	sent  bool   // rather than mapped
	close func() // set before it settles as ready
}

// end puts the value back.
func (o *showing) end() {
	if o.future.word.Load()&phaseMask == phaseReady && o.close != nil {
		o.close()
	}
}

// wanted is called when the View begins to wait.
func (o *showing) wanted() { o.once.Do(func() { o.open(o.src, 0) }) }

func (o *showing) open(src Source, hops int) {
	into := reflect.New(o.of.Type).Interface()
	done := func(close func(), err error) {
		var e *Elsewhere
		switch {
		case errors.As(err, &e) && hops < maxHops:
			o.absent.passedOn(src, e.Source)
			o.open(e.Source, hops+1)
		case e != nil:
			o.future.Fail(fmt.Errorf("%w: %s was passed on %d times", ErrObjectLost, o.src.Name(), hops))
		case errors.Is(err, ErrObjectLost) && hops < maxHops:
			o.absent.Rebuild(src, err, func(err error) {
				if err != nil {
					o.future.Fail(err)
				} else if src := o.again(); src != nil {
					o.open(src, hops+1)
				}
			})
		case err != nil:
			o.future.Fail(err)
		default:
			o.close = close
			o.future.Start()
			if !o.resolve(into) && close != nil {
				close() // the View has given up meanwhile
			}
		}
	}
	if v, ok := src.(SentViewer); ok && o.sent {
		v.ViewSent(into, done)
	} else if v, ok := src.(Viewer); ok {
		v.View(into, done)
	} else {
		src.Fetch(into, func(err error) { done(nil, err) })
	}
}

// Stopped implements Stoppable: an object that is opened later is closed at once.
func (o *showing) Stopped() {}

// Located is a Source that knows which node has the value.
type Located interface {
	// Where names the node, zero for this one, and says about how large the encoding is, 0 where that is not known.
	Where() (at NodeKey, size int64)
}

// Whereabouts says where a value lies that is too large to travel along.
type Whereabouts struct {
	NodeKey       // the node that has it. This node has it too if Here is set. Zero: no other is known
	Size    int64 // of the encoding, about
	Here    bool  // it is on this node, in memory or on disk
}

// unknownSize stands for the size of an object that no node has reported: most are larger than ObjectSize by far.
const unknownSize = 1 << 20

// WhereaboutsOf returns where the value of c lies, which has settled. ok is false for a failure, for a value that is
// no object, and for a value in this node's memory of which no copy is known elsewhere. It costs nothing for a small
// value.
func WhereaboutsOf(c *Future) (w Whereabouts, ok bool) {
	word := c.word.Load()
	if word&phaseMask != phaseReady || word&(flagAbsent|flagKept) == 0 {
		return w, false
	}
	src := SourceOf(c)
	l, ok := src.(Located)
	if ok {
		w.NodeKey, w.Size = l.Where()
	}
	if w.Size == 0 {
		w.Size = c.toldSize()
	}
	here := word&flagAbsent == 0
	if here && (!ok || w.Node == "") {
		return Whereabouts{}, false
	}
	w.Here = here || ok && w.Node == ""
	return w, true
}
