package transfer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/wire"
)

// give sends one chunk, which is waited for while it is being received.
func (v *upload) give(i int) error {
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
	// Now, and not while others are written: one thread then goes through the bytes twice, the second time in its
	// cache, and leaves the other processors to calls.
	sum, err := c.Sum()
	if err != nil {
		c.Release()
		<-room
		return v.failed(err)
	}
	o := newOutgoing(c, room)
	var buf [headBytes]byte
	head := appendHead(buf[:0], s.id.slot, i, sum)
	err = s.peer.SendBody(wire.KindChunk, head, Body{
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
		return err // the link is down: no answer can be sent
	}
	return &refused{codeOther, err}
}

// outgoing is a chunk that the link has still to write. They are used again, so that a chunk allocates none.
type outgoing struct {
	chunk   objectstore.Chunk
	room    chan struct{}
	release func(error) // over, bound once
}

var outgoings sync.Pool

func newOutgoing(c objectstore.Chunk, room chan struct{}) *outgoing {
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
	o.chunk, o.room = objectstore.Chunk{}, nil
	outgoings.Put(o)
}
