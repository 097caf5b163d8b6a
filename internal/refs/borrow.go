package refs

import (
	"runtime"
	"sync"
	"weak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/wire"
)

// exportKey names a future by the node that exports it.
type exportKey struct {
	owner  core.NodeKey
	number uint64
}

// borrow is what this node, the borrower, holds of one future of another node. The owner counts each borrower. Where the
// reference came from a third node, that one, the lender, keeps the future alive until the owner has said that it counts the
// borrower:
//
//	owner ◄── counts ── between           owner ◄── counts ── between
//	                       │ passes on       ▲                     ▲
//	                       ▼                 └ borrow ─ receiver ─ drop, once the owner has answered
//	                    receiver
//
// When the node between dies first, the owner goes on counting it for a while (loanGrace), so that a borrow that is on
// its way arrives in time. The ledger's lock guards all of it.
type borrow struct {
	owner   exportKey
	counted bool        // the owner counts this node, once
	asking  bool        // it has been asked to
	lenders []exportKey // others that keep it alive meanwhile
	over    bool        // nothing here refers to it any more
}

// imports are the futures of other nodes that this node holds, so that a reference which arrives many times is one future
// here, with one value.
type imports struct {
	mu   sync.Mutex // guards list
	list map[exportKey]weak.Pointer[RemoteSource]
}

// take returns the future that owner names, after a reference to it came that from counts as this node's.
func (m *imports) take(c *References, id raysys.TaskID, owner, from exportKey) *core.Future {
	m.mu.Lock()
	s := m.list[owner].Value()
	if s == nil {
		s = &RemoteSource{refs: c, Owner: owner.owner, Number: owner.number, id: id, borrow: &borrow{owner: owner}}
		s.future = core.NewForeign(c.job, s)
		if m.list == nil {
			m.list = map[exportKey]weak.Pointer[RemoteSource]{}
		}
		m.list[owner] = weak.Make(s)
		runtime.AddCleanup(s, c.collected, s.borrow)
	} else if !s.future.Fresh() {
		s.future = core.NewForeign(c.job, s)
	}
	f := s.future
	m.mu.Unlock()
	if c.table.arrived(c, s.borrow, from) {
		c.register(s.borrow)
	}
	runtime.KeepAlive(s)
	return &f.Future
}

// size returns how many futures of other nodes are held.
func (m *imports) size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.list)
}

// forget removes a future that is gone.
func (m *imports) forget(owner exportKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.list[owner].Value() == nil { // else it has come anew
		delete(m.list, owner)
	}
}

// collected is called, on the collector's goroutine, when nothing here refers to a future of another node any more.
func (c *References) collected(l *borrow) {
	c.imports.forget(l.owner)
	c.table.atTick(func() { c.table.end(c, l) })
}

// register asks the owner to count this node: again, as long as it may not have heard.
func (c *References) register(l *borrow) {
	c.mesh.Call(l.owner.owner, func(calls *mesh.Calls) {
		mesh.Ask(calls, wire.Requests, wire.KindBorrow, func(dst []byte) []byte {
			return wire.AppendUvarint(dst, l.owner.number)
		}, func(r *wire.Reader) (byte, error) { return r.Byte(), nil }, func(counted byte, err error) {
			if mesh.Undelivered(err) || mesh.Unknown(err) { // counting twice is counting once: see exports.declared
				c.runner.Later(func() { c.register(l) })
				return
			}
			c.table.answered(c, l, err == nil && counted == 1)
		})
	}, func(error) { c.table.answered(c, l, false) })
}

// onBorrow serves KindBorrow.
func (p *Session) onBorrow(r *wire.Reader, to mesh.Reply) error {
	number := r.Uvarint()
	if err := r.Err(); err != nil {
		return err
	}
	counted := byte(0)
	if p.refs.exports.count(number, p.Key()) {
		counted = 1
	}
	to.Send(append(to.Head(), counted))
	return nil
}
