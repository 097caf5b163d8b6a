package simulate

import (
	"time"

	"github.com/raysys/raysys/internal/forwarding"
	"github.com/raysys/raysys/placement"
)

// retryPause is taskengine's: for how long a peer that gave back a task for a GPU gets none.
const retryPause = 5 * time.Millisecond

// submitter has tasks of its own. Those that nobody has begun are not kept: they follow from their numbers.
type submitter struct {
	node     int32
	index    int
	next     int // of its tasks, the first that has not left the queue
	due      int // of its tasks, those that were submitted
	plain    int // of those in the queue, the ones that ask for a CPU
	again    fifo
	unplaced []unplaced // no tasks of the queue

	peers    []peer  // by node
	offers   []offer // by node
	open     int     // peers that have room
	heard    int64   // how many reports there were when it last took all in
	stalled  bool
	retrying bool
	asking   bool
	draw     forwarding.Draw

	view *placement.View // made for the first task that asks for a GPU
	sent []sentGPU
}

// peer is what a submitter knows of another node.
type peer struct {
	load
	inflight, low, among int32
	inflightGPU, plain   int32 // of inflight, those that ask for a GPU; of among, those that do not
	full                 int64 // it refused: until then it gets no task; 0: it did not, or has told something since
	asked                bool  // since it told something
	gone                 bool
	heard                uint32 // its last report that was taken in; 0: none

	// The other node's: of what it has told this submitter.
	answers  uint32
	meanTold time.Duration
}

// flies counts a task that is sent there, or answered.
func (p *peer) flies(cfg *Config, task, n int32) {
	p.inflight += n
	if cfg.WantsGPU(int(task)) {
		p.inflightGPU += n
	}
}

// offer is a forwarding.Offer, kept until something about its peer changes.
type offer struct {
	tasks, score int32
	idle         bool
}

func (b *submitter) waits() int { return b.plain + b.again.len() }

// take takes the oldest task, those that came back first.
func (b *submitter) take(cfg *Config) int32 {
	if b.again.len() > 0 {
		return b.again.pop()
	}
	for {
		task := b.index + b.next*cfg.submitters()
		b.next++
		if !cfg.WantsGPU(task) { // that one has been placed
			b.plain--
			return int32(task)
		}
	}
}

// look enters what peer i has for the tasks of b, after something about it has changed.
func (s *sim) look(b *submitter, i int32) {
	p, was := s.peer(b, i), b.offers[i].tasks
	b.offers[i] = offer{}
	if p.full == 0 && !p.gone && i != b.node {
		known := forwarding.Peer{
			CPUs: int64(s.cfg.CPUs), Inflight: int64(p.inflight - p.inflightGPU),
			Queued: int64(p.queued - p.waits), Inbound: int64(p.inbound - p.inboundGPU), Own: int64(p.plain), Busy: int64(p.busy), Mean: p.mean,
		}
		o := known.Offer(s.nodes[b.node].cpus == 0)
		b.offers[i] = offer{int32(o.Tasks), int32(o.Score), o.Idle}
	}
	switch has := b.offers[i].tasks > 0; {
	case has && was == 0:
		b.open++
	case !has && was > 0:
		b.open--
	}
}

// forward sends tasks until none waits or no peer has room. The CPUs of the node are taken.
func (s *sim) forward(b *submitter) {
	s.placeAgain(b)
	s.hear(b)
	for b.waits() > 0 {
		if b.open == 0 {
			for i := range b.peers {
				p := &b.peers[i]
				p.low = int32(forwarding.Low(int64(p.inflight-p.inflightGPU), p.mean))
			}
			b.stalled = true
			askLater(s, b, 0)
			return
		}
		best, _ := forwarding.Choose(len(b.offers), &b.draw, func(i int) forwarding.Offer {
			o := &b.offers[i]
			return forwarding.Offer{Tasks: int64(o.tasks), Score: int64(o.score), Idle: o.idle}
		})
		var frame []int32
		for range min(int(b.offers[best].tasks), forwarding.MaxFrame, b.waits()) {
			frame = append(frame, b.take(&s.cfg))
		}
		s.send(b, int32(best), frame)
	}
	b.stalled = false
}

// send sends a frame of tasks to node i.
func (s *sim) send(b *submitter, i int32, frame []int32) {
	for _, task := range frame {
		s.peer(b, i).flies(&s.cfg, task, +1)
	}
	s.look(b, i)
	s.Forwarded += int64(len(frame))
	s.Messages++
	s.at(int64(s.cfg.Latency), event{kind: arrives, node: i, from: b.node, with: s.frames.put(frame)})
}

// arrive takes in a frame.
func (s *sim) arrive(i int32, frame []int32) {
	n := &s.nodes[i]
	for _, task := range frame {
		switch {
		case n.gone:
			s.lost(i, task)
			s.work(s.submitterOf(task).node)
		case !n.dead && n.inbound.len() >= maxInbound:
			s.answer(i, task, true)
		case s.cfg.WantsGPU(int(task)):
			n.accepted++
			n.withGPU++
			n.gpu.push(task)
			s.inLine.add(int(i))
		case !n.dead && refuses(s, i, s.submitterOf(task).node):
			s.answer(i, task, true)
		default:
			n.accepted++
			n.inbound.push(task)
		}
	}
	if !n.dead {
		s.startGPU(i)
		s.watch(i)
		s.work(i)
	}
}

// answered takes in an answer.
func (s *sim) answered(e event) {
	b := s.nodes[e.node].own
	p := s.peer(b, e.from)
	p.flies(&s.cfg, e.task, -1)
	if e.with >= 0 {
		l := s.loads.take(e.with)
		l.gpus = p.gpus // of what is free beside CPU the last report counts
		b.learn(e.from, l)
	}
	switch {
	case !e.given:
		s.finish()
	case s.cfg.WantsGPU(int(e.task)):
		s.GivenBack++
		p.full = s.now + int64(retryPause)
		s.placeLater(b, e.task, e.from)
	default:
		s.GivenBack++
		p.full = s.now + int64(forwarding.LeftAlone)
		if s.nodes[b.node].cpus == 0 { // it takes its turn where all is taken
			p.full = s.now + int64(retryPause)
			s.retryLater(b)
		}
		b.again.push(e.task)
		s.sending.add(b.index)
		askLater(s, b, 0)
	}
	s.look(b, e.from)
	switch {
	case b.waits() == 0 || s.nodes[e.node].free > 0:
		s.work(e.node)
	case !b.stalled || b.offers[e.from].tasks > 0 && p.inflight-p.inflightGPU <= p.low:
		s.forward(b)
	}
}

// retry is called when a task may be placed again that a node gave back.
func (s *sim) retry(i int32) {
	b := s.nodes[i].own
	b.retrying = false
	lookAgain(s, b)
	s.placeAgain(b)
	s.work(i)
}

// retryLater has b place such tasks again after a retryPause.
func (s *sim) retryLater(b *submitter) {
	if !b.retrying {
		b.retrying = true
		s.at(int64(retryPause), event{kind: retries, node: b.node})
	}
}

// lookAgain looks at the peers that were left alone for long enough.
func lookAgain(s *sim, b *submitter) {
	for k := range b.peers {
		if p := &b.peers[k]; p.full != 0 && p.full <= s.now {
			p.full = 0
			s.look(b, int32(k))
		}
	}
}
