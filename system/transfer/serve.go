package transfer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/system/object"
)

// serve answers and sends until the stream ends; a *refused tells the receiver why.
func (v *visit) serve() error {
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
func (v *visit) greet() error {
	s := v.s
	s.mu.Lock()
	p := s.pull
	s.mu.Unlock()
	receiving, err := v.find(&p)
	if err != nil {
		return err
	}
	m, err := v.o.Manifest(s.ctx)
	if err != nil {
		return v.failed(err)
	}
	if err := compare(p.want, m.Version); err != nil {
		return &refused{codeVersion, err}
	}
	a := pulled{slot: s.id.slot, man: m, known: p.flags&pullKnown != 0}
	if !receiving && p.host != "" && p.host == s.e.cfg.Host && m.Size >= s.e.cfg.ShareFrom {
		// Where it does not work the object is sent: that needs nothing.
		if at, err := v.o.Share(s.ctx); err == nil {
			a.status, a.shared, a.known = statusShared, appendShared(nil, at), false
			s.e.counts.shared.Add(1)
			s.answer(&a)
			return nil
		}
	}
	if v.receiver == nil && m.Size >= s.e.cfg.TreeFrom {
		r, nodes := s.e.place(m.ID, s.id.peer, p.failed)
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
	s.answer(&a)
	return nil
}

// find pins the object, once. Of one that is still being received it waits until its manifest is known; receiving
// reports that case.
func (v *visit) find(p *pull) (receiving bool, err error) {
	e := v.s.e
	e.mu.Lock()
	f := e.flights[p.want.ID]
	e.mu.Unlock()
	if f != nil {
		if p.flags&pullSent == 0 || f.feedsFrom(v.s.id.peer) {
			// Two that wait for each other would wait for ever. Those who give it to this node have room for one more,
			// or know who has.
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
		o := e.cfg.Store.Lookup(p.want.ID)
		if o == nil || o.Lost() != nil {
			e.forgetObject(p.want.ID)
			return false, &refused{code: codeLacks}
		}
		o.Pin()
		v.o = o
	}
	return receiving, nil
}

func (v *visit) failed(err error) error {
	if v.s.ctx.Err() != nil {
		return context.Cause(v.s.ctx)
	}
	c := codeFailed
	if errors.Is(err, raysys.ErrObjectLost) {
		c = codeLacks
	}
	return &refused{c, err}
}

// give sends one chunk, which is waited for while it is being received.
func (v *visit) give(i int) error {
	s := v.s
	if v.o == nil {
		return &refused{codeOther, fmt.Errorf("chunk %d was asked for before an answer", i)}
	}
	c, err := v.o.Chunk(s.ctx, i)
	if err != nil {
		return v.failed(err)
	}
	room := s.e.room(s)
	select {
	case room <- struct{}{}:
	case <-s.ctx.Done():
		c.Release()
		return context.Cause(s.ctx)
	}
	o := newOutgoing(c, room)
	var head [headBytes + 4]byte
	err = s.peer.SendBody(wire.KindChunk, appendHead(head[:0], s.id.slot, i), Body{
		Pieces: c.Pieces, File: c.File, Offset: c.Offset, Length: c.Size, Release: o.release,
	})
	if err == nil {
		s.e.counts.gave(c.Size)
		return nil
	}
	o.over(err)
	switch {
	case errors.Is(err, raysys.ErrOverloaded):
		return &refused{codeBusy, err}
	case errors.Is(err, raysys.ErrNotDelivered):
		return err // the link is down: there is nobody to tell
	}
	return &refused{codeOther, err}
}

// outgoing is a chunk that the link has still to write. They are used again, so that a chunk allocates none.
type outgoing struct {
	chunk   object.Chunk
	room    chan struct{}
	release func(error) // over, bound once
}

var outgoings sync.Pool

func newOutgoing(c object.Chunk, room chan struct{}) *outgoing {
	o, ok := outgoings.Get().(*outgoing)
	if !ok {
		o = new(outgoing)
		o.release = o.over
	}
	o.chunk, o.room = c, room
	return o
}

// over gives back what a chunk held. That it was not sent, or not read, its receiver will notice.
func (o *outgoing) over(error) {
	o.chunk.Release()
	<-o.room
	o.chunk, o.room = object.Chunk{}, nil
	outgoings.Put(o)
}

// room is where chunks for the stream's peer wait to be written, whatever object they are of; nil when the stream is over.
func (e *Engine) room(s *stream) chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.streams[s.id] != s {
		return nil
	}
	r := e.sending[s.id.peer]
	if r == nil {
		r = make(chan struct{}, e.cfg.Outstanding)
		e.sending[s.id.peer] = r
	}
	return r
}

// end gives back what a stream held.
func (v *visit) end() {
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
func (f *flight) feedsFrom(k Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.talksTo(k)
}

// upstream lists who gives this flight its chunks or sent it there, but for k.
func (f *flight) upstream(k Key) (keys []Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for d := range f.feeds {
		if d.key != k && d.ready {
			keys = append(keys, d.key)
		}
	}
	return keys
}
