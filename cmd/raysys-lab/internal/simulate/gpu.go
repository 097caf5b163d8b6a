package simulate

import (
	"fmt"
	"time"

	"github.com/raysys/raysys/internal/forwarding"
	"github.com/raysys/raysys/internal/ledger"
)

var oneGPU = ledger.Need{GPU: ledger.Unit}

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
	s.withGPUs = append(s.withGPUs, int32(i))
}

// place sends a task that asks for a GPU to a node: where one is free, else where it waits least. avoid has just given it back; -1: none has.
func (s *sim) place(b *submitter, task, avoid int32) {
	i, ok := s.choose(b, task, true, avoid)
	if !ok {
		i, ok = s.choose(b, task, false, avoid)
	}
	switch {
	case !ok:
		return
	case i != b.node && b.peers[i].full != 0:
		s.placeLater(b, task, avoid)
		return
	}
	s.Placed++
	if i != b.node {
		s.take(b, i, sentGPU{until: 2 * int64(s.cfg.Latency)}) // a report that comes then was made when the task was there
		s.send(b, i, []int32{task})
		return
	}
	s.nodes[i].gpu.push(task)
	s.inLine.add(int(i))
	s.startGPU(i)
}

// unplaced is a task for a GPU that waits to be placed again.
type unplaced struct{ task, avoid int32 }

// placeLater has a task placed again when b next hears a report or forwards tasks, or after a retryPause.
func (s *sim) placeLater(b *submitter, task, avoid int32) {
	b.unplaced = append(b.unplaced, unplaced{task, avoid})
	s.sending.add(b.index)
	s.retryLater(b)
}

func (s *sim) placeAgain(b *submitter) {
	list := b.unplaced
	b.unplaced = nil
	for _, u := range list {
		s.place(b, u.task, u.avoid)
	}
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
func (s *sim) move(i int32) {
	n := &s.nodes[i]
	if n.dead {
		return
	}
	b := s.observer(i)
	for n.gpu.len() > 0 {
		to, ok := s.choose(b, n.gpu.list[n.gpu.head], true, i)
		if !ok || to == i {
			return
		}
		task := n.gpu.pop()
		s.Moved++
		if s.submitterOf(task).node == i {
			s.place(b, task, -1)
			continue
		}
		s.take(b, to, sentGPU{until: int64(givenBackFor), seenOff: true})
		n.accepted--
		n.withGPU--
		s.answer(i, task, true)
	}
}

// moveAll is called when all other nodes have a report of node i.
func (s *sim) moveAll(i int32) {
	s.inLine.each(func(k int32) (stays bool) {
		if s.nodes[k].gpu.len() > 0 && k != i {
			s.move(k)
		}
		return s.nodes[k].gpu.len() > 0
	})
}
