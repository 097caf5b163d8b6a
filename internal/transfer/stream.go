package transfer

import (
	"context"
	"errors"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/wire"
)

// stream is this node's end of a feed of another: it gives that node an object.
type stream struct {
	e      *Engine
	peer   Peer
	id     streamKey
	ctx    context.Context
	cancel context.CancelCauseFunc
	wakes  chan struct{} // of capacity 1: there is something to look at

	mu     sync.Mutex // guards the rest
	pull   pull
	repeat bool   // the receiver has not seen the answer
	spans  []span // asked for and not looked at
	asked  int    // chunks in them
	whole  bool   // the receiver has the object now
}

// streamKey names a stream: slots are the receiver's.
type streamKey struct {
	peer core.NodeKey
	slot uint64
}

// maxStreams bounds the conversations that others may have with this node.
const maxStreams = 1 << 15

// errHungUp is why a stream ends whose receiver is gone, or has all it wants.
var errHungUp = errors.New("the receiver hung up")

func (s *stream) change(f func()) {
	s.mu.Lock()
	f()
	s.mu.Unlock()
	select {
	case s.wakes <- struct{}{}:
	default:
	}
}

// next waits for something to do: to answer, or to send a chunk.
func (s *stream) next() (chunk int, answer bool, err error) {
	for {
		s.mu.Lock()
		switch {
		case s.repeat:
			s.repeat = false
			s.mu.Unlock()
			return 0, true, nil
		case len(s.spans) > 0:
			sp := &s.spans[0]
			chunk = sp.first
			sp.first++
			s.asked--
			if sp.n--; sp.n == 0 {
				s.spans = s.spans[1:]
			}
			s.mu.Unlock()
			return chunk, false, nil
		}
		s.mu.Unlock()
		select {
		case <-s.wakes:
		case <-s.ctx.Done():
			return 0, false, context.Cause(s.ctx)
		}
	}
}

// run is the stream's own goroutine.
func (s *stream) run() {
	v := upload{s: s}
	err := v.serve()
	v.end()
	e := s.e
	e.mu.Lock()
	if e.streams[s.id] == s {
		e.dropStream(s)
	}
	e.mu.Unlock()
	var r *refused
	switch {
	case errors.As(err, &r):
		a := pulled{slot: s.id.slot, status: statusRefused, code: r.code}
		if r.err != nil {
			a.text = r.err.Error()
		}
		s.answer(&a)
	case errors.Is(err, errSentOn):
	case e.life.Err() != nil:
		s.answer(&pulled{slot: s.id.slot, status: statusRefused, code: codeClosed, text: raysys.ErrClosed.Error()})
	}
}

func (s *stream) answer(a *pulled) { send(s.peer, a) }

// send sends an answer. What does not arrive is asked for again, or its link is down.
func send(to Peer, a *pulled) {
	b := a.append(nil)
	if len(b) > wire.InlineLimit {
		_ = to.SendLarge(wire.KindPulled, b)
		return
	}
	_ = to.Send(wire.Replies, wire.KindPulled, b)
	to.Flush()
}

// refused ends a stream with an answer.
type refused struct {
	code code
	err  error
}

func (r *refused) Error() string {
	if r.err == nil {
		return r.code.String()
	}
	return r.err.Error()
}

func (r *refused) Unwrap() error { return r.err }

// errSentOn ends a stream whose receiver was sent elsewhere.
var errSentOn = errors.New("sent elsewhere")

// upload is what a stream holds of the object.
type upload struct {
	s        *stream
	o        *objectstore.Object
	receiver *receiver // nil when the object is given to every receiver
}
