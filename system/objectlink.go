package system

import (
	"context"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/transfer"
	"github.com/raysys/raysys/internal/wire"
)

// connector implements transfer.Link.
type connector struct{ c *cluster }

// Connect implements transfer.Link.
func (l connector) Connect(ctx context.Context, to core.NodeKey) (transfer.Peer, error) {
	p, err := runner.Wait(ctx, func(done func(*peer, error)) {
		l.c.connect(core.NodeKey{Node: to.Node, Incarnation: to.Incarnation}, done)
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// SendBody implements transfer.Peer.
func (p *peer) SendBody(kind wire.Kind, head []byte, b transfer.Body) error {
	return p.Peer.SendBody(kind, head, link.Body{
		Pieces: b.Pieces, File: b.File, Offset: b.Offset, Length: b.Length, Release: b.Release,
	})
}

// Abandon implements transfer.Peer.
func (p *peer) Abandon(l transfer.Landing) { p.Peer.Abandon(l) }

// land says where the body of a KindChunk goes.
func (c *cluster) land(p *mesh.Peer, head []byte, size int) link.Landing {
	if landing := c.objects.engine.Land(p.Key(), head, size); landing != nil {
		return landing
	}
	return nil
}
