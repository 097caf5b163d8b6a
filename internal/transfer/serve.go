package transfer

import (
	"context"
	"errors"

	"github.com/raysys/raysys"
)

// serve answers and sends until the stream ends; a *refused tells the receiver why.
func (v *upload) serve() error {
	s := v.s
	for {
		chunk, answer, err := s.next()
		if err != nil {
			return err
		}
		if answer {
			err = v.greet()
		} else {
			err = v.give(chunk)
		}
		if err != nil {
			return err
		}
	}
}

// greet finds the object and answers the pull.
func (v *upload) greet() error {
	s := v.s
	s.mu.Lock()
	p := s.pull
	s.mu.Unlock()
	receiving, err := v.find(&p)
	if err != nil {
		return err
	}
	version, err := v.o.Version(s.ctx)
	if err != nil {
		return v.failed(err)
	}
	if err := compare(p.want, version); err != nil {
		return &refused{codeVersion, err}
	}
	if !receiving && p.host != "" && p.host == s.e.cfg.Host && version.Size >= shareFrom {
		// Where it does not work the object is sent: that needs nothing.
		if at, err := v.o.Share(s.ctx); err == nil {
			s.e.counts.shared.Add(1)
			s.answer(&pulled{slot: s.id.slot, status: statusShared, version: version, shared: appendShared(nil, at)})
			return nil
		}
	}
	if v.receiver == nil && version.Size >= s.e.cfg.TreeFrom {
		r, nodes := s.e.place(v.o, s.id.peer, p.failed)
		if r == nil {
			s.e.counts.sentOn.Add(1)
			s.answer(&pulled{slot: s.id.slot, status: statusElsewhere, nodes: nodes, sent: true})
			return errSentOn
		}
		v.receiver = r
	}
	s.answer(&pulled{slot: s.id.slot, version: version})
	return nil
}

// find pins the object, once. Of one that is still being received it waits until its version is known; receiving
// reports that case.
func (v *upload) find(p *pull) (receiving bool, err error) {
	e := v.s.e
	e.mu.Lock()
	f := e.flights[p.want.ID]
	e.mu.Unlock()
	if f != nil {
		if !p.sent || f.feedsFrom(v.s.id.peer) {
			// Two nodes that wait for each other would wait for ever. The sources of this node have room for one more
			// receiver, or can name a node that has.
			hints := f.upstream(v.s.id.peer)
			if len(hints) == 0 {
				return false, &refused{code: codeStarved}
			}
			v.s.answer(&pulled{slot: v.s.id.slot, status: statusElsewhere, nodes: hints})
			return false, errSentOn
		}
		select {
		case <-f.begun:
			receiving = true
		case <-f.done: // received, or not
		case <-v.s.ctx.Done():
			return false, context.Cause(v.s.ctx)
		}
	}
	if v.o == nil {
		if v.o = e.cfg.Store.Take(p.want.ID); v.o == nil {
			e.forgetObject(p.want.ID)
			return false, &refused{code: codeLacks}
		}
	}
	return receiving, nil
}

func (v *upload) failed(err error) error {
	if v.s.ctx.Err() != nil {
		return context.Cause(v.s.ctx)
	}
	c := codeFailed
	if errors.Is(err, raysys.ErrObjectLost) {
		c = codeLacks
	}
	return &refused{c, err}
}

// end gives back what a stream held.
func (v *upload) end() {
	if v.o != nil {
		v.o.Unpin()
	}
	if v.receiver != nil {
		v.s.mu.Lock()
		whole := v.s.whole
		v.s.mu.Unlock()
		v.s.e.served(v.receiver, whole)
	}
}
