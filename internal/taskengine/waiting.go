package taskengine

import (
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/runqueue"
	"github.com/raysys/raysys/internal/tally"
)

// Waiting is a task and where it waits on this node, but for the name of the node.
type Waiting struct {
	ID   core.TaskID
	Name string
	raysys.Waiting
	// Request is what a task of this node asks of placement; without an Entry where that is not asked yet.
	Request PlaceRequest
}

// maxFirst bounds the tasks that an answer names.
const maxFirst = 4

// search is one question of ExplainWaiting.
type search struct {
	e     *Engine
	ids   core.Prefix
	limit int
	now   int64
	seen  map[*core.Future]bool
	list  []Waiting
}

func (s *search) wants(c *core.Future) bool {
	return len(s.list) < s.limit && !c.Settled() && s.ids.Of(c.ID()) && !s.seen[c]
}

func (s *search) since(at int64) time.Duration {
	if at == 0 {
		return 0
	}
	return time.Duration(max(s.now-at, 0))
}

func (s *search) add(c *core.Future, w raysys.Waiting) {
	s.seen[c] = true
	out := Waiting{ID: c.ID(), Name: c.Work().Name(), Waiting: w}
	if t := taskOf(c); t != nil {
		r := t.request()
		out.Asks, out.Labels = raysys.Resources(t.spec.need.Resources()), r.Options.Labels
		_, inbound := c.Work().(*inboundTask)
		if held := w.Stage == core.StageInputs || w.Stage == core.StagePause || w.Stage == core.StageStore; !inbound && !held {
			out.Request = r
		}
	}
	s.list = append(s.list, out)
}

// held is where a task waits that is in no queue.
func (s *search) held(c *core.Future, since int64) raysys.Waiting {
	w := raysys.Waiting{Stage: core.StageStore, For: "the store, in which it is recorded first", Waited: s.since(since)}
	t, ok := c.Work().(interface{ deps() *deps })
	var d *deps
	if ok {
		d = t.deps()
	}
	if d == nil || len(d.futures) == 0 && !d.remakes {
		if own := c.OwnTurn(); d == nil && own != nil {
			w.Stage, w.For = core.StagePause, fmt.Sprintf("the pause before attempt %d", own.Attempt())
		}
		return w
	}
	open := d.open()
	for _, in := range open[:min(len(open), core.ExplainInputs)] {
		w.Inputs = append(w.Inputs, shaped{Future: in}.String())
	}
	w.Stage, w.For = core.StageInputs, "inputs that are on other nodes to arrive here"
	if len(open) > 0 {
		w.For = fmt.Sprintf("%d of its inputs, which are not computed yet", len(open))
	}
	return w
}

// queue looks at the tasks of one CPU.
func (s *search) queue(q *runqueue.Queue, what string) {
	var first []string
	before := 0
	look := func(c *core.Future, at *runqueue.Task) {
		if !c.Pending() || (shaped{Future: c}).Over() { // a task that was cancelled stays in the queue
			return
		}
		if s.wants(c) {
			w := raysys.Waiting{Stage: core.StageQueue, For: what, Waited: s.since(at.Since()), Before: before, First: first[:len(first):len(first)]}
			if class := c.Class(); class != core.Normal {
				w.For += fmt.Sprintf(" (class %d)", class)
			}
			s.add(c, w)
		}
		if before++; len(first) < maxFirst {
			first = append(first, shaped{Future: c}.String())
		}
	}
	bulks, lane := map[*core.Future]bool{}, -1
	q.Each(func(w runqueue.Task) bool {
		if w.Lane != lane {
			lane, first, before = w.Lane, nil, 0
		}
		b, ok := w.Future.Work().(batch)
		if w.Lane >= 0 || !ok {
			look(w.Future, &w)
			return true
		}
		for _, c := range b.rest() {
			if !bulks[c] {
				bulks[c] = true
				look(c, &w)
			}
		}
		return true
	})
}

