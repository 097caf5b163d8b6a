package refs

import (
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/wire"
)

// Session is a connection with the references over it. It implements wire.Peer and wire.Exporter.
type Session struct {
	*mesh.Peer
	refs     *References
	declared []uint64 // what KindHeld has declared so far; used by the goroutine that reads
}

// Open begins the session of a new connection. It is called before anything else is sent on the connection: the first frame
// declares the references that are held here.
func (r *References) Open(p *mesh.Peer) {
	s := &Session{Peer: p, refs: r}
	p.Session = s
	r.exports.anew(p.Key(), s)
	r.table.declare(s)
}

// Of returns the references over a connection.
func Of(p *mesh.Peer) *Session { return p.Session.(*Session) }

// To returns the session with an incarnation, nil when there is no connection now.
func To(m *mesh.Mesh, k core.NodeKey) *Session {
	if p := m.Peer(k); p != nil {
		return Of(p)
	}
	return nil
}

// Connect is Connect of the mesh, for the session.
func Connect(m *mesh.Mesh, k core.NodeKey, done func(*Session, error)) {
	m.Connect(k, func(p *mesh.Peer, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(Of(p), nil)
	})
}

// Frames are the handlers of frames about references that have no answer.
func Frames() map[wire.Kind]func(*mesh.Peer, []byte) error {
	return map[wire.Kind]func(*mesh.Peer, []byte) error{
		wire.KindDrop: func(p *mesh.Peer, b []byte) error { return Of(p).onDrop(b) },
		wire.KindHeld: func(p *mesh.Peer, b []byte) error { return Of(p).onHeld(b) },
	}
}

// Questions are the handlers of questions about references.
func Questions() map[wire.Kind]func(*mesh.Peer, *wire.Reader, mesh.Reply) error {
	return map[wire.Kind]func(*mesh.Peer, *wire.Reader, mesh.Reply) error{
		wire.KindAwait:  func(p *mesh.Peer, r *wire.Reader, to mesh.Reply) error { return Of(p).onAwait(r, to) },
		wire.KindBorrow: func(p *mesh.Peer, r *wire.Reader, to mesh.Reply) error { return Of(p).onBorrow(r, to) },
		wire.KindRecord: func(p *mesh.Peer, r *wire.Reader, to mesh.Reply) error { return Of(p).onRecord(r, to) },
	}
}
