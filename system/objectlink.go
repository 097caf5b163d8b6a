package system

import (
	"context"
	"errors"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/transfer"
	"github.com/raysys/raysys/internal/wire"
)

// connector implements transfer.Link.
type connector struct{ c *cluster }

// Connect implements transfer.Link.
func (l connector) Connect(ctx context.Context, to transfer.Key) (transfer.Peer, error) {
	type outcome struct {
		p   *peer
		err error
	}
	came := make(chan outcome, 1) // done is called once
	l.c.connect(nodeKey{Node: to.Node, Incarnation: to.Incarnation}, func(p *peer, err error) { came <- outcome{p, err} })
	select {
	case o := <-came:
		if o.err != nil {
			return nil, o.err
		}
		return o.p, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// SendBody implements transfer.Peer.
func (p *peer) SendBody(kind wire.Kind, head []byte, b transfer.Body) error {
	return p.told(p.link.SendBody(link.Kind(kind), head, link.Body{
		Pieces: b.Pieces, File: b.File, Offset: b.Offset, Length: b.Length, Release: b.Release,
	}))
}

// Abandon implements transfer.Peer.
func (p *peer) Abandon(l transfer.Landing) { p.link.Abandon(l) }

// sinks say where the bodies of frames go.
func (c *cluster) sinks() map[link.Kind]link.Sink {
	return map[link.Kind]link.Sink{
		link.Kind(wire.KindChunk): func(l *link.Peer, head []byte, size int) link.Landing {
			v, ok := c.byLink.Load(l)
			if !ok {
				return nil
			}
			landing := c.objects.engine.Land(transferKey(v.(*peer).key), head, size)
			if landing == nil {
				return nil
			}
			return landing
		},
	}
}

// background runs f on a goroutine that ends with the cluster, or calls ended with why there is none any more.
func (c *cluster) background(f func(), ended func(error)) {
	c.mu.Lock()
	err := c.ended
	if err == nil {
		c.running.Add(1)
	}
	c.mu.Unlock()
	if err != nil {
		if !errors.Is(err, raysys.ErrClosed) {
			err = errors.Join(raysys.ErrClosed, err)
		}
		ended(err)
		return
	}
	go func() {
		defer c.running.Done()
		f()
	}()
}
