package simulate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/raysys/raysys/internal/forwarding"
)

// sim is one run.
type sim struct {
	Result
	cfg        Config
	now        int64
	events     events
	nodes      []node
	reports    []report // by node, its last
	told       int64    // how many reports there were
	idle       int64    // CPUs that have nothing to do, by these reports
	teller     int32    // whose the last of all was
	withGPUs   []int32  // nodes
	sending    marks    // submitters that have tasks to send or to place, and some that have none any more
	inLine     marks    // nodes where tasks wait for a GPU, and some where none does any more
	submitters []submitter
	observers  []submitter // what workers without tasks of their own believe of the others' GPUs
	frames     slab[[]int32]
	loads      slab[load]
	done       int
	waits      histogram
	least      least
	others     int   // events to come that are no ticks
	last       int64 // when the last of those happened
	failed     error // ends the run
}

// slab keeps what events carry. A slot is used again once it was taken.
type slab[T any] struct {
	list []T
	free []int32
}

func (b *slab[T]) put(v T) int32 {
	if n := len(b.free); n > 0 {
		i := b.free[n-1]
		b.free = b.free[:n-1]
		b.list[i] = v
		return i
	}
	b.list = append(b.list, v)
	return int32(len(b.list) - 1)
}

func (b *slab[T]) take(i int32) T {
	b.free = append(b.free, i)
	return b.list[i]
}

// Run plays c to its end.
func Run(ctx context.Context, c Config) (Result, error) {
	if err := c.Check(); err != nil {
		return Result{}, err
	}
	if c.Report == 0 {
		c.Report = forwarding.ReportEvery(c.Nodes)
	}
	s := newSim(c)
	for turn := 0; s.done < c.Tasks; turn++ {
		if turn%4096 == 0 && ctx.Err() != nil {
			return s.result(), fmt.Errorf("after %d of %d tasks: %w", s.done, c.Tasks, context.Cause(ctx))
		}
		if err := s.step(); err != nil {
			return s.result(), err
		}
	}
	return s.result(), nil
}

// step has the next event happen.
func (s *sim) step() error {
	e, _ := s.events.next() // nodes tick for ever
	if e.kind != ticks {
		s.others--
		s.last = e.at
	} else if s.others == 0 && e.at-s.last > 2*int64(s.cfg.Report) { // every node has ticked since, and told nothing
		return fmt.Errorf("nothing happens any more after %d of %d tasks, at %v: a defect of the simulator", s.done, s.cfg.Tasks, time.Duration(s.now))
	}
	s.now = e.at
	s.Events++
	s.happens(e)
	return s.failed
}

func newSim(c Config) *sim {
	s := &sim{cfg: c, nodes: make([]node, c.Nodes), submitters: make([]submitter, c.submitters())}
	s.sending, s.inLine = newMarks(len(s.submitters)), newMarks(c.Nodes)
	for i := range s.nodes {
		s.nodes[i] = node{cpus: c.CPUs, free: c.CPUs, running: make([]int32, c.CPUs)}
		for k := range s.nodes[i].running {
			s.nodes[i].running[k] = -1
		}
		s.equip(i)
		// Nodes start at their own times.
		s.at(int64(mix(c.Seed+uint64(i))%uint64(c.Report)), event{kind: ticks, node: int32(i)})
	}
	if c.Submitters == 0 {
		s.nodes = append(s.nodes, node{})
	}
	s.reports = make([]report, len(s.nodes))
	s.idle = int64(c.Nodes * c.CPUs)
	for k := range s.submitters {
		b := &s.submitters[k]
		*b = submitter{node: int32(k), index: k, peers: make([]peer, len(s.nodes)), offers: make([]offer, len(s.nodes))}
		b.draw = forwarding.Draw(mix(c.Seed ^ uint64(k)))
		if c.Submitters == 0 {
			b.node = int32(c.Nodes)
			b.peers[b.node].gone = true
		}
		s.nodes[b.node].own = b
		for i := range c.Nodes {
			s.look(b, int32(i))
		}
		s.at(0, event{kind: submits, node: b.node})
	}
	s.observers = make([]submitter, min(max(maxObserved/len(s.nodes), 1), c.Nodes))
	for k, i := range c.Victims() {
		s.at(int64(c.Death(k)), event{kind: dies, node: int32(i)})
	}
	return s
}

