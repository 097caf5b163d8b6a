package taskengine

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// PlaceRequest asks for the node of a task that wants something else than one CPU, or whose values are on other nodes.
type PlaceRequest struct {
	Entry   *core.Entry
	Options *core.Options // to be read only
	// ID of the task, for strategies that draw.
	ID raysys.TaskID
	// Attempt is which try of the task this is. The first is 1.
	Attempt int
	// Inputs are where the large values are that it needs; empty for a task that has all it needs.
	Inputs []core.Whereabouts
	// Avoid are nodes that have just refused it.
	Avoid []raysys.NodeID
	// Since is when it was placed first, on the runtime's clock; 0 for one without conditions.
	Since int64
	// Move asks whether another node has room now for a task that waits here. Needs are those of a task that another node sent, which
	// then goes back there; of its Options only the labels are known.
	Move  bool
	Needs *core.Resources
}

// temporary is an error of Config.Place that says that a node may come, or become free, that can take the task.
type temporary interface{ Temporary() bool }

// unplacedTask is a task for which Config.Place has found no node yet.
type unplacedTask struct {
	task  *record
	since int64         // on the runtime's clock; 0 for now
	avoid raysys.NodeID // gave it back
}

// notPlaced says that a task gets no node. What placement found may name the task already.
func notPlaced(entry *core.Entry, err error) error {
	if strings.Contains(err.Error(), entry.String()+": ") {
		return fmt.Errorf("place: %w", err)
	}
	return fmt.Errorf("place %s: %w", entry, err)
}

// inboundWatch gives back inbound tasks that would not begin soon (see forwarding.Excess): the number of tasks that a peer sends ahead rests on
// the mean duration of earlier tasks. And of those that may wait those for which another node has an idle CPU.
type inboundWatch struct {
	alarm  core.Alarm
	armed  atomic.Bool
	popped uint64 // inbound tasks begun, or given back, until the last look
}

// giveBackWork gives inbound tasks back: so many, and of those that are late, too, as many as other nodes have idle CPUs for.
type giveBackWork struct {
	x            *exchange
	excess, late int64
}

// Run implements goroutines.Work.
func (g giveBackWork) Run() {
	for range g.excess {
		c := g.x.inbound.PopLate()
		if c == nil {
			break
		}
		if c.Pending() {
			g.x.giveBack(c.Work().(*inboundTask))
		}
	}
	g.x.giveBackTo(g.x.idlePeers(), g.late-max(g.excess, 0))
	g.x.flush()
	g.x.owed.tell(0)
}

// idlePeer is a peer with CPUs that have nothing to do, by its last report.
type idlePeer struct {
	*peer
	cpus int64
}

// stops are the tasks in flight that were cancelled since their peers were last told. The record of a task has no
// room for the peer that has it: the forwarder looks through the flights, once for all tasks that were cancelled
// meanwhile.
type stops struct {
	mu      sync.Mutex // guards futures
	futures map[*core.Future]bool
}

func (s *stops) some() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.futures) > 0
}

func (s *stops) take() map[*core.Future]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.futures
	s.futures = nil
	return all
}
