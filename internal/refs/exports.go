package refs

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// How a reference travels. A settled small value goes along, so that nobody has to ask for it; anything else is named by
// its owner, who is asked when somebody waits for it.
const (
	refMine     byte = iota // a future of the sender: its number in the sender's exports
	refYours                // a future of the receiver that comes home: its number in the receiver's exports
	refInline               // the outcome itself
	refBorrowed             // a future of a third node: its number in the sender's exports, its owner and the number there
)

// exports are the futures of this node that other nodes hold references to. A node that knows a reference keeps the
// future alive until it drops it or its incarnation is dead.
//
// A node that passes on a reference it got from another exports it too, but only until the receiver has told the owner of
// itself (rule C25; see borrow): then the node between may go, and no chain of holders is left.
type exports struct {
	mu       sync.Mutex // guards the rest
	next     uint64
	byFuture map[*core.Future]uint64
	list     map[uint64]*export
	dead     map[core.NodeKey]bool     // holders that are dead: what was under way to them is held by nobody
	now      map[core.NodeKey]*Session // the last connection with each holder: nothing is lent over one that is over
}

type export struct {
	future  *core.Future
	holders map[core.NodeKey]tally
}

// tally counts the references that a node holds: those sent, or asked for, and not dropped.
type tally struct {
	all   int
	since int // the last connection began
}

// add enters c for one more reference that is about to be sent to p, and returns its number.
func (x *exports) add(c *core.Future, p *Session) (uint64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	holder := p.Key()
	switch {
	case x.dead[holder]:
		return 0, fmt.Errorf("%w: %s", raysys.ErrNodeDead, holder)
	case x.now[holder] != p: // an answer that took longer than its connection: it would count on the next one, and never arrive
		return 0, fmt.Errorf("%w: the connection with %s is over", raysys.ErrNotDelivered, holder)
	}
	n, ok := x.byFuture[c]
	if !ok {
		if err := c.Pin(); err != nil {
			return 0, err
		}
		if x.byFuture == nil {
			x.byFuture, x.list = map[*core.Future]uint64{}, map[uint64]*export{}
		}
		x.next++
		n = x.next
		x.byFuture[c] = n
		x.list[n] = &export{future: c, holders: map[core.NodeKey]tally{}}
	}
	x.list[n].add(holder)
	return n, nil
}

// get finds an exported future.
func (x *exports) get(n uint64) *core.Future {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.list[n]; e != nil {
		return e.future
	}
	return nil
}

// takeBack is drop for what was lent over p and not sent. After the end of that connection the next one's declaration has
// seen to it.
func (x *exports) takeBack(n uint64, p *Session) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.now[p.Key()] == p {
		x.dropLocked(n, p.Key())
	}
}

// drop takes back one reference at holder.
func (x *exports) drop(n uint64, holder core.NodeKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dropLocked(n, holder)
}

func (x *exports) dropLocked(n uint64, holder core.NodeKey) {
	e := x.list[n]
	if e == nil {
		return
	}
	t := e.holders[holder]
	t.all--
	t.since = min(t.since, t.all)
	e.set(holder, t)
	x.sweep(n, e)
}

func (e *export) add(holder core.NodeKey) {
	t := e.holders[holder]
	e.holders[holder] = tally{t.all + 1, t.since + 1}
}

func (e *export) set(holder core.NodeKey, t tally) {
	if t.all <= 0 {
		delete(e.holders, holder)
	} else {
		e.holders[holder] = t
	}
}

// anew notes that a connection begins.
func (x *exports) anew(p *Session) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.now == nil {
		x.now = map[core.NodeKey]*Session{}
	}
	holder := p.Key()
	x.now[holder] = p
	for _, e := range x.list {
		if t, ok := e.holders[holder]; ok {
			e.holders[holder] = tally{all: t.all}
		}
	}
}

// declared takes what holder held when the connection began: what it was sent before, and what it gave back, counts no
// more.
func (x *exports) declared(holder core.NodeKey, held []uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	had := map[uint64]int{}
	for _, n := range held {
		had[n]++
	}
	for n, e := range x.list {
		t, ok := e.holders[holder]
		if k := had[n]; ok || k > 0 {
			e.set(holder, tally{k + t.since, t.since})
			x.sweep(n, e)
		}
	}
}

// died takes back all references at a dead incarnation, which gets no more.
func (x *exports) died(holder core.NodeKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.dead == nil || len(x.dead) >= maxDead {
		x.dead = map[core.NodeKey]bool{}
	}
	x.dead[holder] = true
	delete(x.now, holder)
	for n, e := range x.list {
		if _, ok := e.holders[holder]; ok {
			delete(e.holders, holder)
			x.sweep(n, e)
		}
	}
}

// maxDead bounds the dead that are remembered. What is under way to one of them is so for a moment.
const maxDead = 1024

