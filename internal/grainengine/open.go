package grainengine

import (
	"errors"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/replies"
	"github.com/raysys/raysys/internal/wire"
)

// The note that a driver has a reply (open.go) may find no activation, or be lost, and a driver's reply goes by no age. So from half of
// their bound on the activation asks the nodes whose drivers own replies which of those calls are not open there any more:
//
//	activation ── KindCallAsk: calls ──► the drivers' node ── KindCallForget: those that are not open, and a zero id ──► activation
//
// A call is open from before it is sent until its reply is there. So one whose reply is on its way, or that is made again because the
// way to its grain broke, keeps its reply. A node that does not answer, as one of an older version, keeps all of them.

// openCalls are the calls of this node's drivers to durable grains that may be made again.
type openCalls struct{ shards [16]openShard }

type openShard struct {
	mu      sync.Mutex // guards the rest
	calls   map[raysys.TaskID]openCall
	sweepAt int // how many there are when those that are over are looked for
}

type openCall struct {
	future *core.Future
	over   int64 // on the runtime's clock: when it was seen to have ended without a reply; 0 for never
}

// endsAfter is how long a call that has ended without a reply counts as open: it may have been on its way to the link when it was
// cancelled, and its cancellation must be at its grain first.
const endsAfter = int64(2 * time.Second)

func (o *openCalls) shard(id raysys.TaskID) *openShard { return &o.shards[id.Lo%uint64(len(o.shards))] }

func (o *openCalls) enter(id raysys.TaskID, c *core.Future, now int64) {
	s := o.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) >= s.sweepAt {
		for id := range s.calls {
			s.open(id, now)
		}
		s.sweepAt = max(64, 2*len(s.calls))
	}
	if s.calls == nil {
		s.calls = map[raysys.TaskID]openCall{}
	}
	s.calls[id] = openCall{future: c}
}

func (o *openCalls) leave(id raysys.TaskID) {
	s := o.shard(id)
	s.mu.Lock()
	delete(s.calls, id)
	s.mu.Unlock()
}

// has reports whether the call may be made again.
func (o *openCalls) has(id raysys.TaskID, now int64) bool {
	s := o.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open(id, now)
}

// open is has, with mu locked. It forgets a call that is over.
func (s *openShard) open(id raysys.TaskID, now int64) bool {
	c, ok := s.calls[id]
	switch {
	case !ok:
		return false
	case !c.future.Settled():
	case c.over == 0:
		s.calls[id] = openCall{c.future, now}
	case now-c.over >= endsAfter:
		delete(s.calls, id)
		return false
	}
	return true
}

// asked is the last question of an activation. durable.mu guards it.
type asked struct {
	at      time.Time
	open    int           // frames that were not answered
	n, size int           // how many replies there were when the last was, and their bytes
	freed   chan struct{} // closed when a reply of a driver goes, or all is answered; nil where nothing waits for that
	vain    time.Time     // when a call has waited for nothing
}

const (
	askAgain = 2 * time.Second       // a question without an answer is open for so long
	askPause = 50 * time.Millisecond // between questions at the bound
	askWait  = time.Second           // how long a call waits for room
	askCalm  = 10 * time.Second      // after a wait for nothing calls are refused at once
	maxAsks  = 1024                  // calls in one frame
)

// due reports whether a question is to be asked. full says that a call has no room.
func (q *asked) due(k *replies.OfKind, full bool, now time.Time) bool {
	switch since := now.Sub(q.at); {
	case q.open > 0:
		return since >= askAgain
	case full:
		return since >= askPause
	}
	return k.N >= q.n+replies.Max/8 || k.Size >= q.size+replies.MaxBytes/8
}

// wake wakes the call that waits for room. mu is locked.
func (q *asked) wake() {
	if q.freed != nil {
		close(q.freed)
		q.freed = nil
	}
}

// answered counts an answer.
func (d *durable) answered() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q, k := &d.asked, &d.replies.Kinds[replies.OfDriver]; q.open > 0 {
		if q.open--; q.open == 0 {
			q.n, q.size = k.N, k.Size
			q.wake()
		}
	}
}

// roomFor is durable.known for the call of a driver, where half of the room is taken: it asks, and where there is none it waits for that.
func (d *durable) roomFor(c *call, p *replies.Reply) (known *replies.Reply, err error) {
	var limit *time.Timer
	for {
		d.mu.Lock()
		known, err = d.knownLocked(p, "", time.Now())
		full := errors.Is(err, raysys.ErrOverloaded)
		calm := time.Since(d.asked.vain) < askCalm
		ask := d.askLocked(full)
		if full && d.asked.freed == nil {
			d.asked.freed = make(chan struct{})
		}
		freed := d.asked.freed
		d.mu.Unlock()
		for owner, calls := range ask {
			d.askWhichOpen(owner, calls, c.method.entry)
		}
		if !full || calm {
			return known, err
		}
		if limit == nil {
			limit = time.NewTimer(askWait)
			defer limit.Stop()
		}
		select {
		case <-freed:
		case <-limit.C:
			d.mu.Lock()
			d.asked.vain = time.Now()
			d.mu.Unlock()
			return nil, err
		}
	}
}

