package core

import (
	"context"
	"errors"
	"fmt"
	"reflect"
)

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

// view is get for a value that is looked at where it is: end, which may be nil, puts it back.
func (c *Future) view(ctx context.Context, sent bool) (t *Turn, at *Future, locked bool, end func(), err error) {
	t, own, err := TurnOf(ctx)
	if err != nil {
		return nil, nil, false, nil, err
	}
	locked, from, err := c.settled(ctx, t, own)
	switch {
	case from == nil:
		return t, c, locked, nil, err
	case !isViewer(from.work.(*fetched).src):
		locked, err = from.readBrought(ctx, t, own)
		return t, from, locked, nil, err
	}
	o, err := open(ctx, t, own, from.work.(*fetched), sent)
	if err != nil {
		return nil, nil, false, nil, err
	}
	locked, _, err = o.future.beginRead(t)
	return t, o.future, locked, o.end, err
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