func (x *exports) sweep(n uint64, e *export) {
	if len(e.holders) > 0 {
		return
	}
	delete(x.list, n)
	delete(x.byFuture, e.future)
	e.future.Unpin()
}

// size returns how many futures other nodes hold.
func (x *exports) size() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.list)
}

// holders lists the futures that other nodes hold, with how many references each of them has.
func (x *exports) holders() map[*core.Future]map[core.NodeKey]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := make(map[*core.Future]map[core.NodeKey]int, len(x.list))
	for _, e := range x.list {
		holders := make(map[core.NodeKey]int, len(e.holders))
		for k, t := range e.holders {
			holders[k] = t.all
		}
		all[e.future] = holders
	}
	return all
}

// count enters one more reference at holder for an exported future; false when nobody holds that any more.
func (x *exports) count(n uint64, holder core.NodeKey) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.list[n]
	if e == nil || x.dead[holder] {
		return false
	}
	e.add(holder)
	return true
}

// AppendRef implements wire.References.
func (p *Session) AppendRef(dst []byte, c *core.Future) ([]byte, error) {
	return p.appendRef(dst, c, p)
}

// AppendObject implements wire.References.
func (p *Session) AppendObject(dst []byte, c *core.Future) ([]byte, error) {
	dst, _, err := p.appendExport(dst, c)
	return dst, err
}

// appendRef is AppendRef by way of refs, which are the peer's own or note what is lent.
func (p *Session) appendRef(dst []byte, c *core.Future, refs wire.References) ([]byte, error) {
	if s := RemoteOf(c); s != nil && s.Owner == p.Key() && s.Number != 0 {
		return binary.AppendUvarint(append(dst, refYours), s.Number), nil
	}
	if s, ok := core.SourceOf(c).(*inlineSource); ok && !c.Settled() {
		return p.appendRelayed(dst, s, refs)
	}
	if c.Settled() && len(dst) < wire.InlineLimit {
		out, fits, err := p.appendInline(wire.AppendID(append(dst, refInline), c.ID()), c, refs)
		if fits || err != nil {
			return out, err
		}
	}
	return refs.AppendObject(dst, c)
}

// appendExport appends a reference that the peer is to ask for. It returns its number in the exports, which counts the peer
// now; 0 when nothing is lent.
func (p *Session) appendExport(dst []byte, c *core.Future) (out []byte, n uint64, err error) {
	s := RemoteOf(c)
	if s != nil && s.Owner == p.Key() && s.Number != 0 {
		return binary.AppendUvarint(append(dst, refYours), s.Number), 0, nil
	}
	// The future is kept until the peer drops it, and with it what it stands for.
	n, err = p.refs.exports.add(c, p)
	switch {
	case err != nil:
		return dst, 0, err
	case s == nil, s.Number == 0: // what nobody counts, a copy, is passed on by this node alone
		return wire.AppendID(binary.AppendUvarint(append(dst, refMine), n), c.ID()), n, nil
	}
	dst = wire.AppendID(binary.AppendUvarint(append(dst, refBorrowed), n), c.ID())
	dst = binary.AppendUvarint(wire.AppendBytes(dst, s.Owner.Node), s.Owner.Incarnation)
	return binary.AppendUvarint(dst, s.Number), n, nil
}

// ReadRef implements wire.References.
func (p *Session) ReadRef(r *wire.Reader) (*core.Future, error) {
	switch r.Byte() {
	case refYours:
		c := p.refs.exports.get(r.Uvarint())
		if c == nil && r.Err() == nil {
			return nil, fmt.Errorf("%w: %s sent back a reference that it had dropped", raysys.ErrInvalidRef, p.Key())
		}
		return c, r.Err()
	case refMine:
		mine := exportKey{p.Key(), r.Uvarint()}
		id := r.ID()
		if err := r.Err(); err != nil {
			return nil, err
		}
		return p.refs.imports.take(p.refs, id, mine, mine), nil
	case refBorrowed:
		via := exportKey{p.Key(), r.Uvarint()}
		id := r.ID()
		owner := exportKey{core.NodeKey{Node: raysys.NodeID(r.String()), Incarnation: r.Uvarint()}, r.Uvarint()}
		if err := r.Err(); err != nil {
			return nil, err
		}
		if owner.owner == p.refs.mesh.Self() { // it has come home, over another
			if c := p.refs.exports.get(owner.number); c != nil {
				p.refs.table.drop(p.refs, via)
				return c, nil
			}
			owner = via
		}
		return p.refs.imports.take(p.refs, id, owner, via), nil
	case refInline:
		s := &inlineSource{peer: p, id: r.ID()}
		if err := s.read(r, r.Byte()); err != nil {
			return nil, err
		}
		return &core.NewForeign(p.refs.job, s).Future, nil
	}
	return nil, wire.ErrCorrupt
}
