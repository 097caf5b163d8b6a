package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/forwarding"
	"github.com/raysys/raysys/placement"
)

func nodeID(i int32) raysys.NodeID { return raysys.NodeID(strconv.Itoa(int(i))) }

// newView is what a submitter believes of the nodes.
func (s *sim) newView(b *submitter) *placement.View {
	var nodes []placement.Node
	for i := range s.cfg.Nodes {
		total := raysys.Resources{CPU: float64(s.cfg.CPUs)}
		if s.cfg.HasGPUs(i) {
			total.GPU = float64(s.cfg.GPUs)
		}
		n := placement.Node{ID: nodeID(int32(i)), Incarnation: 1, Total: total, Free: total, Worker: true, Draining: s.nodes[i].gone}
		s.expect(b, &n)
		nodes = append(nodes, n)
	}
	v := placement.NewView(nodeID(b.node), nodes)
	v.Refresh = func(n *placement.Node) { s.expect(b, n) }
	return v
}

// sentGPU is a task on its way to a node for a GPU. Reports count it from until on; one that was seen off, which its submitter
// sends there, is taken to be counted by the first report that differs, and after until without any.
type sentGPU struct {
	node    int32
	after   uint32 // the last report of the node when the task went
	until   int64
	seenOff bool
}

// expect corrects what b believes of a node by its last report and what was sent there since, as system does.
func (s *sim) expect(b *submitter, n *placement.Node) {
	k, _ := strconv.Atoi(string(n.ID))
	i := int32(k)
	var l load
	since := int32(0)
	switch p := s.peer(b, i); {
	case i == b.node:
		l = s.nodes[i].load()
	case p.heard > 0:
		l, since = p.load, p.inflight-p.among
	default: // it has not told anything yet
		l, since = load{idle: true}, p.inflight
		if s.cfg.HasGPUs(k) {
			l.gpus = uint16(s.cfg.GPUs)
		}
	}
	there := int(l.busy + l.inbound - l.inboundGPU + since)
	n.Running = min(max(there, int(l.inboundGPU-min(l.inboundGPU, l.waits))), s.cfg.CPUs)
	if n.Queued = 0; !l.idle {
		n.Queued = int(l.queued) + max(there-s.cfg.CPUs, 0)
	}
	n.Free.GPU = float64(l.gpus)
	for _, t := range b.sent {
		if t.node == i {
			n.Free.GPU--
		}
	}
	n.MeanTask, n.Line = l.mean, l.line
	if p := &b.peers[i]; i != b.node {
		n.Line = forwarding.LineWait(l.line, int64(l.waits), int64(p.inflightGPU-(p.among-p.plain)))
	}
}

// learnGPUs enters the last report of node i in the view, as if each had been when it came.
func (s *sim) learnGPUs(b *submitter, i int32) {
	if b.view == nil || s.nodes[i].ledger == nil {
		return
	}
	r := &s.reports[i]
	b.sent = slices.DeleteFunc(b.sent, func(t sentGPU) bool { return t.node == i && (t.until <= r.at || t.seenOff && t.after < r.news) })
	s.enter(b, i)
}

// enter corrects node i in the view.
func (s *sim) enter(b *submitter, i int32) {
	s.peer(b, i)
	b.view.Update(nodeID(i), func(n *placement.Node) { s.expect(b, n) })
}

// forgetSent has node i forget what it has seen off for so long that it has come.
func (s *sim) forgetSent(i int32) {
	if s.nodes[i].ledger == nil {
		return
	}
	b := s.observer(i)
	var of []int32
	b.sent = slices.DeleteFunc(b.sent, func(t sentGPU) bool {
		over := t.seenOff && t.until <= s.now
		if over {
			of = append(of, t.node)
		}
		return over
	})
	for _, k := range of {
		s.enter(b, k)
	}
}

// forget is called when node i is known to be dead.
func (b *submitter) forget(i int32) {
	b.sent = slices.DeleteFunc(b.sent, func(t sentGPU) bool { return t.node == i })
	if b.view != nil {
		b.view.Update(nodeID(i), func(n *placement.Node) { n.Draining = true })
	}
}

// choose returns the node where b believes that a task which asks for a GPU begins first; now: at once, ok is false where
// there is none.
func (s *sim) choose(b *submitter, task int32, now bool, avoid int32) (i int32, ok bool) {
	if b.view == nil {
		b.view = s.newView(b)
	}
	for _, k := range s.withGPUs {
		s.peer(b, k)
	}
	if b.node >= 0 && s.nodes[b.node].ledger != nil {
		s.enter(b, b.node) // what the node itself has is known
	}
	r := placement.Request{Kind: placement.Task, Function: "train", Needs: raysys.Resources{GPU: 1}, Seed: mix(s.cfg.Seed ^ uint64(task)), Now: now}
	if avoid >= 0 {
		r.Avoid = []raysys.NodeID{nodeID(avoid)}
	}
	d, err := placement.Place(b.view, r)
	if now && errors.Is(err, placement.ErrNoNode) {
		return -1, false
	}
	if err != nil {
		s.failed = fmt.Errorf("task %d: %w", task, err)
		return -1, false
	}
	k, _ := strconv.Atoi(string(d.Node))
	return int32(k), true
}

// take enters that a GPU of node i is taken by t, whose until is from now.
func (s *sim) take(b *submitter, i int32, t sentGPU) {
	t.node, t.after, t.until = i, s.reports[i].number, s.now+t.until
	b.sent = append(b.sent, t)
	s.enter(b, i)
}

// maxObserved bounds what nodes without tasks of their own know: of each node that has a view the GPUs of all nodes.
const maxObserved = 1 << 20

// observer is what node i believes of the others' GPUs. Nodes without tasks of their own share one where there are many nodes.
func (s *sim) observer(i int32) *submitter {
	if b := s.nodes[i].own; b != nil {
		return b
	}
	b := &s.observers[int(i)%len(s.observers)]
	if b.peers == nil {
		*b = submitter{node: -1, peers: make([]peer, len(s.nodes))}
	}
	return b
}
