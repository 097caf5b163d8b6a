package taskengine

import (
	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/wire"
)

// A report of what is free on a node (Load.Rest) does not count the tasks that are on their way there, and a node that submits many
// tasks at one moment would send all of them to the node whose report says that it has devices. So a node subtracts what it has sent
// and the report does not count. Each report says how many such tasks of the receiver it counts:
//
//	sender:   uncounted ◄── each task that it sends                      a report of n: all but the first n stay uncounted
//	receiver: received  ──► +1 with the change of the ledger, or where it was refused
//
// It concerns tasks that hold more than one CPU, and what they hold beyond that: how many tasks are on their way is counted beside
// (LoadOf). Both numbers are of one connection.

// uncounted is what the tasks hold, in the order in which they were sent, that no report of the peer counts.
type uncounted struct {
	needs   []raysys.Resources
	counted uint64 // tasks before the first of needs
}

// counted reports whether a task with that need, as a frame says it, is one of these. What a bundle has is not free.
func (h *taskHead) counted() bool {
	return h.need != nil && h.need.Bundle.Group == "" && h.need.Beyond()
}

// sentCounted notes that a task was put into a frame.
func (p *peer) sentCounted(n *ledger.Need) {
	needs := raysys.Resources(n.Resources())
	needs.CPU = max(needs.CPU-1, 0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.uncounted.needs = append(p.uncounted.needs, needs)
}

// unsentCounted takes the last task back, whose frame the peer did not take.
func (p *peer) unsentCounted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := &p.uncounted; len(u.needs) > 0 {
		u.needs = u.needs[:len(u.needs)-1]
	} else { // the peer has said that it counts it
		u.counted--
	}
}

// Report returns how busy this node is, and how many tasks of each peer that counts. news says that more are counted than in the last
// call.
func (e *Engine) Report(peers []wire.Peer) (l Load, received []uint64, news bool) {
	x := e.exchange()
	x.means.weighLine(e)
	x.arriving.Lock()
	defer x.arriving.Unlock()
	for _, wp := range peers {
		n := uint64(0)
		if _, p := e.peer(wp); p != nil {
			n = p.received.Load()
			news = p.reported.Swap(n) != n || news
		}
		received = append(received, n)
	}
	return e.Load(), received, news
}

// AppendReport appends a KindLoad frame for a peer of which l counts so many tasks.
func AppendReport(dst []byte, l Load, received uint64) []byte {
	return wire.AppendUvarint(AppendLoad(dst, l), received)
}

// ReadReport reads what AppendReport wrote, or an earlier version that says no number: then l counts what it was sent.
func ReadReport(r *wire.Reader) (l Load, received uint64, err error) {
	if l, err = ReadLoad(r); err != nil || r.Len() == 0 {
		return l, 1 << 63, err
	}
	received = r.Uvarint()
	return l, received, r.Err()
}

// Counted is called when a report of the peer counts that many tasks of this node. It reports whether some were not counted before.
func (e *Engine) Counted(wp wire.Peer, received uint64) bool {
	_, p := e.peer(wp)
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	u := &p.uncounted
	if received <= u.counted || len(u.needs) == 0 {
		return false
	}
	n := min(received-u.counted, uint64(len(u.needs)))
	u.needs, u.counted = u.needs[n:], u.counted+n
	return true
}

// EachUncounted calls f with what each task of this node asks for, beyond one CPU, that the last report of the peer does not count.
func (e *Engine) EachUncounted(wp wire.Peer, f func(raysys.Resources)) {
	_, p := e.peer(wp)
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, needs := range p.uncounted.needs {
		f(needs)
	}
}
