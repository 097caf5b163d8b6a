package taskengine

import (
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/taskwire"
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
// (LoadOf). And by numbers of its own tasks that may be in any bundle of their group, for what is free in bundles (Rooms). All numbers are
// of one connection.

// uncounted is what the tasks hold, in the order in which they were sent, that no report of the peer counts.
type uncounted struct {
	needs   []ledger.Need
	counted uint64 // tasks before the first of needs
}

// counted reports whether a task with that need, as a frame says it, is one of these. What a single bundle has is not free.
func counted(h *taskwire.Head) bool {
	return h.Need != nil && (h.Need.Roams() || h.Need.Bundle.Group == "" && h.Need.Beyond())
}

// uncountedOf is where a task with that need is. The caller holds mu.
func (p *peer) uncountedOf(n *ledger.Need) *uncounted {
	if n.Roams() {
		return &p.roaming
	}
	return &p.uncounted
}

// sentCounted notes that a task was put into a frame.
func (p *peer) sentCounted(n *ledger.Need) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.uncountedOf(n)
	u.needs = append(u.needs, *n)
}

// unsentCounted takes the last task with such a need back, whose frame the peer did not take.
func (p *peer) unsentCounted(n *ledger.Need) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := p.uncountedOf(n); len(u.needs) > 0 {
		u.needs = u.needs[:len(u.needs)-1]
	} else { // the peer has said that it counts it
		u.counted--
	}
}

// receivedCounted notes that a task has come, and is in the ledger or was refused.
func (p *peer) receivedCounted(n *ledger.Need) {
	if n.Roams() {
		p.received.roaming.Add(1)
	} else {
		p.received.tasks.Add(1)
	}
}

// Report returns how busy this node is, what is free in its bundles (see loadreport.ReadRooms), and how many tasks of each peer that counts. news says
// that more are counted than in the last call.
func (e *Engine) Report(peers []wire.Peer) (l loadreport.Load, rooms string, received []loadreport.Received, news bool) {
	x := e.exchange()
	x.means.weighLine(e)
	x.arriving.Lock()
	defer x.arriving.Unlock()
	for _, wp := range peers {
		var n loadreport.Received
		if _, p := e.peer(wp); p != nil {
			n = loadreport.Received{Tasks: p.received.tasks.Load(), Roaming: p.received.roaming.Load()}
			news = n != p.reported || news
			p.reported = n
		}
		received = append(received, n)
	}
	return e.Load(), e.rooms(), received, news
}

// Counted is called when a report of the peer counts that many tasks of this node (Received.Tasks). It reports whether some were not
// counted before.
func (e *Engine) Counted(wp wire.Peer, received uint64) bool {
	_, p := e.peer(wp)
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.uncounted.count(received)
}

// CountedRoaming is the same for Received.Roaming. It returns what those ask for that are left.
func (e *Engine) CountedRoaming(wp wire.Peer, received uint64) []ledger.Need {
	_, p := e.peer(wp)
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roaming.count(received)
	return slices.Clone(p.roaming.needs)
}

// Uncounted returns what the tasks of this node ask for that may be in any bundle and that the last report of the peer does not count.
func (e *Engine) Uncounted(wp wire.Peer) []ledger.Need { return e.CountedRoaming(wp, 0) }

func (u *uncounted) count(received uint64) bool {
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
	for i := range p.uncounted.needs {
		needs := raysys.Resources(p.uncounted.needs[i].Resources())
		needs.CPU = max(needs.CPU-1, 0)
		f(needs)
	}
}
