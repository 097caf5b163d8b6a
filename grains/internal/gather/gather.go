package gather

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
)

// MaxSize is how many calls one batch may have at most.
const MaxSize = 1 << 16

// Typed is what is compiled for the types of a method.
type Typed struct {
	Value, Arg *core.ValueType // of one answer, and of one argument
	// Send makes the call for all, and takes their arguments out of their records.
	Send func(ctx context.Context, f grainengine.Func, id graindir.ID, calls []*Call) core.Link
	// Answer waits for that call. Where it has an answer for each of calls, Answer ends them with those; else it leaves them as they are.
	Answer func(ctx context.Context, l core.Link, calls []*Call) (answers int, err error)
}

// Gatherer is a method whose calls are gathered.
type Gatherer struct {
	method grainengine.Func
	typed  Typed
	size   int
	wait   time.Duration
	bad    error // why no call can be made

	mu    sync.Mutex // guards lanes, and is held while a batch is sent: those of one grain are sent in their order
	lanes map[target]*lane
}

// lane are the batches of one grain: there is none without one. A batch that is not full stays while another is away: that has the grain
// busy, and what comes meanwhile travels along.
type lane struct {
	open   *batch                // that gathers calls; nil for none
	away   []*batch              // that wait for their answers
	oldest atomic.Pointer[batch] // of away, for a search that has no lock; nil for none
}

// target is a grain as one node sees it: there may be several nodes in a process.
type target struct {
	node core.Runtime
	id   graindir.ID
}

// batch are calls that are made as one.
type batch struct {
	by    *Gatherer
	to    target
	lane  *lane
	calls []*Call     // guarded by Gatherer.mu, as the two below
	ripe  bool        // it has waited
	id    core.TaskID // of the call for all
	alone atomic.Bool // it waits for no other: the turn that one of those runs has made a call of it
	alarm core.Alarm
	top   *core.Turn // of the node
	above core.Watcher
	open  atomic.Int32                // calls whose callers have not given up
	turn  atomic.Pointer[core.Turn]   // below which the call for all is made; nil before
	made  atomic.Pointer[core.Future] // the call for all
}

// New returns one whose batches have at most size calls, the first of which waits no longer than wait.
func New(f grainengine.Func, size int, wait time.Duration, t Typed) *Gatherer {
	g := &Gatherer{method: f, typed: t, size: size, wait: wait, lanes: map[target]*lane{}}
	switch {
	case f == grainengine.Func{}:
		g.bad = fmt.Errorf("%w: Batch of the zero handle: make the method first, in a variable above or in init", raysys.ErrBadDefinition)
	case size < 1 || size > MaxSize:
		g.bad = fmt.Errorf("call %s: %w: Batch of %d calls: give 1 to %d", f.MethodName(), raysys.ErrBadOption, size, MaxSize)
	case wait <= 0:
		g.bad = fmt.Errorf("call %s: %w: Batch that waits %v: give a time above zero, such as 2ms", f.MethodName(), raysys.ErrBadOption, wait)
	case wait >= f.Limit():
		g.bad = fmt.Errorf("call %s: %w: Batch that waits %v, with a deadline of %v: a call that finds no company would end before it leaves", f.MethodName(), raysys.ErrBadOption, wait, f.Limit())
	}
	return g
}

// Add makes the call c, whose argument is at arg. skip is how many frames above Add the program stands.
func (g *Gatherer) Add(ctx context.Context, id graindir.ID, c *Call, arg unsafe.Pointer, skip int) core.Link {
	if g.bad != nil {
		return core.LinkTo(core.FailedOf(g.typed.Value, g.bad))
	}
	up, until, err := g.method.Gathered(ctx, id)
	if err == nil && up.Job().Inspect != nil {
		err = core.HandOver(up.Job(), "argument of "+g.method.MethodName()+core.CallSite(skip), g.typed.Arg, arg)
	}
	if err != nil {
		return core.LinkTo(core.FailedOf(g.typed.Value, err))
	}
	c.until = until
	c.Future.Init(c, up, up.Next(), g.typed.Value.Gated())
	g.add(target{up.Runtime(), id}, c).leave()
	if err := up.Cancelled(); err != nil { // since the check: nothing would tell the call
		c.Future.Cancel(err)
	}
	return core.LinkTo(c.Future)
}

// add puts c into the open batch of its grain, and sends that where it may leave.
func (g *Gatherer) add(to target, c *Call) *sent {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lanes[to]
	if l == nil {
		l = &lane{}
		g.lanes[to] = l
	}
	if l.open == nil {
		l.open = &batch{by: g, to: to, lane: l, top: c.Future.Up().Job().Top}
		if g.size > 1 {
			l.open.begin()
		}
	}
	b := l.open
	c.batch = b
	b.calls = append(b.calls, c)
	b.open.Add(1)
	if len(l.away) > 0 && below(c.Future.Up(), l.away) {
		b.alone.Store(true)
	}
	// Under mu, so that the call cannot end before it is watched for.
	c.Future.Up().Watch(&c.above, c.callerEnded)
	if len(b.calls) < g.size {
		return l.next()
	}
	return g.send(b)
}