// at adds an event that happens after so many nanoseconds.
func (s *sim) at(after int64, e event) {
	e.at = s.now + after
	s.events.add(e)
	if e.kind != ticks {
		s.others++
	}
}

func (s *sim) submitterOf(task int32) *submitter { return &s.submitters[s.cfg.submitter(int(task))] }

func (s *sim) happens(e event) {
	switch e.kind {
	case submits:
		s.submit(s.nodes[e.node].own)
	case arrives:
		frame := s.frames.take(e.with)
		s.arrive(e.node, frame)
	case ends:
		s.end(e.node, e.task, e.from)
	case answers:
		s.answered(e)
	case ticks:
		s.forgetSent(e.node)
		s.tell(e.node)
		if !s.nodes[e.node].dead {
			s.at(int64(s.cfg.Report), event{kind: ticks, node: e.node})
		}
	case reports:
		s.report(e.node, s.loads.take(e.with))
		s.moveAll(e.node)
	case looks:
		s.giveBack(e.node)
	case retries:
		s.retry(e.node)
	case words:
		hearWord(s, e)
	case settles:
		s.nodes[e.node].settling = false
		tellOwed(s, e.node, int(e.task))
	case asks:
		askSome(s, s.nodes[e.node].own, int(e.task))
	case asked:
		s.nodes[e.node].owed.Add(e.from, 0)
		s.work(e.node)
	case tells:
		s.nodes[e.node].telling = false
		s.nodes[e.node].quiet = s.now + int64(restEvery)
		s.tell(e.node)
	case moves:
		s.nodes[e.node].moving = false
		s.forgetSent(e.node)
		s.move(e.node)
		s.startGPU(e.node) // looks again while some wait
	case dies:
		s.nodes[e.node].dead = true
		s.at(int64(s.cfg.Detect), event{kind: noticed, node: e.node})
	case noticed:
		s.notice(e.node)
	}
}

// submit takes in the tasks of b that are due, and sets the time of the next.
func (s *sim) submit(b *submitter) {
	n := s.cfg.submitters()
	for {
		task := b.index + b.due*n
		if task >= s.cfg.Tasks {
			break
		}
		if at := int64(s.cfg.Submitted(task)); at > s.now {
			s.at(at-s.now, event{kind: submits, node: b.node})
			break
		}
		b.due++
		s.least.add(s.cfg.Submitted(task), s.cfg.Takes(task), s.cfg.WantsGPU(task))
		if !s.cfg.WantsGPU(task) {
			b.plain++
			s.sending.add(b.index)
		} else {
			s.place(b, int32(task), -1)
		}
	}
	s.work(b.node)
}

// notice has the submitters of a dead node's tasks send them elsewhere.
func (s *sim) notice(i int32) {
	n := &s.nodes[i]
	n.gone = true
	s.idle -= s.reports[i].idleCPUs(s.cfg.CPUs)
	for k := range s.submitters {
		s.submitters[k].peers[i].gone = true
		s.look(&s.submitters[k], i)
		s.submitters[k].forget(i)
	}
	for k := range s.observers {
		s.observers[k].forget(i)
	}
	took := slices.DeleteFunc(slices.Clone(n.running), func(task int32) bool { return task < 0 })
	took = append(took, slices.Sorted(maps.Keys(n.holds))...)
	for _, f := range []*fifo{&n.inbound, &n.gpu} {
		for f.len() > 0 {
			took = append(took, f.pop())
		}
	}
	for _, task := range took {
		s.lost(i, task)
	}
	for k := range s.submitters {
		s.work(s.submitters[k].node)
	}
}

// lost returns a task to its submitter.
func (s *sim) lost(i, task int32) {
	b := s.submitterOf(task)
	s.peer(b, i).flies(&s.cfg, task, -1)
	s.Rerun++
	if s.cfg.WantsGPU(int(task)) {
		s.place(b, task, -1)
	} else {
		b.again.push(task)
		s.sending.add(b.index)
	}
}

func (s *sim) began(task int32) {
	s.waits.add(s.now - int64(s.cfg.Submitted(int(task))))
}

func (s *sim) finish() { s.done++ }
