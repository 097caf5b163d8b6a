package link

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"
)

// pings are those of one session. A pong returns the bytes of a ping, so that the side that pings knows which of its
// pings was answered last, and since when the other side heard nothing of it at most.
type pings struct {
	withheld atomic.Bool // no ping is answered
	brisk    atomic.Bool // it is pinged each Config.BriskEvery

	mu       sync.Mutex           // guards what follows
	sent     [keptPings]time.Time // the last ones, in a ring; a ping carries how long after the link's base it was sent
	next     int
	answered time.Time // when the ping was sent that was answered last
}

// keptPings is how many pings a pong may be late.
const keptPings = 64

// send notes a ping that leaves now, and returns what it carries.
func (g *pings) send(base time.Time) uint64 {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sent[g.next%keptPings] = now
	g.next++
	return uint64(now.Sub(base))
}

// owePing has a ping go to the peer and nothing else.
func owePing(p *Peer) {
	p.mu.Lock()
	p.owed.ping, p.owed.any = true, true
	p.poke()
	p.mu.Unlock()
}

// pong takes the bytes of a pong. A value that no ping had is ignored: a peer can only return what it got.
func (g *pings) pong(base time.Time, payload []byte) (trip time.Duration, known bool) {
	value := binary.LittleEndian.Uint64(payload)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, at := range g.sent {
		if !at.IsZero() && uint64(at.Sub(base)) == value {
			if g.answered.Before(at) {
				g.answered = at
			}
			return time.Since(at), true
		}
	}
	return 0, false
}

// Answered returns how long ago the ping was sent that the peer answered last, by the larger of monotonic and wall
// time (C16); false when it has answered none.
func (g *pings) Answered() (ago time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.answered.IsZero() {
		return 0, false
	}
	now := time.Now()
	return max(now.Sub(g.answered), now.Round(0).Sub(g.answered.Round(0))), true
}

// Withhold says whether the pings of the peer stay without an answer. A ping that was heard before it may still be
// answered.
func (g *pings) Withhold(on bool) { g.withheld.Store(on) }

// Brisk says whether the peer is pinged each Config.BriskEvery.
func (g *pings) Brisk(on bool) { g.brisk.Store(on) }
