package link

import "time"

// keepAlive pings every peer, so that silence means something, and tells when one is silent.
func (l *Link) keepAlive() {
	ticker := time.NewTicker(l.cfg.PingEvery)
	defer ticker.Stop()
	last := l.now()
	for {
		select {
		case <-ticker.C:
		case <-l.life.Done():
			return
		}
		now := l.now()
		// This process did not run for a while: paused, or starved. What the peers sent meanwhile lies unread, so their
		// silence begins anew.
		stalled := now-last > 3*int64(l.cfg.PingEvery)
		last = now
		for _, p := range l.Peers() {
			p.ping(stalled)
		}
	}
}

func (p *Peer) ping(stalled bool) {
	if stalled {
		p.heard.Store(p.link.now())
	}
	p.mu.Lock()
	p.owed.ping, p.owed.any = true, true
	p.emitHeld()
	p.poke()
	p.mu.Unlock()
	p.bulk.sendCount()
	if suspect := p.link.cfg.Suspect; suspect != nil {
		if silent := p.Silence() >= p.link.cfg.SuspectAfter; silent != p.silent.Load() {
			p.silent.Store(silent)
			suspect(p, silent)
		}
	}
}

// Silence is how long ago the last byte came from the peer. It counts time in which this process ran: after a pause of
// its own it begins anew.
func (p *Peer) Silence() time.Duration {
	return time.Duration(max(0, p.link.now()-p.heard.Load()))
}
