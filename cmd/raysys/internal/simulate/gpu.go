package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/forwarding"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/placement"
)

var oneGPU = ledger.Need{GPU: ledger.Unit}

func nodeID(i int32) raysys.NodeID { return raysys.NodeID(strconv.Itoa(int(i))) }

// HasGPUs reports whether node i has GPUs.
func (c *Config) HasGPUs(i int) bool { return c.GPUEvery > 0 && i >= 0 && i%c.GPUEvery == c.GPUEvery-1 }

// equip gives a node its GPUs.
func (s *sim) equip(i int) {
	if !s.cfg.HasGPUs(i) {
		return
	}
	devices := make([]ledger.Device, s.cfg.GPUs)
	for k := range devices {
		devices[k].UUID = fmt.Sprintf("GPU-%d-%d", i, k)
	}
	s.nodes[i].ledger = ledger.New(ledger.Need{CPU: int64(s.cfg.CPUs) * ledger.Unit}, devices)
	s.nodes[i].holds, s.nodes[i].since = map[int32]ledger.Hold{}, map[int32]int64{}
	s.nodes[i].freeGPUs = uint16(s.cfg.GPUs)
}

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

// sentGPU is a task that was sent to a node for a GPU. Reports count it from some time on.
type sentGPU struct {
	node  int32
	until int64
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
	uncounted := int64(0)
	for _, t := range b.sent {
		if t.node == i {
			n.Free.GPU--
			uncounted++
		}
	}
	n.MeanTask, n.Line = l.mean, forwarding.LineWait(l.line, int64(l.waits), uncounted)
}

// learnGPUs enters a report in the view.
func (s *sim) learnGPUs(b *submitter, i int32) {
	if b.view == nil || s.nodes[i].ledger == nil {
		return
	}
	b.sent = slices.DeleteFunc(b.sent, func(t sentGPU) bool { return t.node == i && t.until <= s.now })
	b.view.Update(nodeID(i), func(n *placement.Node) { s.expect(b, n) })
}

// forget is called when node i is known to be dead.
func (b *submitter) forget(i int32) {
	b.sent = slices.DeleteFunc(b.sent, func(t sentGPU) bool { return t.node == i })
	if b.view != nil {
		b.view.Update(nodeID(i), func(n *placement.Node) { n.Draining = true })
	}
}

// choose returns the node where b believes that a task which asks for a GPU begins first; now: at once, or -1.
func (s *sim) choose(b *submitter, task int32, now bool) (int32, error) {
	if b.view == nil {
		b.view = s.newView(b)
	}
	if b.node >= 0 && s.nodes[b.node].ledger != nil {
		b.view.Update(nodeID(b.node), func(n *placement.Node) { s.expect(b, n) }) // what the node itself has is known
	}
	r := placement.Request{Kind: placement.Task, Function: "train", Needs: raysys.Resources{GPU: 1}, Seed: mix(s.cfg.Seed ^ uint64(task)), Now: now}
	d, err := placement.Place(b.view, r)
	if now && errors.Is(err, placement.ErrNoNode) {
		return -1, nil
	}
	if err != nil {
		return -1, err
	}
	i, err := strconv.Atoi(string(d.Node))
	return int32(i), err
}

// take enters that a GPU of node i is taken by what is on its way there.
func (s *sim) take(b *submitter, i int32, until time.Duration) {
	b.sent = append(b.sent, sentGPU{i, s.now + int64(until)})
	b.view.Update(nodeID(i), func(n *placement.Node) { s.expect(b, n) })
}

// place sends a task that asks for a GPU to a node: where one is free, else where it waits least.
func (s *sim) place(b *submitter, task int32) error {
	i, err := s.choose(b, task, true)
	if i < 0 && err == nil {
		i, err = s.choose(b, task, false)
	}
	if err != nil {
		return err
	}
	s.Placed++
	if i != b.node {
		s.take(b, i, 2*s.cfg.Latency) // a report that comes then was made when the task was there
		s.send(b, i, []int32{task})
		return nil
	}
	s.nodes[i].gpu.push(task)
	s.startGPU(i)
	return nil
}

// startGPU begins the tasks whose GPU is free, oldest first.
func (s *sim) startGPU(i int32) {
	n := &s.nodes[i]
	for n.gpu.len() > 0 {
		h, short := n.ledger.Take(oneGPU)
		if !short.Empty() {
			if !n.moving {
				n.moving = true
				s.at(int64(lookEvery), event{kind: moves, node: i})
			}
			return
		}
		task := n.gpu.pop()
		n.holds[task] = h
		n.since[task] = s.now
		n.freeGPUs--
		s.tellSoon(i)
		s.began(task)
		s.at(int64(s.cfg.Takes(int(task))), event{kind: ends, node: i, task: task, from: -1})
	}
}

func (s *sim) leaveGPU(i, task int32) {
	n := &s.nodes[i]
	n.ledger.Return(n.holds[task])
	delete(n.holds, task)
	delete(n.since, task)
	n.freeGPUs++
	s.tellSoon(i)
	s.startGPU(i)
}

// weighLine estimates for how long what waits for a GPU waits, as the task engine does by the mean of the tasks' function.
func (s *sim) weighLine(n *node) {
	if n.ledger == nil {
		return
	}
	gpus := time.Duration(s.cfg.GPUs)
	n.waited, n.line = int64(n.gpu.len()), 0
	longest := time.Duration(0)
	for _, since := range n.since {
		ran := time.Duration(s.now - since)
		longest = max(longest, ran)
		n.line += max(n.gpuMean/2, ran-n.gpuMean/2) / gpus
	}
	takes := n.gpuMean
	if takes == 0 {
		takes = max(longest, time.Millisecond)
	}
	n.line = forwarding.Coarse(n.line + takes*time.Duration(n.waited)/gpus)
}

const (
	// restEvery, lookEvery and givenBackFor are system's: how often a node tells of its GPUs at most, how often it looks where
	// there is room for what waits for one, and for how long a task that it gave back is taken to be on its way there.
	restEvery    = 20 * time.Millisecond
	lookEvery    = 10 * time.Millisecond
	givenBackFor = 15 * time.Millisecond
)

// tellSoon is called when a GPU was taken or has become free.
func (s *sim) tellSoon(i int32) {
	if n := &s.nodes[i]; !n.telling {
		n.telling = true
		s.at(max(n.quiet-s.now, 0), event{kind: tells, node: i})
	}
}

// move has what waits for a GPU on node i go where one is free, the oldest first.
func (s *sim) move(i int32) error {
	n := &s.nodes[i]
	if n.dead {
		return nil
	}
	b := n.own
	if b == nil {
		b = &s.observer
	}
	for n.gpu.len() > 0 {
		to, err := s.choose(b, n.gpu.list[n.gpu.head], true)
		if err != nil {
			return err
		}
		if to < 0 || to == i {
			break
		}
		task := n.gpu.pop()
		s.Moved++
		if s.submitterOf(task).node == i {
			s.Placed++
			s.take(b, to, 2*s.cfg.Latency)
			s.send(b, to, []int32{task})
			continue
		}
		s.take(b, to, givenBackFor)
		n.accepted--
		n.withGPU--
		s.answer(i, task, true)
	}
	return nil
}

// moveAll is called when all nodes have a report.
func (s *sim) moveAll() error {
	for i := range s.nodes {
		if s.nodes[i].gpu.len() > 0 {
			if err := s.move(int32(i)); err != nil {
				return err
			}
		}
	}
	return nil
}
