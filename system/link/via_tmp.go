package link

import (
	"context"

	"github.com/raysys/raysys"
)

func (l *Link) ConnectVia(ctx context.Context, node raysys.NodeID, via *Peer) (*Peer, error) {
	return nil, ErrUnreachable
}
