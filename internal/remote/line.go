package remote

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/wire"
)

const (
	// bodiesAsked is how many bodies a node asks one peer for at a time: 16 MiB.
	bodiesAsked = 4
	// maxHeads is how many heads of a peer may wait beside those. A peer that keeps to maxBodies sends fewer.
	maxHeads = 1024
)

// lineRoom is what may wait in the lines of one node. A line has at most as much as is free beside it, so one that stands still leaves
// half of the room to others, and two leave a third.
var lineRoom = load{1 << 16, 64 << 20}

// load is a number of messages and the bytes that they came in.
type load struct{ messages, bytes int }

func (l *load) add(messages, bytes int) { l.messages, l.bytes = l.messages+messages, l.bytes+bytes }

// lines are the messages of other nodes that wait: for the body of one before them, or for a goroutine that hands them over, since
// the process that gets them may run code of the program meanwhile, or has no room. One node's messages to one process are a line.
type lines struct {
	a     *Actors
	count atomic.Int64 // of lines: the usual message looks at nothing else

	mu    sync.Mutex // guards the rest
	nodes map[core.NodeKey]*nodeLines
}

// nodeLines are the lines of a node. They outlive a connection: what the next one brings is behind them.
type nodeLines struct {
	of core.NodeKey
	load
	lines map[lineKey]*line
	heads []*inbound // whose bodies were not asked for
	asked int
}

// lineKey is whom a line is for. A system message overtakes those of users, as in proto.Actor.
type lineKey struct {
	id           string // of the process; empty for dead letters
	system, dead bool
}

type line struct {
	load
	waiting []*inbound
	handing bool // a goroutine hands over the first
	refused int
}

// inbound is a message of another node.
type inbound struct {
	to, sender *actor.PID
	header     map[string]string
	content    any
	system     bool
	dead       bool // it is a dead letter here; without content its sender knows

	peer   *mesh.Peer // that brought it; nil for what this node says of another
	size   int
	open   bool // it is a head, and the body is to come
	form   byte
	name   string
	number uint64 // of the body
	body   []byte // the content, which whoever hands it over decodes; nil where that is content
}

func (m *inbound) line() lineKey {
	if m.dead {
		return lineKey{dead: true}
	}
	return lineKey{id: m.to.Id, system: m.system}
}

// behind has a message wait where one before it does, for the same process and of the same node.
func (l *lines) behind(m inbound) bool { return l.enter(m.peer.Key(), m, false) }

// enter has a message of a node wait; unless begin is set, only in a line that is there.
func (l *lines) enter(of core.NodeKey, m inbound, begin bool) bool {
	l.mu.Lock()
	n, key := l.nodes[of], m.line()
	if n == nil || n.lines[key] == nil {
		if !begin {
			l.mu.Unlock()
			return false
		}
		n = l.beginLocked(of, key)
	}
	at := n.lines[key]
	if m.peer != nil && !m.open && n.full(at) {
		at.refused++
		first, held := at.refused == 1, at.load
		l.mu.Unlock()
		l.a.overloaded(m, held, first)
		return true
	}
	kept := m // m itself takes no memory where nothing waits
	at.waiting = append(at.waiting, &kept)
	n.hold(at, 1, m.size)
	if m.open {
		n.heads = append(n.heads, &kept)
	}
	l.startLocked(n, key, at)
	l.mu.Unlock()
	return true
}

func (l *lines) beginLocked(of core.NodeKey, key lineKey) *nodeLines {
	if l.nodes == nil {
		l.nodes = map[core.NodeKey]*nodeLines{}
	}
	n := l.nodes[of]
	if n == nil {
		n = &nodeLines{of: of, lines: map[lineKey]*line{}}
		l.nodes[of] = n
	}
	n.lines[key] = &line{}
	l.count.Add(1)
	return n
}

func (n *nodeLines) hold(at *line, messages, bytes int) {
	at.add(messages, bytes)
	n.add(messages, bytes)
}

// full reports whether no more may wait in a line.
func (n *nodeLines) full(at *line) bool {
	return at.messages > lineRoom.messages-n.messages || at.bytes > lineRoom.bytes-n.bytes
}

// startLocked has the first of a line handed over, if it waits for nothing.
func (l *lines) startLocked(n *nodeLines, key lineKey, at *line) {
	if !at.handing && len(at.waiting) > 0 && !at.waiting[0].open {
		at.handing = true
		go l.handOver(n, key, at) // it ends with the line: nobody can wait for code that does not return
	}
}

