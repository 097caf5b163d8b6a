package system

import "context"

type NATS struct{ URL, Token, Creds, CA string }

func (n *Node) NATS(ctx context.Context) (NATS, error) { return n.cfg.NATS, nil }
