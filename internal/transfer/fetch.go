package transfer

import (
	"context"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/objectstore"
)

// Fetch returns an object, which it pulls from the sources if it is not in the store. The object is pinned once: the
// caller calls Unpin. Callers that want the same object at the same time share one transfer, to which the sources of
// each are added; it ends with the ctx of the last one.
//
// want names the object; a Nonce of 0 takes whichever version the first source has, else it is that version or an
// error.
//
// It fails with raysys.ErrObjectLost when no source has the object, and says what each of them answered; with
// raysys.ErrUnreachable when one that may have it lives, but does not give it; with raysys.ErrStoreFull when this node
// has no room; and with the cause of ctx.
func (e *Engine) Fetch(ctx context.Context, want objectstore.Version, sources Sources, form objectstore.Form) (*objectstore.Object, error) {
	o, err := e.fetch(ctx, want, sources, form)
	if err != nil {
		return nil, fmt.Errorf("fetch object %s: %w", want.ID, err)
	}
	return o, nil
}

func (e *Engine) fetch(ctx context.Context, want objectstore.Version, sources Sources, form objectstore.Form) (*objectstore.Object, error) {
	if want.ID.IsZero() {
		return nil, raysys.ErrInvalidRef
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f, o, err := e.board(ctx, want, form)
	switch {
	case err != nil:
		return nil, err
	case o != nil:
		return checked(ctx, o, want)
	}
	f.join(sources)
	select {
	case <-f.done:
	case <-ctx.Done():
	}
	return f.leave(ctx, want)
}

// board returns the flight of an object, which it begins if need be, with one more waiter; or the object that is here,
// pinned.
func (e *Engine) board(ctx context.Context, want objectstore.Version, form objectstore.Form) (*flight, *objectstore.Object, error) {
	for {
		e.mu.Lock()
		f := e.flights[want.ID]
		if f == nil {
			if o := e.cfg.Store.Take(want.ID); o != nil {
				e.mu.Unlock()
				return nil, o, nil
			}
			f = newFlight(e, want, form)
			if !e.runLocked(f.run) {
				e.mu.Unlock()
				return nil, nil, raysys.ErrClosed
			}
			e.flights[want.ID] = f
			if !e.begun {
				e.begun = true
				for range verifiers {
					e.checks.Go(e.verify)
				}
			}
			e.counts.flights.Add(1)
		}
		if !f.ending {
			f.waiters++
			e.mu.Unlock()
			return f, nil, nil
		}
		e.mu.Unlock()
		select { // until the store has forgotten what came of it
		case <-f.done:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// checked returns an object that was here already, or unpins it when it is not the one that is wanted.
func checked(ctx context.Context, o *objectstore.Object, want objectstore.Version) (*objectstore.Object, error) {
	if want.Nonce == 0 {
		return o, nil
	}
	v, err := o.Version(ctx)
	if err == nil {
		err = compare(want, v)
	}
	if err != nil {
		o.Unpin()
		return nil, err
	}
	return o, nil
}

// errVersion: versions are never mixed (rule C22).
var errVersion = fmt.Errorf("%w: another version of it is there", raysys.ErrObjectLost)

// compare reports that a version is not the one that is wanted.
func compare(want, got objectstore.Version) error {
	if want.ID == got.ID && (want.Nonce == 0 || want == got) {
		return nil
	}
	return other(want, got)
}

func other(want, got objectstore.Version) error {
	return fmt.Errorf("%w: %s where %s is wanted", errVersion, got, want)
}

// leave ends one caller's wait. The last to leave ends the flight, or gives back the flight's own pin.
func (f *flight) leave(ctx context.Context, want objectstore.Version) (o *objectstore.Object, err error) {
	select {
	case <-f.done:
		if o, err = f.object, f.err; err == nil {
			if err = compare(want, f.version); err == nil {
				o.Pin()
			}
		}
	default:
		err = context.Cause(ctx)
	}
	e := f.e
	e.mu.Lock()
	f.waiters--
	last := f.waiters == 0
	over := f.over
	f.ending = f.ending || last && !over
	e.mu.Unlock()
	switch {
	case last && over && f.object != nil:
		f.object.Unpin()
	case last && !over:
		f.cancel(errNoWaiters)
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// land ends the flight: with an object, which is pinned for each waiter, or with an error.
func (f *flight) land(o *objectstore.Object, err error) {
	if err == nil {
		o.Pin()
	}
	e := f.e
	e.mu.Lock()
	f.object, f.err, f.over = o, err, true
	delete(e.flights, f.name)
	alone := f.waiters == 0
	e.mu.Unlock()
	close(f.done)
	if alone && err == nil {
		o.Unpin()
	}
}

// errNoWaiters ends a flight whose callers have all left.
var errNoWaiters = fmt.Errorf("no caller waits for the object any more: %w", context.Canceled)