// deferred looks at the tasks that no peer could run, and at those for which there is no node.
func (s *search) deferred(d *deferred) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.own {
		if s.wants(c) {
			s.add(c, raysys.Waiting{Stage: core.StageQueue, For: "a CPU of this node: it cannot travel"})
		}
	}
	for _, l := range d.order {
		for i, c := range l.futures {
			if s.wants(c) {
				s.add(c, raysys.Waiting{Stage: core.StageQueue, For: "a CPU of this node, or a node that has its function", Waited: s.since(l.since), Before: i})
			}
		}
	}
	for i, w := range d.unplaced {
		if s.wants(&w.task.Future) {
			s.add(&w.task.Future, raysys.Waiting{Stage: core.StageNode, For: "a node: none can take it now", Waited: s.since(w.since), Before: i})
		}
	}
}

// elsewhere looks at the tasks at peers, and at those of peers that are in no queue here.
func (s *search) elsewhere(x *exchange) {
	x.each(func(p *peer) {
		var there []*core.Future
		p.flights.Each(func(_ uint64, f flight) {
			if s.wants(f.task) {
				there = append(there, f.task)
			}
		})
		for _, c := range there {
			s.add(c, raysys.Waiting{Stage: core.StageSent, For: fmt.Sprintf("node %s, to which it was sent", p.Node())})
		}
		p.inbound.each(func(a *inboundTask) {
			if c := &a.Future; s.wants(c) && !c.Pending() {
				s.add(c, raysys.Waiting{Stage: core.StageRunning, For: fmt.Sprintf("nothing: it runs here, for node %s", p.Node())})
			}
		})
	})
}

// Seen is a task that is on this node, or that this node has sent to another.
type Seen struct {
	Future *core.Future
	Stage  string        // StageRunning also of one that waits for others meanwhile
	Since  int64         // when it began to wait or to run, about, on the runtime's clock; 0 where that is not known
	Peer   raysys.NodeID // whose task it is; of StageSent, where it is; "" for this node
}

// EachTask shows the tasks that wait or run on this node and those it has sent to others, in no order; one that moves meanwhile may come
// twice, or not. f is called under locks: it does not call the engine.
func EachTask(e *Engine, f func(Seen)) {
	show := func(c *core.Future, stage string, since int64) {
		if c.Settled() || (shaped{Future: c}).Over() { // a task that was cancelled stays where it is
			return
		}
		s := Seen{Future: c, Stage: stage, Since: since}
		if a, ok := c.Work().(*inboundTask); ok {
			s.Peer = a.from.Node()
		}
		f(s)
	}
	e.held.each(func(c *core.Future, since int64) { show(c, core.StageInputs, since) })
	x := e.net.Load()
	queues := []*runqueue.Queue{e.queue}
	if x != nil {
		queues = append(queues, x.inbound)
	}
	bulks := map[*bulk]bool{} // one has several places in the queue
	for _, q := range queues {
		q.Each(func(w runqueue.Task) bool {
			m, ok := w.Future.Work().(*bulkItem)
			if !ok {
				if w.Future.Pending() {
					show(w.Future, core.StageQueue, w.Since())
				}
				return true
			}
			if bulks[m.bulk] {
				return true
			}
			bulks[m.bulk] = true
			since := w.Since()
			for _, c := range m.rest() {
				if c.Pending() {
					show(c, core.StageQueue, since)
				}
			}
			return true
		})
	}
	if x != nil {
		x.deferred.each(show)
	}
	e.bundles.mu.Lock()
	for _, w := range e.bundles.deferred {
		show(&w.task.Future, core.StageBundle, w.since)
	}
	e.bundles.mu.Unlock()
	ledger.EachWaiting(&e.line, func(w ledger.Work, since int64) {
		if t, ok := w.(shaped); ok {
			show(t.Future, core.StageLine, since)
		}
	})
	eachRunning(e, show)
	if x == nil {
		return
	}
	x.each(func(p *peer) {
		p.flights.Each(func(_ uint64, t flight) {
			if !t.task.Settled() {
				f(Seen{Future: t.task, Stage: core.StageSent, Peer: p.Node()})
			}
		})
		p.inbound.each(func(a *inboundTask) {
			if !a.Future.Pending() {
				show(&a.Future, core.StageRunning, 0)
			}
		})
	})
}

