package refs

import (
	"fmt"
	"slices"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// exports are the futures of this node that other nodes hold references to. A holder keeps the future alive until it drops
// its references, or its incarnation is dead.
//
// A lender, which passes on a reference that it got from another node, exports it too, but only until the owner counts
// the receiver (rule C25; see borrow). So references need no chain of lenders.
type exports struct {
	mu       sync.Mutex // guards the rest
	next     uint64
	byFuture map[*core.Future]uint64
	list     map[uint64]*export
	dead     map[core.NodeKey]bool     // holders known to be dead: they are not counted any more
	now      map[core.NodeKey]*Session // the last connection with each holder: a frame on an earlier one counts nothing
}

type export struct {
	future  *core.Future
	holders holders
}

// holders are the nodes that hold a future, mostly one: a map would take more than all else of an export.
type holders []holding

type holding struct {
	node core.NodeKey
	tally
}

func (h holders) of(node core.NodeKey) (t tally, ok bool) {
	for i := range h {
		if h[i].node == node {
			return h[i].tally, true
		}
	}
	return t, false
}

// set notes what a node holds; a node that holds nothing is no holder.
func (h *holders) set(node core.NodeKey, t tally) {
	i := slices.IndexFunc(*h, func(o holding) bool { return o.node == node })
	switch {
	case i >= 0 && t.all > 0:
		(*h)[i].tally = t
	case i >= 0:
		*h = slices.Delete(*h, i, i+1)
	case t.all > 0:
		*h = append(*h, holding{node, t})
	}
}

// tally counts the references that a node holds: those sent to it, or borrowed by it, and not dropped.
type tally struct {
	all   int
	since int // of all: those counted since the last connection began
}

// add counts holder once more for c, for a reference that is about to be sent over p, and returns the number of c.
func (x *exports) add(c *core.Future, holder core.NodeKey, p *Session) (uint64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.dead[holder]:
		return 0, fmt.Errorf("%w: %s", raysys.ErrNodeDead, holder)
	case x.now[holder] != p: // the frame belongs to a connection that is over, and will not arrive
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
		x.list[n] = &export{future: c}
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

// numberOf finds the number of an exported future.
func (x *exports) numberOf(c *core.Future) (n uint64, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n, ok = x.byFuture[c]
	return n, ok
}

// takeBack takes back a reference that was counted for a frame to p which was not sent. After the end of that connection
// there is nothing to take back: the declaration of the next one has corrected the count.
func (x *exports) takeBack(n uint64, holder core.NodeKey, p *Session) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.now[holder] == p {
		x.subtract(n, holder, 1)
	}
}

// drop takes one reference off the count of holder.
func (x *exports) drop(n uint64, holder core.NodeKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.subtract(n, holder, 0)
}

// subtract takes back one reference at holder; since is 1 when that was certainly counted since the connection began, so that
// the holder's Held does not name it. x.mu is held.
func (x *exports) subtract(n uint64, holder core.NodeKey, since int) {
	e := x.list[n]
	if e == nil {
		return
	}
	t, _ := e.holders.of(holder)
	t.all--
	t.since = max(min(t.since-since, t.all), 0)
	e.holders.set(holder, t)
	x.sweep(n, e)
}

func (e *export) add(holder core.NodeKey) {
	t, _ := e.holders.of(holder)
	e.holders.set(holder, tally{t.all + 1, t.since + 1})
}

// anew notes that a connection with holder begins.
func (x *exports) anew(holder core.NodeKey, p *Session) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.now == nil {
		x.now = map[core.NodeKey]*Session{}
	}
	x.now[holder] = p
	for _, e := range x.list {
		if t, ok := e.holders.of(holder); ok {
			e.holders.set(holder, tally{all: t.all})
		}
	}
}

// declared takes the references that holder held when the connection began. They replace what was counted before: frames
// with references or drops may have been lost with the last connection.
func (x *exports) declared(holder core.NodeKey, held []uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	had := map[uint64]int{}
	for _, n := range held {
		had[n]++
	}
	for n, e := range x.list {
		t, ok := e.holders.of(holder)
		if k := had[n]; ok || k > 0 {
			e.holders.set(holder, tally{k + t.since, t.since})
			x.sweep(n, e)
		}
	}
}

// died ends all counts of a dead incarnation, and refuses to count it again.
func (x *exports) died(holder core.NodeKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.dead == nil || len(x.dead) >= maxDead {
		x.dead = map[core.NodeKey]bool{}
	}
	x.dead[holder] = true
	delete(x.now, holder)
	for n, e := range x.list {
		if _, ok := e.holders.of(holder); ok {
			e.holders.set(holder, tally{})
			x.sweep(n, e)
		}
	}
}

// maxDead bounds the dead that are remembered. A request that could still count one of them is on its way for a moment.
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
		for _, h := range e.holders {
			holders[h.node] = h.all
		}
		all[e.future] = holders
	}
	return all
}

// count counts holder once more for an exported future; false when the future is not exported any more.
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

// exportKey names a future by the node that exports it.
type exportKey struct {
	owner  core.NodeKey
	number uint64
}

// borrow is the claim of this node, the borrower, on one future of another node, its owner. The owner counts each borrower.
// Where the reference came from a third node, the lender, the lender keeps the future alive until the owner has answered
// that it counts the borrower:
//
//	owner ── counts ──▶ lender           owner ── counts ──▶ lender, until the drop
//	                       │ passes on     ▲ counts             ▲
//	                       ▼               └ Borrow ─ borrower ─┘ Drop, once the owner has answered
//	                    borrower
//
// When the lender dies first, the owner counts it for borrowGrace more, so that a Borrow which is on its way arrives in
// time. The lock of the reference table guards the fields.
type borrow struct {
	owner   exportKey
	counted bool        // the owner counts this node, once
	asking  bool        // the owner has been asked to count this node, and has not answered
	lenders []exportKey // nodes that keep the future alive until the owner counts this node
	over    bool        // nothing here refers to it any more
}

// pendingExports implements wire.PendingExports. The peer is counted as a holder of each future when the reference is
// appended; the count is taken back when the frame is not sent, or is encoded in another form.
type pendingExports struct {
	*Session
	numbers []uint64 // in the exports
}

// AppendRef implements wire.References.
func (x *pendingExports) AppendRef(dst []byte, c *core.Future) ([]byte, error) {
	return x.Session.appendRef(dst, c, x)
}

// AppendObject implements wire.References.
func (x *pendingExports) AppendObject(dst []byte, c *core.Future) ([]byte, error) {
	return x.Session.appendExport(dst, c, x)
}

// Mark implements wire.PendingExports.
func (x *pendingExports) Mark() int { return len(x.numbers) }

// Sent implements wire.PendingExports.
func (x *pendingExports) Sent(from, to int) {
	x.numbers = append(x.numbers[:from], x.numbers[to:]...)
	if len(x.numbers) == 0 && cap(x.numbers) > maxPending {
		x.numbers = nil
	}
}

// TakeBack implements wire.PendingExports.
func (x *pendingExports) TakeBack(from, to int) {
	for _, n := range x.numbers[from:to] {
		x.refs.exports.takeBack(n, x.Key(), x.Session)
	}
	x.Sent(from, to)
}

// maxPending bounds what is kept for the next frame.
const maxPending = 1024
