package transfer

import (
	"errors"

	"github.com/raysys/raysys/system/object"
)

// begin takes a manifest. The first makes room in the store, which may wait for it; others must be of the same version.
func (f *flight) begin(m object.Manifest, known bool) error {
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
		return compare(f.version, m.Version)
	}
	want := f.want
	made := make(chan struct{})
	f.making = made
	f.mu.Unlock()
	in, err := f.receive(want, m, known)
	f.mu.Lock()
	f.making = nil
	close(made)
	if in != nil {
		f.in, f.man, f.version = in, m, m.Version
		f.cargo.load(len(m.Chunks))
		close(f.begun)
	}
	f.mu.Unlock()
	if in != nil && len(m.Chunks) == 0 {
		f.arrived(in.Object(), m.Version)
	}
	return err
}

// receive returns nil without an error when the flight is decided.
func (f *flight) receive(want object.Version, m object.Manifest, known bool) (*object.Incoming, error) {
	if known {
		return nil, errors.New("it left out a manifest that is not known here")
	}
	if err := compare(want, m.Version); err != nil {
		return nil, err
	}
	if err := m.Check(); err != nil {
		return nil, err
	}
	in, err := f.e.cfg.Store.Receive(f.ctx, m, f.form)
	switch {
	case err == nil:
		return in, nil
	case errors.Is(err, object.ErrPresent): // somebody put it there meanwhile
		if o := f.e.cfg.Store.Lookup(m.ID); o != nil {
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
