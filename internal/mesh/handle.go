package mesh

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/wire"
)

// handlers are what the link calls with frames.
func (m *Mesh) handlers() map[wire.Kind]link.Handler {
	out := map[wire.Kind]link.Handler{}
	add := func(k wire.Kind, f func(p *Peer, class wire.Class, frame []byte) error) {
		out[k] = func(l *link.Peer, class wire.Class, frame []byte) {
			p := m.of(l)
			if p == nil {
				return
			}
			if err := f(p, class, frame); err != nil {
				m.cfg.Log.Warn("closing a connection: protocol violation", zap.Stringer("peer", p.key), zap.Uint8("kind", uint8(k)), zap.Error(err))
				l.Close(fmt.Errorf("frame of kind %d: %w", k, err))
			}
		}
	}
	add(wire.KindOpen, func(p *Peer, _ wire.Class, b []byte) error { return p.turns.Opened(b) })
	add(wire.KindShut, func(p *Peer, _ wire.Class, b []byte) error { return p.turns.Shut(b) })
	add(wire.KindCancelTurn, func(p *Peer, _ wire.Class, b []byte) error { return p.turns.Cancelled(b) })
	add(wire.KindAnswer, func(p *Peer, _ wire.Class, b []byte) error { return p.Questions.Answered(b) })
	for k, f := range m.cfg.Frames {
		add(k, func(p *Peer, _ wire.Class, b []byte) error { return f(p, b) })
	}
	question := func(k wire.Kind, f func(p *Peer, r *wire.Reader, to Reply) error) {
		add(k, func(p *Peer, class wire.Class, b []byte) error {
			return p.Questions.Serve(class, b, func(r *wire.Reader, to Reply) error { return f(p, r, to) })
		})
	}
	question(wire.KindBallot, m.serveBallot)
	for k, f := range m.cfg.Questions {
		question(k, f)
	}
	return out
}

// sinks say where the bodies of frames go.
func (m *Mesh) sinks() map[wire.Kind]link.Sink {
	out := map[wire.Kind]link.Sink{}
	for k, f := range m.cfg.Sinks {
		out[k] = func(l *link.Peer, head []byte, size int) link.Landing {
			p := m.of(l)
			if p == nil {
				return nil
			}
			return f(p, head, size)
		}
	}
	return out
}

// of returns the peer of a connection, nil before it is up and after it is down.
func (m *Mesh) of(l *link.Peer) *Peer {
	v, ok := m.byLink.Load(l)
	if !ok {
		return nil
	}
	return v.(*Peer)
}
