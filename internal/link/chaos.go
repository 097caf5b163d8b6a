package link

import "github.com/raysys/raysys/internal/wire"

// chaos sends a frame the way Config.Chaos wants it.
func (p *Peer) chaos(class wire.Class, kind wire.Kind, payload []byte) error {
	switch p.link.cfg.Chaos(p.id.Node, class, kind) {
	case Drop:
		p.counts.sent(class, 1, headerSize+len(payload))
		return nil
	case Duplicate:
		if err := p.send(class, kind, payload); err != nil {
			return err
		}
	case Reorder:
		p.mu.Lock()
		if p.held[class] == nil && !p.down {
			p.held[class] = append(appendHeader(nil, len(payload), kind, class), payload...)
			p.mu.Unlock()
			return nil
		}
		p.mu.Unlock()
	}
	err := p.send(class, kind, payload)
	p.mu.Lock()
	p.emitHeldOf(class)
	p.mu.Unlock()
	return err
}

// emitHeld queues what Reorder held back, with mu held.
func (p *Peer) emitHeld() {
	for c := range p.held {
		p.emitHeldOf(wire.Class(c))
	}
}

func (p *Peer) emitHeldOf(class wire.Class) {
	frame := p.held[class]
	if frame == nil || p.down {
		return
	}
	p.held[class] = nil
	p.out[class].push(p, class, readHeader(frame).kind, frame[headerSize:])
	p.poke()
}
