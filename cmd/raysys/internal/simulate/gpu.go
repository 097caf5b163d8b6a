package simulate

import (
	"fmt"
	"strconv"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/placement"
)

var oneGPU = ledger.Need{GPU: ledger.Unit}

func nodeID(i int32) raysys.NodeID { return raysys.NodeID(strconv.Itoa(int(i))) }

// HasGPUs reports whether node i has GPUs.
func (c *Config) HasGPUs(i int) bool { return c.GPUEvery > 0 && i%c.GPUEvery == c.GPUEvery-1 }

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
	s.nodes[i].holds = map[int32]ledger.Hold{}
}

// newView is what a submitter believes of the nodes.
func (s *sim) newView(b *submitter) *placement.View {
	var nodes []placement.Node
	for i := range s.cfg.Nodes {
		total := raysys.Resources{CPU: float64(s.cfg.CPUs)}
		if s.cfg.HasGPUs(i) {
			total.GPU = float64(s.cfg.GPUs)
		}
		nodes = append(nodes, placement.Node{ID: nodeID(int32(i)), Incarnation: 1, Total: total, Free: total, Worker: true})
	}
	v := placement.NewView(nodeID(b.node), nodes)
	v.Refresh = func(n *placement.Node) {
		i, _ := strconv.Atoi(string(n.ID))
		l, since := s.nodes[i].load(), int32(0)
		if int32(i) != b.node {
			p := &b.peers[i]
			l, since = p.load, p.inflight-p.among
		}
		n.MeanTask = l.mean
		n.Running = min(int(l.busy+l.inbound+since), s.cfg.CPUs)
		n.Queued = int(l.queued) + max(int(l.busy+l.inbound+since)-s.cfg.CPUs, 0)
	}
	return v
}

// place chooses the node of a task that asks for a GPU.
func (s *sim) place(b *submitter, task int32) error {
	if b.view == nil {
		b.view = s.newView(b)
	}
	r := placement.Request{Kind: placement.Task, Function: "train", Needs: raysys.Resources{GPU: 1}, Seed: mix(s.cfg.Seed ^ uint64(task))}
	d, err := placement.Place(b.view, r)
	if err != nil {
		return err
	}
	i, err := strconv.Atoi(string(d.Node))
	if err != nil {
		return err
	}
	s.Placed++
	if int32(i) != b.node {
		s.send(b, int32(i), []int32{task})
		return nil
	}
	s.nodes[i].gpu.push(task)
	s.startGPU(int32(i))
	return nil
}

// startGPU begins the tasks whose GPU is free, oldest first.
func (s *sim) startGPU(i int32) {
	n := &s.nodes[i]
	for n.gpu.len() > 0 {
		h, short := n.ledger.Take(oneGPU)
		if !short.Empty() {
			return
		}
		task := n.gpu.pop()
		n.holds[task] = h
		s.began(task)
		s.at(int64(s.cfg.Takes(int(task))), event{kind: ends, node: i, task: task, from: -1})
	}
}

func (s *sim) leaveGPU(i, task int32) {
	n := &s.nodes[i]
	n.ledger.Return(n.holds[task])
	delete(n.holds, task)
	s.startGPU(i)
}
