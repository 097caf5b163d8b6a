package refs

import (
	"runtime"
	"sync"
	"weak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// imports are the futures of other nodes that this node holds, so that a reference which arrives many times is one
// future here, with one value.
type imports struct {
	refs *References

	mu   sync.Mutex // guards list
	list map[exportKey]weak.Pointer[RemoteSource]
}

// take returns the future that owner names, after a reference to it came that from counts as this node's.
func (m *imports) take(id raysys.TaskID, owner, from exportKey) *core.Future {
	m.mu.Lock()
	s := m.list[owner].Value()
	if s == nil {
		s = &RemoteSource{refs: m.refs, Owner: owner.owner, Number: owner.number, id: id, borrow: &borrow{owner: owner}}
		s.future = core.NewForeign(m.refs.job, s)
		if m.list == nil {
			m.list = map[exportKey]weak.Pointer[RemoteSource]{}
		}
		m.list[owner] = weak.Make(s)
		runtime.AddCleanup(s, m.refs.collected, s.borrow)
	} else if !s.future.Fresh() {
		s.future = core.NewForeign(m.refs.job, s)
	}
	f := s.future
	m.mu.Unlock()
	if m.refs.table.arrived(s.borrow, from) {
		m.refs.register(s.borrow)
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
func (r *References) collected(b *borrow) {
	r.imports.forget(b.owner)
	r.table.atTick(func() { r.table.end(b) })
}
