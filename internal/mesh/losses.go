package mesh

import (
	"errors"

	"go.uber.org/zap"

	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/wire"
)

// errHoles is why a connection was ended that may leave a request without its answer.
var errHoles = errors.New("frames were lost on the connection")

// framesLost is called by the link. A request whose frame was lost, or its answer, would wait as long as the connection
// lives, and so would a reference that was given back or a turn that has ended. The end of a connection settles all of
// them: each is asked again on the next one where that is safe, and fails with a typed error where it is not (see Peer.down).
func (m *Mesh) framesLost(l *link.Peer, class wire.Class, n uint64) {
	p := m.of(l)
	if p == nil || p.holed.Swap(true) {
		return
	}
	m.cfg.Log.Warn("frames were lost on a connection, which is made anew", zap.Stringer("peer", p.key),
		zap.Stringer("class", class), zap.Uint64("frames", n), zap.Duration("in", m.cfg.Times.Loss))
	m.cfg.Runner.After(m.cfg.Times.Loss, func() { l.Close(errHoles) })
}
