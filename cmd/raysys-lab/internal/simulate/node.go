package simulate

import (
	"time"

	"github.com/raysys/raysys/internal/forwarding"
	"github.com/raysys/raysys/internal/ledger"
)

// maxInbound bounds the tasks of others that wait on a node, as taskengine.Config.QueueInbound does.
const maxInbound = forwarding.MaxFlights

// node is a worker, or the driver.
type node struct {
	dead     bool
	gone     bool // it is dead, and all know
	cpus     int
	free     int
	running  []int32    // by CPU; -1 is free
	own      *submitter // nil for a worker without tasks of its own
	busyOwn  int        // CPUs that run them
	inbound  fifo
	lastIn   bool // the last task begun was another's
	accepted int  // tasks of others that are not answered
	withGPU  int  // of these, those that ask for a GPU
	mean     time.Duration
	ended    int64 // tasks on CPUs
	owed     forwarding.Owed[int32]
	settling bool // it will tell more of them
	told     load
	watching bool
	begun    int64 // inbound.popped at the last look

	ledger   *ledger.Ledger // nil without GPUs
	gpu      fifo           // tasks that wait for one
	holds    map[int32]ledger.Hold
	since    map[int32]int64 // when those tasks began
	freeGPUs uint16
	gpuMean  time.Duration // of the tasks that had one
	line     time.Duration // for how long what waits for one waits, as it was when the node last told
	waited   int64         // how many waited then
	telling  bool          // it will tell its load soon
	quiet    int64         // until then it tells of its GPUs at ticks alone
	moving   bool          // it will look where there is room for what waits for a GPU
}

// load is what a node tells of itself.
type load struct {
	queued, inbound, busy int32
	gpus                  uint16 // that are free
	idle                  bool   // a CPU is free
	mean, line            time.Duration
	waits, inboundGPU     int32 // of queued and of inbound, those that ask for a GPU: they are not in the way of the others
}

func (n *node) load() load {
	l := load{queued: int32(n.gpu.len()), inbound: int32(n.accepted), busy: int32(n.busyOwn), gpus: n.freeGPUs, idle: n.free > 0}
	l.mean = n.settledMean()
	l.waits, l.inboundGPU = int32(n.gpu.len()), int32(n.withGPU)
	l.line = forwarding.LineWait(n.line, n.waited, int64(n.gpu.len())-n.waited)
	if n.own != nil {
		l.queued += int32(n.own.waits())
	}
	return l
}

// settledMean is how long a task is on a CPU; 0 while too few have ended to say.
func (n *node) settledMean() time.Duration {
	if !forwarding.Settled(n.ended, int64(n.cpus)) {
		return 0
	}
	return n.mean
}

// idleCPUs is how many of a node's CPUs have nothing to do.
func (l *load) idleCPUs(cpus int) int64 {
	return max(int64(cpus)-int64(l.queued-l.waits)-int64(l.inbound-l.inboundGPU)-int64(l.busy), 0)
}

// work begins what waits here, as far as CPUs are free, and has the rest of its own tasks sent elsewhere.
func (s *sim) work(i int32) {
	n := &s.nodes[i]
	for n.free > 0 && !n.dead {
		task, inbound, ok := n.take(&s.cfg)
		if !ok {
			break
		}
		s.begin(i, task, inbound)
	}
	own := n.own != nil && n.own.waits() > 0
	switch {
	case n.free > 0:
		tellOwed(s, i, n.free)
	case own && !n.own.stalled:
		s.forward(n.own)
	}
}

// watch is called when tasks of others wait here, before any begins.
func (s *sim) watch(i int32) {
	n := &s.nodes[i]
	if n.inbound.len() > 0 && !n.watching {
		n.watching, n.begun = true, n.inbound.popped
		s.at(int64(forwarding.LookPause), event{kind: looks, node: i})
	}
}

// take takes the next task: the node's own and those of others by turns.
func (n *node) take(cfg *Config) (task int32, inbound, ok bool) {
	own := n.own != nil && n.own.waits() > 0
	inbound = n.inbound.len() > 0 && (!n.lastIn || !own)
	n.lastIn = inbound
	switch {
	case inbound:
		return n.inbound.pop(), true, true
	case own:
		return n.own.take(cfg), false, true
	}
	return 0, false, false
}

func (s *sim) begin(i, task int32, inbound bool) {
	n := &s.nodes[i]
	cpu := 0
	for n.running[cpu] >= 0 {
		cpu++
	}
	n.running[cpu] = task
	n.free--
	if !inbound {
		n.busyOwn++
	}
	s.began(task)
	s.at(int64(s.cfg.Takes(int(task))), event{kind: ends, node: i, task: task, from: int32(cpu)})
}

// end is called when a task has run on CPU cpu of node i, or on a GPU (-1).
func (s *sim) end(i, task, cpu int32) {
	n := &s.nodes[i]
	if n.dead {
		return // it is lost, which its submitter will notice
	}
	sub := s.submitterOf(task)
	if cpu >= 0 {
		n.running[cpu] = -1
		n.free++
		if sub.node == i {
			n.busyOwn--
		}
	} else {
		s.leaveGPU(i, task)
		n.gpuMean = forwarding.Learn(n.gpuMean, s.cfg.Takes(int(task)))
	}
	if sub.node == i {
		s.finish()
	} else {
		n.accepted--
		if cpu < 0 {
			n.withGPU--
		}
		s.answer(i, task, false)
	}
	if cpu >= 0 {
		n.ended++
		n.mean = forwarding.Learn(n.mean, s.cfg.Takes(int(task))) // a worker reads the clock when its answer has been made
	}
	s.work(i)
}

// answer sends the outcome of a task, with the load of the node now and then: see taskengine's sendsLoad.
func (s *sim) answer(i, task int32, given bool) {
	n, sub := &s.nodes[i], s.submitterOf(task)
	with := int32(-1)
	p := &sub.peers[i]
	if p.answers++; p.answers%answersPerLoad == 0 || p.meanTold == 0 || n.mean >= 2*p.meanTold || n.mean <= p.meanTold/2 {
		p.meanTold = n.mean
		with = s.loads.put(n.load())
	}
	s.Messages++
	s.at(int64(s.cfg.Latency), event{kind: answers, node: sub.node, from: i, task: task, with: with, given: given})
}

// answersPerLoad is taskengine's repliesPerLoad.
const answersPerLoad = 32

// giveBack gives back what would not begin soon.
func (s *sim) giveBack(i int32) {
	n := &s.nodes[i]
	waits, begun := int64(n.inbound.len()), n.inbound.popped-n.begun
	if n.watching = waits > 0 && !n.dead; !n.watching {
		return
	}
	n.begun = n.inbound.popped
	excess := forwarding.Excess(waits, begun, int64(n.cpus))
	if excess > 0 {
		n.mean = max(n.mean, forwarding.SlowMean(begun, int64(n.cpus)))
	}
	for range max(excess, min(s.idle, forwarding.Excess(waits, begun, 0))) {
		n.accepted--
		task := n.inbound.pop()
		n.owed.Add(s.submitterOf(task).node, 0)
		s.answer(i, task, true)
	}
	s.at(int64(forwarding.LookPause), event{kind: looks, node: i})
}

// tell sends the load to all submitters, when it has changed.
func (s *sim) tell(i int32) {
	n := &s.nodes[i]
	s.weighLine(n)
	if l := n.load(); l != n.told && !n.dead {
		n.told = l
		s.Reports += int64(len(s.nodes) - 1)
		s.at(int64(s.cfg.Latency), event{kind: reports, node: i, with: s.loads.put(l)})
	}
}
