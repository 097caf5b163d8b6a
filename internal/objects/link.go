package objects

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
type connector struct{ mesh *mesh.Mesh }

// Connect implements transfer.Link.
func (l connector) Connect(ctx context.Context, to core.NodeKey) (transfer.Peer, error) {
	p, err := runner.Wait(ctx, func(done func(*mesh.Peer, error)) { l.mesh.Connect(to, done) })
	if err != nil {
		return nil, err
	}
	return transferPeer{p}, nil
}

// transferPeer implements transfer.Peer.
type transferPeer struct{ *mesh.Peer }

// SendBody implements transfer.Peer.
func (p transferPeer) SendBody(kind wire.Kind, head []byte, b transfer.Body) error {
	return p.Peer.SendBody(kind, head, link.Body{
		Pieces: b.Pieces, File: b.File, Offset: b.Offset, Length: b.Length, Release: b.Release,
	})
}

// Abandon implements transfer.Peer.
func (p transferPeer) Abandon(l transfer.Landing) { p.Peer.Abandon(l) }

// Handle handles a frame of a transfer.
func (o *Objects) Handle(p *mesh.Peer, kind wire.Kind, frame []byte) error {
	return o.engine.Handle(transferPeer{p}, kind, frame)
}

// PeerDown ends what goes on over a connection that is over.
func (o *Objects) PeerDown(k core.NodeKey, cause error) { o.engine.PeerDown(k, cause) }

// Land says where the body of a KindChunk goes.
func (o *Objects) Land(p *mesh.Peer, head []byte, size int) link.Landing {
	if landing := o.engine.Land(p.Key(), head, size); landing != nil {
		return landing
	}
	return nil
}
