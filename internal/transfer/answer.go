package transfer

import (
	"context"
	"errors"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// takeInbox handles the content of the inbox.
func (d *feed) takeInbox(peer Peer) error {
	in := d.read()
	switch {
	case in.wrong != nil:
		return &sourceError{d.key, codeCorrupt, in.wrong}
	case in.down != nil:
		return in.down
	}
	if in.answer != nil {
		d.heardNow()
		if err := d.answered(peer, in.answer); err != nil {
			return err
		}
	}
	return nil
}

// answered takes an answer to a pull.
func (d *feed) answered(peer Peer, a *pulled) error {
	f := d.flight
	switch a.status {
	case statusElsewhere:
		return d.sentOn(a)
	case statusShared:
		return d.attach(peer, a)
	case statusRefused:
		why := &sourceError{key: d.key, code: a.code}
		if a.text != "" {
			why.err = errors.New(a.text)
		}
		return why
	}
	if err := f.begin(a.version); err != nil {
		c := codeVersion
		if !errors.Is(err, errVersion) {
			c = codeCorrupt
		}
		return &sourceError{d.key, c, err}
	}
	d.heardNow() // the store may have taken its time to make room
	f.mu.Lock()
	first := !d.ready
	d.ready = true
	f.mu.Unlock()
	if first {
		f.pump(d)
		f.wake() // of a large object, several sources are wanted
	}
	return nil
}

// sentOn goes to one of the nodes that a source named.
func (d *feed) sentOn(a *pulled) error {
	f := d.flight
	self := f.e.cfg.Self()
	f.mu.Lock()
	var to core.NodeKey
	for _, k := range a.nodes {
		if k != self && !d.knows(k) && !f.talksTo(k) {
			to = k
			break
		}
	}
	f.mu.Unlock()
	if to == (core.NodeKey{}) {
		for _, k := range a.nodes {
			if !d.knows(k) {
				d.failed = append(d.failed, failure{k, codeOther})
			}
		}
		if a.sent && d.root == (core.NodeKey{}) && len(d.failed) <= maxFailed {
			return errMoved // ask it again: it learns that those will not do
		}
		return &sourceError{d.key, codeStarved, errors.New("it named only nodes that were asked")}
	}
	if a.sent {
		if d.root == (core.NodeKey{}) {
			d.root = d.key
		}
		d.sent = true
	} else {
		d.failed = append(d.failed, failure{d.key, codeStarved})
		d.root, d.sent = core.NodeKey{}, false
	}
	d.setKey(to)
	f.e.counts.redirects.Add(1)
	return errMoved
}

func (d *feed) knows(k core.NodeKey) bool {
	for _, f := range d.failed {
		if f.key == k {
			return true
		}
	}
	return false
}

// attach maps an object of the same host instead of receiving it; where that does not work it is pulled.
func (d *feed) attach(peer Peer, a *pulled) error {
	f := d.flight
	f.mu.Lock()
	want, begun := f.want, f.in != nil
	f.mu.Unlock()
	err := compare(want, a.version)
	if err != nil {
		return &sourceError{d.key, codeVersion, err}
	}
	if !begun {
		var at shared
		if at, err = readShared(a.shared); err == nil {
			o, aerr := f.e.cfg.Store.Attach(f.ctx, at, a.version)
			if aerr == nil {
				o.Pin() // memory of another process is not dropped for room
				f.hold(o)
				f.e.counts.mapped.Add(1)
				f.arrived(o, a.version)
				return errOver
			}
			err = aerr
		}
		if errors.Is(err, context.Canceled) || errors.Is(err, raysys.ErrClosed) {
			return errOver
		}
		if h := f.e.cfg.Hooks.NotShared; h != nil {
			h(d.key, f.name, err)
		}
	}
	d.noShare = true
	return d.pull(peer)
}