// each shows the tasks that no peer could run, and those for which there is no node.
func (d *deferred) each(show func(c *core.Future, stage string, since int64)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.own {
		show(c, core.StageQueue, 0)
	}
	for _, l := range d.order {
		for _, c := range l.futures {
			show(c, core.StageQueue, l.since)
		}
	}
	for _, w := range d.unplaced {
		show(&w.task.Future, core.StageNode, w.since)
	}
}

// Explain says in words what the task waits for; Stage may say more than that of Seen.
func (t *Seen) Explain(e *Engine) raysys.Waiting {
	s := &search{e: e, now: e.now()}
	w := raysys.Waiting{Stage: t.Stage, Waited: s.since(t.Since)}
	switch t.Stage {
	case core.StageInputs:
		return s.held(t.Future, t.Since)
	case core.StageQueue:
		w.For = "a CPU"
	case core.StageBundle:
		w.For = "its placement group: the bundle has no node yet"
	case core.StageNode:
		w.For = "a node: none can take it now"
	case core.StageLine:
		w.For = "what others hold of this node"
	case core.StageSent:
		w.For = fmt.Sprintf("node %s, to which it was sent", t.Peer)
	}
	return w
}

// OptionsOf are those of a task of this node; nil where it is another's, or no task.
func OptionsOf(c *core.Future) *core.Options {
	r, ok := c.Work().(*record)
	if !ok {
		return nil
	}
	return &r.spec.opts
}

// String names the task, for those that wait behind it.
func (w shaped) String() string { return w.Work().Name() + " " + w.ID().String() }

// Tally is what the node counts, of tasks and of calls.
func Tally(e *Engine) *tally.Tally { return e.cfg.Tally }

// Functions is what the node has counted of each function, with what runs and waits now.
func Functions(e *Engine) []tally.Row {
	addUpSpares(e)
	now, m := e.now(), tally.Merge(e.cfg.Tally, tally.TaskKind)
	EachTask(e, func(t Seen) {
		since := now
		if t.Since != 0 {
			since = t.Since
		}
		switch name := t.Future.Work().Name(); t.Stage {
		case core.StageSent: // the node that has it says it
		case core.StageRunning:
			m.Row(name).Running++
		default:
			m.Row(name).Waits(time.Duration(now - since))
		}
	})
	look(e, now)
	return m.Rows()
}

// look remembers what runs and waits now, for the next question. On a node of a cluster Tick does, too.
func look(e *Engine, now int64) {
	e.slots.Look(now)
	e.order.Tick()
}

// eachRunning shows the tasks of this node that have begun here and not ended, with those that run others in place, one within the other.
func eachRunning(e *Engine, show func(c *core.Future, stage string, since int64)) {
	e.slots.Each(e.now(), func(c *core.Future, since int64) {
		for c != nil {
			if _, inbound := c.Work().(*inboundTask); !inbound {
				show(c, core.StageRunning, since)
			}
			c = core.RunsInPlace(c)
		}
	})
}

func (in input) explain(depth int) core.Explanation {
	c := in.held
	if in.recipe != nil {
		in.recipe.mu.Lock()
		c = in.recipe.future.Value()
		in.recipe.mu.Unlock()
		if c == nil {
			e := core.Explanation{ID: in.recipe.id().String(), State: "released", Submitter: in.recipe.up.Job.Node}
			in.recipe.Explain(&e, depth)
			return e
		}
	}
	if c == nil {
		c = in.loose.Value()
	}
	if c == nil {
		return core.Explanation{Name: in.name, State: "released", NoRecipe: core.NoTask}
	}
	e := core.Explain(c, depth)
	if in.held == nil && in.recipe == nil {
		e.NoRecipe = core.NoTask
	}
	return e
}