// handOver hands over what waits for nothing any more.
func (l *lines) handOver(n *nodeLines, key lineKey, at *line) {
	l.mu.Lock()
	for len(at.waiting) > 0 && !at.waiting[0].open {
		m := at.waiting[0]
		l.mu.Unlock()
		l.handSafely(m)
		l.mu.Lock()
		at.waiting[0] = nil
		at.waiting = at.waiting[1:]
		n.hold(at, -1, -m.size)
		if len(n.heads) > 0 { // one may have waited for room
			l.mu.Unlock()
			l.askForBodies(n)
			l.mu.Lock()
		}
	}
	at.handing = false
	refused := at.refused
	at.refused = 0
	if len(at.waiting) == 0 {
		delete(n.lines, key)
		l.count.Add(-1)
		if len(n.lines) == 0 {
			delete(l.nodes, n.of)
		}
	}
	l.mu.Unlock()
	if refused > 0 {
		l.a.Log.Warn("an actor takes messages of another node again", zap.Stringer("peer", n.of), zap.String("pid", key.id), zap.Int("refused", refused))
	}
}

// handSafely is hand where no one else recovers.
func (l *lines) handSafely(m *inbound) {
	defer func() {
		if v := recover(); v != nil {
			l.a.Log.Error("a message of another node was lost: the code that took it panicked", zap.String("pid", m.to.String()), zap.Any("panic", v), zap.ByteString("stack", debug.Stack()))
		}
	}()
	l.a.open(m)
	l.a.hand(m)
}

// foreign reports whether code of the program decodes a registered type.
func foreign(name string) bool {
	t, ok := core.RegisteredType(name)
	if !ok {
		return false
	}
	plan, err := codec.PlanOf(t)
	return err == nil && plan.Foreign()
}

// open decodes the content of a message. One that cannot be decoded is a dead letter.
func (a *Actors) open(m *inbound) {
	if m.body == nil {
		return
	}
	var err error
	if m.content, err = readActorMessage(m.form, m.name, m.body); err != nil {
		a.Log.Warn("actor message from another node dropped", zap.Stringer("peer", m.peer.Key()), zap.String("type", m.name), zap.Error(err))
		m.content, m.dead = err, true
	}
	m.body = nil
}

// head enters a message without its body.
func (l *lines) head(m inbound) error {
	of := m.peer.Key()
	m.open = true
	l.enter(of, m, true)
	l.mu.Lock()
	n := l.nodes[of] // nil where a connection that ended has answered for it meanwhile
	tooMany := n != nil && len(n.heads) > maxHeads
	l.mu.Unlock()
	if n == nil {
		return nil
	}
	if tooMany {
		return fmt.Errorf("%w: more than %d messages without their bodies", wire.ErrCorrupt, maxHeads)
	}
	l.askForBodies(n)
	return nil
}

// askForBodies asks for bodies, of lines that have room for them. The end of the connection answers those questions too.
func (l *lines) askForBodies(n *nodeLines) {
	for {
		l.mu.Lock()
		i := -1
		if n.asked < bodiesAsked {
			i = slices.IndexFunc(n.heads, func(m *inbound) bool {
				at := n.lines[m.line()]
				return at.waiting[0] == m || !n.full(at)
			})
		}
		if i < 0 {
			l.mu.Unlock()
			return
		}
		m := n.heads[i]
		n.heads = slices.Delete(n.heads, i, i+1)
		n.asked++
		l.mu.Unlock()
		m.peer.Questions.Ask(wire.Control, wire.KindActorBody, func(dst []byte) []byte { return wire.AppendUvarint(dst, m.number) }, func(r *wire.Reader, err error) error {
			var body []byte
			if err == nil {
				body = append([]byte{}, r.Rest()...)
			}
			l.came(n, m, body, err, 1)
			l.askForBodies(n)
			return nil
		})
	}
}

// came notes the body of a head, or why there is none: then it is a dead letter, of which its sender knows if nothing was sent.
func (l *lines) came(n *nodeLines, m *inbound, body []byte, err error, asked int) {
	var content any
	if err != nil && !mesh.Undelivered(err) {
		content = err
		l.a.Log.Warn("a large message to an actor did not come", zap.Stringer("peer", n.of), zap.String("pid", m.to.String()), zap.String("type", m.name), zap.Error(err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := m.line()
	at := n.lines[key]
	n.asked -= asked
	m.open, m.dead, m.content, m.body, m.size = false, err != nil, content, body, m.size+len(body)
	n.hold(at, 0, len(body))
	l.startLocked(n, key, at)
}

// down gives up the bodies that a connection that is over was not asked for.
func (l *lines) down(p *mesh.Peer) {
	l.mu.Lock()
	n := l.nodes[p.Key()]
	var over []*inbound
	if n != nil {
		n.heads = slices.DeleteFunc(n.heads, func(m *inbound) bool {
			if m.peer == p {
				over = append(over, m)
			}
			return m.peer == p
		})
	}
	l.mu.Unlock()
	for _, m := range over {
		l.came(n, m, nil, fmt.Errorf("%w: the connection ended", raysys.ErrNotDelivered), 0)
	}
}