// below reports whether a turn of a grain that one of the batches runs has made a call under up.
func below(up *core.Turn, away []*batch) bool {
	callers := up.Callers()
	return slices.ContainsFunc(away, func(b *batch) bool { return slices.Contains(callers, b.id) })
}

// begin has the batch wait for calls; mu is held. Its node may close meanwhile, and its clock stand still then.
func (b *batch) begin() {
	b.alarm.At, b.alarm.Ring = core.After(b.to.node.Now(), b.by.wait), func() { go b.due() }
	b.to.node.SetAlarm(&b.alarm)
	b.top.Watch(&b.above, func() { go b.drop() })
}

// due is when the batch has waited.
func (b *batch) due() {
	b.by.mu.Lock()
	b.ripe = true
	s := b.lane.next()
	b.by.mu.Unlock()
	s.leave()
}

// next sends the open batch if it may leave as it is, and returns nil where it may not; mu is held.
func (l *lane) next() *sent {
	if b := l.open; b != nil && b.ripe && (b.alone.Load() || len(l.away) == 0) {
		return b.by.send(b)
	}
	return nil
}

func (l *lane) setAway(list []*batch) {
	l.away = list
	if len(list) == 0 {
		l.oldest.Store(nil)
	} else {
		l.oldest.Store(list[0])
	}
}

// drop forgets the batch: its node closes, and its calls have ended with that.
func (b *batch) drop() {
	b.by.mu.Lock()
	defer b.by.mu.Unlock()
	if b.lane.open == b {
		b.lane.open = nil
		b.leaveLane()
	}
}

// leaveLane takes the batch out of its lane, and that out of the gatherer when it was the last; mu is held.
func (b *batch) leaveLane() {
	l := b.lane
	l.setAway(slices.DeleteFunc(l.away, func(x *batch) bool { return x == b }))
	if l.open == nil && len(l.away) == 0 && b.by.lanes[b.to] == l {
		delete(b.by.lanes, b.to)
	}
}

// sent is a batch on its way.
type sent struct {
	*batch
	calls []*Call // that have not ended before
	over  []*Call // that have, and may not know it yet
	link  core.Link
}

// send makes the call for all that wait; mu is held.
func (g *Gatherer) send(b *batch) *sent {
	s := &sent{batch: b}
	b.lane.open = nil
	b.to.node.ClearAlarm(&b.alarm)
	b.top.Unwatch(&b.above)
	now := b.to.node.Now()
	for _, c := range b.calls {
		if c.until != 0 && c.until <= now || c.Future.Up().Cancelled() != nil || c.Future.Settled() {
			s.over = append(s.over, c)
		} else {
			s.calls = append(s.calls, c)
		}
	}
	b.calls = nil
	if len(s.calls) == 0 {
		b.leaveLane()
		return s
	}
	b.lane.setAway(append(b.lane.away, b))
	t := core.NewTurn(core.TurnSpec{
		Kind: core.TurnRoot, Name: g.method.NameOf(b.to.id), ID: s.calls[0].Future.ID().Child(math.MaxUint64), Up: b.top, Attempt: 1,
	})
	b.turn.Store(t)
	s.link = g.typed.Send(core.HookContext(t), g.method, b.to.id, s.calls)
	b.id = core.IDOf(s.link)
	b.made.Store(core.FutureOf(s.link))
	return s
}

// leave is the rest of send, without mu: what follows calls whoever waits for the futures. Nothing was sent where s is nil.
func (s *sent) leave() {
	if s == nil {
		return
	}
	for _, c := range s.over {
		c.Future.Phase() // which ends a call whose deadline or caller has
		c.left()
	}
	if len(s.calls) == 0 {
		return
	}
	s.givenUp()
	core.Recheck(core.FutureOf(s.link)) // its callers may have waited before it was there
	go s.finish()
}

// givenUp ends the call for all when no caller waits for it any more.
func (b *batch) givenUp() {
	if t := b.turn.Load(); t != nil && b.open.Load() == 0 {
		t.Cancel(raysys.ErrCancelled)
	}
}

// finish ends the calls with their answers.
func (s *sent) finish() {
	t := s.turn.Load()
	n, err := s.by.typed.Answer(core.HookContext(t), s.link, s.calls)
	if err == nil && n != len(s.calls) {
		err = &raysys.TaskError{
			Task: core.IDOf(s.link), Function: t.Name(), Attempt: 1,
			Err: fmt.Errorf("the method was given %d arguments and returned %d answers: a method of grains.Batch returns one for each, in their order", len(s.calls), n),
		}
	}
	if err != nil {
		for _, c := range s.calls {
			c.fail(err)
		}
	}
	core.FutureOf(s.link).Release()
	t.End()
	s.by.mu.Lock()
	s.leaveLane()
	next := s.lane.next()
	s.by.mu.Unlock()
	next.leave()
}
