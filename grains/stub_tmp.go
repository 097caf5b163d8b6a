package grains

import (
	"context"

	"github.com/raysys/raysys/internal/wire"
)

func (e *Engine) Kinds() map[string]int                 { return nil }
func (e *Engine) HandleCall(wire.Peer, []byte) error    { return nil }
func (e *Engine) HandleResult(wire.Peer, []byte) error  { return nil }
func (e *Engine) HandleCancel(wire.Peer, []byte) error  { return nil }
func (e *Engine) PeerUp(wire.Peer)                      {}
func (e *Engine) PeerDown(wire.Peer, error)             {}
func (e *Engine) Drain(context.Context) error           { return nil }
