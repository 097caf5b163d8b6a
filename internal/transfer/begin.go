package transfer

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys/internal/objectstore"
)

// errUnproven: an answer without sums may be of another version than what this flight has or wants. The whole manifest
// tells.
var errUnproven = errors.New("its version cannot be told without its sums")

// begin takes an answer. The first makes room in the store, which may wait for it; others must be of the same version.
func (f *flight) begin(a *pulled) error {
	f.mu.Lock()
	for f.in == nil && f.making != nil {
		making := f.making
		f.mu.Unlock()
		select {
		case <-making:
		case <-f.ctx.Done():
			return nil
		}
		f.mu.Lock()
	}
	if f.in != nil {
		defer f.mu.Unlock()
		if f.decided { // its outcome must not change
			return nil
		}
		return f.same(a)
	}
	want := f.want
	made := make(chan struct{})
	f.making = made
	f.mu.Unlock()
	in, err := f.receive(want, a)
	f.mu.Lock()
	f.making = nil
	close(made)
	empty := false
	if in != nil {
		got := in.Outline() // which the store may know more of than the source
		f.in, f.man, f.version, f.whole, f.mark = in, got.Manifest, got.Version, got.Whole, a.mark
		f.cargo.load(objectstore.Chunks(got.Size))
		empty = got.Size == 0
		close(f.begun)
	}
	f.mu.Unlock()
	if empty {
		f.arrived(in.Object(), in.Manifest().Version)
	}
	return err
}

// same decides whether a source has what this flight receives (rule C22), which adopts its manifest where it has none.
// mu is held.
func (f *flight) same(a *pulled) error {
	v := a.man.Version
	if v.ID != f.version.ID || v.Attempt != f.version.Attempt || v.Size != f.version.Size {
		return other(f.version, v)
	}
	switch {
	case a.later && a.mark == f.mark:
		return nil
	case a.later:
		return errUnproven
	case f.whole:
		return compare(f.version, v)
	case a.known:
		return errLeftOut
	}
	if err := a.man.Check(); err != nil {
		return err
	}
	if err := f.in.Adopt(a.outline()); err != nil {
		return fmt.Errorf("%w: %w", errVersion, err)
	}
	f.version, f.whole = v, true
	if a.mark != f.mark {
		f.mark = 0 // whether those sums are these is seen chunk by chunk
	}
	return nil
}

// errLeftOut: a receiver without a manifest does not ask for it to be left out.
var errLeftOut = errors.New("it left out a manifest that is not known here")

// receive returns nil without an error when the flight is decided.
func (f *flight) receive(want objectstore.Version, a *pulled) (*objectstore.Incoming, error) {
	m := a.outline()
	if a.known {
		return nil, errLeftOut
	}
	if a.later && want.Sum != 0 && want.ID == m.ID {
		return nil, errUnproven
	}
	if err := compare(want, m.Version); err != nil {
		return nil, err
	}
	if err := m.Check(); err != nil {
		return nil, err
	}
	in, err := f.e.cfg.Store.ReceiveOutline(f.ctx, m, f.form)
	switch {
	case err == nil:
		in.Object().Pin() // which cannot be dropped yet
		f.hold(in.Object())
		return in, nil
	case errors.Is(err, objectstore.ErrPresent): // another goroutine stored it meanwhile
		if o := f.e.cfg.Store.Take(m.ID); o != nil {
			f.hold(o)
			here, merr := o.Manifest(f.ctx)
			if merr == nil {
				f.arrived(o, here.Version)
				return nil, nil
			}
			err = merr
		}
	}
	f.decide(nil, err)
	return nil, nil
}
