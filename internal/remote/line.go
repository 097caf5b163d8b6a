package remote

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/wire"
)

const (
	// bodiesAsked is how many bodies a node asks one peer for at a time: 16 MiB.
	bodiesAsked = 4
	// maxHeads is how many heads of a peer may wait beside those. A peer that keeps to maxBodies sends fewer.
	maxHeads = 1024
)

// lines are the messages of other nodes that wait for the body of one before them: a line for each actor and peer.
type lines struct {
	a     *Actors
	count atomic.Int64 // of lines: the usual message looks at nothing else

	mu    sync.Mutex // guards the rest, and is held while a line's messages are handed over, so that none comes between them
	peers map[*mesh.Peer]*peerLines
}

type peerLines struct {
	actors map[string][]*inbound // by the actor's id; the first of each is open
	heads  []*inbound            // whose bodies were not asked for
	asked  int
}

// inbound is a message of another node.
type inbound struct {
	to, sender *actor.PID
	header     map[string]string
	content    any

	open   bool  // it is a head, and the body is to come
	lost   error // why it will not
	form   byte
	name   string
	number uint64
}

// behind has a message wait where one before it does, for the same actor and of the same peer.
func (l *lines) behind(p *mesh.Peer, m inbound) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.peers[p]
	if of == nil || of.actors[m.to.Id] == nil {
		return false
	}
	of.actors[m.to.Id] = append(of.actors[m.to.Id], &m)
	return true
}

// head enters a message without its body.
func (l *lines) head(p *mesh.Peer, m inbound) error {
	l.mu.Lock()
	of := l.peers[p]
	if of == nil {
		of = &peerLines{actors: map[string][]*inbound{}}
		if l.peers == nil {
			l.peers = map[*mesh.Peer]*peerLines{}
		}
		l.peers[p] = of
	}
	if len(of.heads) >= maxHeads {
		l.mu.Unlock()
		return fmt.Errorf("%w: more than %d messages without their bodies", wire.ErrCorrupt, maxHeads)
	}
	if of.actors[m.to.Id] == nil {
		l.count.Add(1)
	}
	m.open = true
	of.actors[m.to.Id] = append(of.actors[m.to.Id], &m)
	of.heads = append(of.heads, &m)
	l.mu.Unlock()
	l.ask(p, of)
	return nil
}

// ask asks for bodies. The end of the connection answers those questions too.
func (l *lines) ask(p *mesh.Peer, of *peerLines) {
	for {
		l.mu.Lock()
		if of.asked == bodiesAsked || len(of.heads) == 0 {
			l.mu.Unlock()
			return
		}
		m := of.heads[0]
		of.heads = of.heads[1:]
		of.asked++
		l.mu.Unlock()
		p.Questions.Ask(wire.Control, wire.KindActorBody, func(dst []byte) []byte { return wire.AppendUvarint(dst, m.number) }, func(r *wire.Reader, err error) error {
			if err == nil {
				m.content, err = readActorMessage(m.form, m.name, r.Rest())
			}
			l.came(p, of, m, err)
			l.ask(p, of)
			return nil
		})
	}
}

// came hands over what waits for nothing any more.
func (l *lines) came(p *mesh.Peer, of *peerLines, m *inbound, err error) {
	if err != nil && !mesh.Undelivered(err) {
		l.a.Log.Warn("a large message to an actor did not come", zap.Stringer("peer", p.Key()), zap.String("pid", m.to.String()), zap.String("type", m.name), zap.Error(err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of.asked--
	m.open, m.lost = false, err
	line := of.actors[m.to.Id]
	for len(line) > 0 && !line[0].open {
		if m := line[0]; m.lost == nil {
			l.a.hand(*m)
		} else if !mesh.Undelivered(m.lost) { // else its sender knows
			l.a.System.DeadLetter.SendUserMessage(m.to, &actor.MessageEnvelope{Message: m.lost, Sender: m.sender})
		}
		line[0] = nil
		line = line[1:]
	}
	of.actors[m.to.Id] = line
	if len(line) > 0 {
		return
	}
	delete(of.actors, m.to.Id)
	l.count.Add(-1)
	if len(of.actors) == 0 {
		delete(l.peers, p)
	}
}
