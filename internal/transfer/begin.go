package transfer

import (
	"errors"

	"github.com/raysys/raysys/internal/objectstore"
)

// begin takes the version that a source has. The first makes room in the store, which may wait for it; others must have
// the same (rule C22).
func (f *flight) begin(v objectstore.Version) error {
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
	if f.in != nil || f.decided { // its outcome must not change
		defer f.mu.Unlock()
		if f.decided || f.version == v {
			return nil
		}
		return other(f.version, v)
	}
	want := f.want
	made := make(chan struct{})
	f.making = made
	f.mu.Unlock()
	in, err := f.receive(want, v)
	f.mu.Lock()
	f.making = nil
	close(made)
	if in != nil {
		f.in, f.version = in, v
		f.cargo.load(objectstore.Chunks(v.Size))
		close(f.begun)
	}
	f.mu.Unlock()
	if in != nil && v.Size == 0 {
		f.arrived(in.Object(), v)
	}
	return err
}

// receive returns nil without an error when the flight is decided.
func (f *flight) receive(want, v objectstore.Version) (*objectstore.Incoming, error) {
	if err := compare(want, v); err != nil {
		return nil, err
	}
	if err := v.Check(); err != nil {
		return nil, err
	}
	in, err := f.e.cfg.Store.Receive(f.ctx, v, f.form)
	switch {
	case err == nil:
		in.Object().Pin() // which cannot be dropped yet
		f.hold(in.Object())
		return in, nil
	case errors.Is(err, objectstore.ErrPresent): // another goroutine stored it meanwhile
		if o := f.e.cfg.Store.Take(v.ID); o != nil {
			f.hold(o)
			here, verr := o.Version(f.ctx)
			if verr == nil {
				f.arrived(o, here)
				return nil, nil
			}
			err = verr
		}
	}
	f.decide(nil, err)
	return nil, nil
}
