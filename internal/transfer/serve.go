package transfer

import (
	"context"
	"errors"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
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
	m, err := v.outline(&p, p.flags&pullSums != 0)
	if err != nil {
		return err
	}
	if !receiving && p.host != "" && p.host == s.e.cfg.Host && m.Size >= s.e.cfg.ShareFrom {
		// Where it does not work the object is sent: that needs nothing.
		if at, err := v.o.Share(s.ctx); err == nil {
			if m, err = v.outline(&p, false); err != nil {
				return err
			}
			s.e.counts.shared.Add(1)
			s.answer(&pulled{slot: s.id.slot, status: statusShared, man: m.Manifest, shared: appendShared(nil, at)})
			return nil
		}
	}
	if v.receiver == nil && m.Size >= s.e.cfg.TreeFrom {
		r, nodes := s.e.place(v.o, s.id.peer, p.failed)
		if r == nil {
			s.e.counts.sentOn.Add(1)
			if h := s.e.cfg.Hooks.Redirected; h != nil {
				h(s.id.peer, m.ID, nodes)
			}
			s.answer(&pulled{slot: s.id.slot, status: statusElsewhere, nodes: nodes, sent: true})
			return errSentOn
		}
		v.receiver = r
	}
	a := pulled{slot: s.id.slot, man: m.Manifest, later: !m.Whole}
	a.known = m.Whole && p.flags&pullKnown != 0
	if p.flags&pullSums != 0 && !a.known {
		a.mark = m.Mark
	}
	if a.later {
		if v.sums && v.mark != m.Mark { // chunks asked for since would be taken for those of the former version
			return &refused{code: codeAnew}
		}
		if !v.sums {
			s.e.counts.unsummed.Add(1)
		}
		v.sums, v.mark = true, m.Mark
	}
	s.answer(&a)
	return nil
}

// outline returns the description of the object for the receiver, if it is the version that is wanted. Unless sums
// may come with the chunks, all of them are computed, or waited for.
func (v *upload) outline(p *pull, later bool) (m objectstore.Outline, err error) {
	if later {
		m, err = v.o.Outline(v.s.ctx)
	}
	if err == nil && !m.Whole && (!later || m.Size < v.s.e.cfg.SumsFrom) {
		m.Mark = 0
		m.Manifest, err = v.o.Manifest(v.s.ctx)
		m.Whole = true
	}
	if err != nil {
		return m, v.failed(err)
	}
	want := p.want
	if !m.Whole {
		want.Sum = 0 // the receiver compares marks
	}
	if err := compare(want, m.Version); err != nil {
		return m, &refused{codeVersion, err}
	}
	return m, nil
}

// find pins the object, once. Of one that is still being received it waits until its manifest is known; receiving
// reports that case.
func (v *upload) find(p *pull) (receiving bool, err error) {
	e := v.s.e
	e.mu.Lock()
	f := e.flights[p.want.ID]
	e.mu.Unlock()
	if f != nil {
		if p.flags&pullSent == 0 || f.feedsFrom(v.s.id.peer) {
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

// feedsFrom reports whether k gives this flight its chunks.
func (f *flight) feedsFrom(k core.NodeKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.talksTo(k)
}

// upstream lists the nodes that give this flight its chunks or sent it to its source, but for k.
func (f *flight) upstream(k core.NodeKey) (keys []core.NodeKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for d := range f.feeds {
		if d.key != k && d.ready {
			keys = append(keys, d.key)
		}
	}
	return keys
}
