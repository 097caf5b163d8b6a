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

// View is raysys.View.
func View[T any](ctx context.Context, r Ref[T], f func(T) error) error {
	if r.f == nil {
		return fmt.Errorf("%w: View of a zero Ref[%s]", ErrInvalidRef, reflect.TypeFor[T]())
	}
	t, own, err := TurnOf(ctx)
	if err != nil {
		return err
	}
	v, from, err := r.outcome(ctx, t, own)
	if from != nil {
		if _, ok := from.src.(Viewer); ok {
			return show(ctx, t, own, from, f)
		}
		if err := await(ctx, t, own, &from.Future); err != nil {
			return err
		}
		v, _, err = from.read(t)
	}
	if err != nil {
		return err
	}
	return call(t, v, f)
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

// show opens the value at its source.
func show[T any](ctx context.Context, t *Turn, own bool, from *fetched[T], f func(T) error) error {
	o := &showing[T]{fetched: fetched[T]{src: from.src, absent: from.absent}}
	o.Future.Init(o, t.job.Top, 0, false)
	if err := await(ctx, t, own, &o.Future); err != nil {
		if !o.Future.Cancel(err) {
			o.end()
		}
		return err
	}
	defer o.end()
	v, _, err := o.read(t)
	if err != nil {
		return err
	}
	return call(t, v, f)
}

// showing is the future of a value that is open for a View.
type showing[T any] struct {
	fetched[T]
	close func() // set before it settles as ready
}

// end puts the value back.
func (o *showing[T]) end() {
	if o.Future.word.Load()&phaseMask == phaseReady && o.close != nil {
		o.close()
	}
}

// wanted is called when the View begins to wait.
func (o *showing[T]) wanted() { o.once.Do(func() { o.open(o.src, 0) }) }

func (o *showing[T]) open(src Source, hops int) {
	into := new(T)
	done := func(close func(), err error) {
		var e *Elsewhere
		switch {
		case errors.As(err, &e) && hops < maxHops:
			o.absent.Future.passedOn(src, e.Source)
			o.open(e.Source, hops+1)
		case e != nil:
			o.Future.Fail(fmt.Errorf("%w: %s was passed on %d times", ErrObjectLost, o.src.Name(), hops))
		case errors.Is(err, ErrObjectLost) && hops < maxHops:
			o.absent.Future.Rebuild(src, err, func(err error) {
				if err != nil {
					o.Future.Fail(err)
				} else if src := o.again(); src != nil {
					o.open(src, hops+1)
				}
			})
		case err != nil:
			o.Future.Fail(err)
		default:
			o.close = close
			o.Future.Start()
			if !o.Resolve(*into) && close != nil {
				close() // the View has given up meanwhile
			}
		}
	}
	if v, ok := src.(Viewer); ok {
		v.View(into, done)
	} else {
		src.Fetch(into, func(err error) { done(nil, err) })
	}
}

// Stopped implements Stoppable: an object that is opened later is closed at once.
func (o *showing[T]) Stopped() {}
