package mesh

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/wire"
)

// Session is what the Mesh's user adds to a Peer: the references over the connection, with which it is a wire.Peer. It
// is a refs.Session, which refs.Of finds again; the mesh keeps it for the connection and calls none of its methods.
type Session interface {
	wire.Peer
	wire.Exporter
}

// Peer is one incarnation of another node while the connection to it holds. It is a wire.Peer but for the references,
// which its user adds.
type Peer struct {
	// Questions are those that the peer is asked over the connection.
	Questions Questions
	// Session is set in Config.Opened and not changed.
	Session Session

	mesh      *Mesh
	link      *link.Peer
	key       core.NodeKey
	gone      bool                   // no member any more: it gets no pong; the mesh's mu guards it
	numbers   map[*core.Entry]uint32 // under which the peer knows this node's functions
	kinds     map[string]bool        // "task x", "grain y": what the peer can run, in its namespace
	namespace string
	scopes    wire.Scopes
	turns     wire.Turns
	holed     atomic.Bool // frames were lost; see framesLost
}

// newPeer reads what the other side told in the handshake.
func newPeer(m *Mesh, l *link.Peer) *Peer {
	id := l.Identity()
	p := &Peer{
		mesh: m, link: l, key: core.NodeKey{Node: id.Node, Incarnation: id.Incarnation},
		numbers: map[*core.Entry]uint32{}, kinds: map[string]bool{}, namespace: id.Namespace,
	}
	p.scopes.Send = p.Send
	p.Questions.Start(p, m.cfg.Runner.Later)
	p.turns.Job = m.cfg.Job
	for i, f := range id.Functions {
		p.kinds[f.Kind+" "+f.Name] = true
		if p.OtherProgram() {
			continue // it has functions of the same names, and none of them are these
		}
		// Differing types are as good as a missing function (rule C4).
		if e := m.cfg.Table.Lookup(f.Kind, f.Name); e != nil && e.Fingerprint == f.Fingerprint {
			p.numbers[e] = uint32(i)
		}
	}
	return p
}

// Key is which incarnation of which node the peer is.
func (p *Peer) Key() core.NodeKey { return p.key }

// Namespace is that of the peer's program.
func (p *Peer) Namespace() string { return p.namespace }

// OtherProgram reports whether the peer runs another program, which has another namespace (rule C2). Each leads shards for
// the other's grains and says where they are; neither calls the other's functions.
func (p *Peer) OtherProgram() bool { return p.namespace != p.mesh.cfg.Namespace }

// Can reports whether the peer's program has a function: "task x", "grain y".
func (p *Peer) Can(function string) bool { return p.kinds[function] }

// FunctionsOf are all functions of the peer's program, also where that is another one.
func FunctionsOf(p *Peer) []link.Function { return p.link.Identity().Functions }

// Up reports whether the connection holds. Nothing can be sent any more on one that is over, of which Config.Down tells
// later.
func (p *Peer) Up() bool { return p.link.Err() == nil }

// Relayed reports whether the connection runs through a third node.
func (p *Peer) Relayed() bool { return p.link.Relayed() }

// Silence is how long nothing has come from the peer.
func (p *Peer) Silence() time.Duration { return p.link.Silence() }

// Close ends the connection.
func (p *Peer) Close(cause error) { p.link.Close(cause) }

// Node implements wire.Peer.
func (p *Peer) Node() raysys.NodeID { return p.key.Node }

// Incarnation implements wire.Peer.
func (p *Peer) Incarnation() uint64 { return p.key.Incarnation }

// Runs implements wire.Peer.
func (p *Peer) Runs(e *core.Entry) (uint32, bool) {
	n, ok := p.numbers[e]
	return n, ok
}

// Entry implements wire.Peer.
func (p *Peer) Entry(number uint32) *core.Entry {
	if p.OtherProgram() || int(number) >= len(p.mesh.entries) {
		return nil
	}
	return p.mesh.entries[number]
}

// Send implements wire.Peer.
func (p *Peer) Send(class wire.Class, kind wire.Kind, payload []byte) error {
	if list := kind.List(); list != 0 && len(payload) <= wire.ItemLimit {
		return p.asRaysys(p.link.SendItem(class, list, payload))
	}
	return p.asRaysys(p.link.Send(class, kind, payload))
}

// SendLarge implements wire.Peer.
func (p *Peer) SendLarge(kind wire.Kind, payload []byte) error {
	return p.asRaysys(p.link.SendBulk(kind, payload))
}

// SendFrame implements wire.Peer.
func (p *Peer) SendFrame(kind wire.Kind, payload []byte, written func([]byte)) error {
	return p.asRaysys(p.link.SendFrame(kind, payload, written))
}

// SendBody sends a frame whose body is not copied; see link.Peer.
func (p *Peer) SendBody(kind wire.Kind, head []byte, b link.Body) error {
	return p.asRaysys(p.link.SendBody(kind, head, b))
}

// Abandon has no more of a body written to l.
func (p *Peer) Abandon(l link.Landing) { p.link.Abandon(l) }

// asRaysys turns the link's errors into those of the vocabulary.
func (p *Peer) asRaysys(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raysys.ErrOverloaded):
		return fmt.Errorf("%w: too much waits for node %s: %w", raysys.ErrOverloaded, p.key.Node, err)
	}
	return fmt.Errorf("%w: node %s: %w", raysys.ErrNotDelivered, p.key, err)
}

// Unregistered implements wire.Reporter: one line for each type.
func (p *Peer) Unregistered(t reflect.Type) {
	if _, told := p.mesh.unregistered.LoadOrStore(t, true); told {
		return
	}
	p.mesh.cfg.Log.Warn("an error of an unregistered type went to another node as its text: register the type with raysys.Register, or its sentinel with raysys.RegisterError",
		zap.String("type", t.String()), zap.String("call", fmt.Sprintf("raysys.Register[%s](%q)", t, strings.TrimLeft(t.String(), "*"))))
}

// Flush implements wire.Peer.
func (p *Peer) Flush() { p.link.Flush() }

// Cork implements wire.Peer.
func (p *Peer) Cork() { p.link.Cork() }

// Uncork implements wire.Peer.
func (p *Peer) Uncork(flush bool) { p.link.Uncork(flush) }

// Open implements wire.Peer.
func (p *Peer) Open(t *core.Turn) (uint32, error) { return p.scopes.Open(t) }

// Shut implements wire.Peer.
func (p *Peer) Shut(scope uint32) { p.scopes.Shut(scope) }

// Turn implements wire.Peer.
func (p *Peer) Turn(scope uint32) *core.Turn { return p.turns.Turn(scope) }

// down ends everything that waits for the peer.
func (p *Peer) down(cause error) {
	p.scopes.Close(fmt.Errorf("%w: node %s: %w", raysys.ErrNotDelivered, p.key, cause))
	p.turns.Close(fmt.Errorf("%w: the node %s that submitted it is gone: %w", raysys.ErrCancelled, p.key, cause))
	p.Questions.Close(fmt.Errorf("node %s went away: %w", p.key, cause))
}