// askLocked returns the calls to ask for by their nodes, none where no question is due. mu is locked.
func (d *durable) askLocked(full bool) map[core.NodeKey][]raysys.TaskID {
	now := time.Now()
	if !d.asked.due(&d.replies.Kinds[replies.OfDriver], full, now) {
		return nil
	}
	list := map[core.NodeKey][]raysys.TaskID{}
	for id, p := range d.replies.ByCall {
		if p.Kind == replies.OfDriver && !p.Pending && !p.Gone {
			list[p.Owner] = append(list[p.Owner], id)
		}
	}
	d.asked.at, d.asked.open = now, 0
	for _, calls := range list {
		d.asked.open += (len(calls) + maxAsks - 1) / maxAsks
	}
	return list
}

// askWhichOpen asks a node which of the calls of its drivers are open, by a method that it has.
func (d *durable) askWhichOpen(owner core.NodeKey, calls []raysys.TaskID, by *core.Entry) {
	e := d.a.kind.engine
	answer := func(open func(raysys.TaskID) bool) {
		for i, id := range calls {
			if !open(id) {
				d.release(id)
			}
			if i%maxAsks == 0 {
				d.answered()
			}
		}
	}
	job := e.cfg.Hooks.Job()
	switch {
	case e.cfg.Cluster == nil && owner != core.NodeKey{Node: job.Node, Incarnation: job.Run}:
		answer(func(raysys.TaskID) bool { return false }) // another process made them, which is over
		return
	case e.cfg.Cluster == nil, owner == e.cfg.Cluster.Self():
		now := e.cfg.Rough()
		answer(func(id raysys.TaskID) bool { return e.open.has(id, now) })
		return
	}
	e.cfg.Cluster.Connect(owner, func(wp wire.Peer, err error) {
		p := e.peer(wp)
		switch {
		case errors.Is(err, raysys.ErrNodeDead):
			answer(func(raysys.TaskID) bool { return false })
		case err == nil && p != nil && p.askOpen(by, d.a.key, calls) == nil:
		default:
			answer(func(raysys.TaskID) bool { return true })
		}
	})
}

// The activation of a durable grain keeps the reply to a call until its caller cannot make the call again: a driver has the
// reply; of any other turn the outermost task above it has its outcome at the driver that submitted it (core.Finality). The
// caller's node says so in KindCallForget, of many calls at a time. A frame that is lost, or finds no activation, leaves a reply behind:
// one of a driver goes when it is asked for (open.go), the others after grains.KeepReplies.

// forgetSoon is the time between that and the frame.
const forgetSoon = 20 * time.Millisecond

// maxForgets bounds the calls in one frame.
const maxForgets = 64

// forgetting is a call whose reply is not needed any more, or will not be when its turn is final.
type forgetting struct {
	at   *peer // that has the grain; nil: this node
	kind *boundKind
	by   *core.Entry // the method
	key  string
	call raysys.TaskID
}

// forgets are the calls whose replies this node will not ask for.
type forgets struct {
	mu    sync.Mutex // guards the rest
	soon  []*forgetting
	armed bool // the alarm
}

// Final implements core.Finality.
func (f *forgetting) Final() {
	e := f.kind.engine
	l := &e.forgets
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.soon = append(l.soon, f); len(l.soon) == maxForgets {
		soon := l.soon
		l.soon = nil
		e.cfg.Pool.Go(forgetSet{soon})
		return
	}
	if !l.armed {
		l.armed = true
		rt := e.cfg.Hooks.Runtime()
		rt.SetAlarm(&core.Alarm{At: rt.Now() + int64(forgetSoon), Ring: e.forgetSoon})
	}
}

// Dropped implements core.Finality: the reply stays for grains.KeepReplies.
func (f *forgetting) Dropped() {}

// forgetSet is a list of calls whose replies may go.
type forgetSet struct{ list []*forgetting }

// Run implements goroutines.Work.
func (s forgetSet) Run() {
	frames := map[*peer][]byte{}
	for _, f := range s.list {
		if f.at == nil {
			f.kind.forget(f.key, f.call)
			continue
		}
		if n, ok := f.at.Runs(f.by); ok {
			frames[f.at] = appendForget(frames[f.at], n, f.key, f.call)
		}
		if len(frames[f.at]) > wire.InlineLimit/2 {
			_ = f.at.Send(wire.Control, wire.KindCallForget, frames[f.at]) // one that is lost leaves a reply behind
			delete(frames, f.at)
		}
	}
	for p, frame := range frames {
		_ = p.Send(wire.Control, wire.KindCallForget, frame)
	}
}

func appendForget(dst []byte, method uint32, key string, call raysys.TaskID) []byte {
	return wire.AppendID(wire.AppendBytes(wire.AppendUvarint(dst, uint64(method)), key), call)
}
