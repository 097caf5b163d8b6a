package mesh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/wire"
)

// directEvery is how often a relayed pair tries to talk directly again.
const directEvery = 2 * time.Second

// errPairBroken: others hear the node, this one does not.
var errPairBroken = errors.New("the direct connection is silent, though other nodes hear the node")

// suspected is called by the link when a peer fell silent, or is heard again.
func (m *Mesh) suspected(l *link.Peer, silent bool) {
	if p := m.of(l); p != nil && silent {
		m.cfg.Runner.Run(func() { m.reroute(p) })
	}
}

// reroute gives up the connection to a silent node once another node says that it hears it: then the two are alive
// and only the way between them is broken, and dial finds a way through a third. A node that no member hears is left
// to its lease.
func (m *Mesh) reroute(p *Peer) {
	for m.Peer(p.key) == p && p.link.Silence() >= m.cfg.Times.Silent {
		for _, q := range m.Connected() {
			if q == p || q.link.Relayed() {
				continue
			}
			ctx, cancel := context.WithTimeout(m.cfg.Runner.Context(), time.Second)
			heard, err := m.question(ctx, q, asksHeard, p.key, 0)
			cancel()
			// A node that paused itself asks before it has read what came meanwhile.
			if err == nil && heard && p.link.Silence() >= m.cfg.Times.Silent {
				m.cfg.Log.Info("pair broken", zap.Stringer("peer", p.key), zap.String("heard by", string(q.key.Node)))
				p.link.Close(fmt.Errorf("%w: %w", link.ErrUnreachable, errPairBroken))
				return
			}
		}
		if !m.cfg.Runner.Pause(m.cfg.Times.Silent) {
			return
		}
	}
}

// improve replaces a relayed connection by a direct one as soon as that is possible.
func (m *Mesh) improve(p *Peer) {
	for m.cfg.Runner.Pause(directEvery) && m.Peer(p.key) == p {
		ctx, cancel := context.WithTimeout(m.cfg.Runner.Context(), DialTimeout)
		addr, err := m.address(ctx, p.key)
		if err == nil {
			_, err = m.link.Connect(ctx, p.key.Node, addr)
		}
		cancel()
		if err == nil || errors.Is(err, raysys.ErrNodeDead) {
			return // the link ends the relayed one
		}
	}
}

// The questions that a node asks another about a third. The numbers are on the wire.
const (
	asksVote  byte = 0 // whether it agrees that the node is silent, for an eviction
	asksHeard byte = 1 // whether it has heard the node lately
	// whether it gives its ballot against the node, for an eviction under the guard whose number follows. A program
	// from before answers that it does not.
	asksBallot byte = 2
)

// question asks another node about a third; guard is of asksBallot.
func (m *Mesh) question(ctx context.Context, p *Peer, what byte, about core.NodeKey, guard uint64) (bool, error) {
	return runner.Wait(ctx, func(done func(bool, error)) {
		Ask(&p.Questions, wire.Control, wire.KindBallot, func(dst []byte) []byte {
			dst = wire.AppendNode(append(dst, what), about)
			if what == asksBallot {
				dst = wire.AppendUvarint(dst, guard)
			}
			return dst
		}, func(r *wire.Reader) (bool, error) { return r.Byte() == 1, nil }, done)
	})
}

// serveBallot serves KindBallot.
func (m *Mesh) serveBallot(_ *Peer, r *wire.Reader, to Reply) error {
	what, about := r.Byte(), wire.ReadNode(r)
	guard := uint64(0)
	if what == asksBallot {
		guard = r.Uvarint()
	}
	if err := r.Err(); err != nil {
		return err
	}
	yes := false
	switch what {
	case asksVote:
		yes = m.member.Ballot(about.Node, about.Incarnation, 0)
	case asksBallot:
		yes = guard != 0 && m.member.Ballot(about.Node, about.Incarnation, guard)
	case asksHeard:
		// Half of what the asker has waited: a node that pauses is silent to all, to some a ping later than to others.
		q := m.Peer(about)
		yes = q != nil && !q.link.Relayed() && q.link.Silence() < m.cfg.Times.Silent/2
	}
	answer := byte(0)
	if yes {
		answer = 1
	}
	to.Send(append(to.Head(), answer))
	return nil
}
