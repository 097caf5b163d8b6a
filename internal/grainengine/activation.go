package grainengine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/tally"
)

// activation is one grain in memory: its mailbox, its G and its PID.
type activation struct {
	mailbox
	kind    *boundKind
	key     string
	id      string // of the PID: kind/key$n
	state   any    // *G; nil before OnActivate and after OnDeactivate
	failed  error  // OnActivate's, for the calls that wait
	pool    *pool  // of a stateless worker
	used    atomic.Uint32
	counted turnCount               // by CountTurns
	turns                           // in progress
	tenure  *tenure                 // nil for a plain grain of a single process
	holding *holding                // nil for a kind that asks for no resources
	laters  atomic.Pointer[laters]  // made by the first call of a LaterMethod
	timers  atomic.Pointer[timers]  // made by the first timer
	parting atomic.Pointer[parting] // made by Unload and Move
}

// passivate asks an idle activation to go.
type passivate struct {
	force bool // asked by the grain itself
	ticks uint32
}

// newActivation makes an activation for the kind's table; spawn gives it its actor.
func newActivation(k *boundKind, key string, in core.Bundle) *activation {
	a := &activation{kind: k, key: key}
	a.turns.a = a
	if k.engine.unloaded.some.Load() {
		k.engine.unloaded.back(k, key)
	}
	if k.def.holds() || in.Group != "" {
		a.holding = &holding{a: a, bundle: in}
	}
	if k.engine.cfg.Cluster != nil && !k.def.Stateless || k.def.stores() {
		a.tenure = &tenure{a: a}
	}
	if k.def.Durable {
		a.tenure.durable = &durable{a: a}
	}
	a.id = k.def.name + "/" + key + "$" + strconv.FormatUint(k.engine.serial.Add(1), 36)
	a.mailbox.init(a)
	a.used.Store(k.ticks.Load())
	return a
}

// spawn gives the activation what its kind asks for, now or later, and then its actor.
func (a *activation) spawn() {
	switch h := a.holding; {
	case h == nil:
		a.start()
	case h.bundle.Group != "":
		a.holding.enter()
	default:
		a.kind.engine.cfg.Line.Push(a.kind.def.Need, h)
		a.kind.engine.dropWaiting() // Close and Drain look at the line after they set what Over reads
	}
}

// start gives the activation its actor. The mailbox may hold calls already; they run after OnActivate.
func (a *activation) start() {
	e := a.kind.engine
	e.spawnMu.Lock()
	defer e.spawnMu.Unlock()
	e.spawning = a
	if _, err := a.kind.root.SpawnNamed(a.kind.props, a.id); err != nil {
		// The id carries a serial number that is never reused.
		panic(fmt.Sprintf("raysys: spawn %s: %v", a.id, err))
	}
}

// post queues a message from the runtime itself, beyond the mailbox's bound.
func (a *activation) post(e *mail) {
	a.pushed.Add(1)
	a.put(e)
}

// accept queues c as m; false when the activation has closed this moment.
func (a *activation) accept(c *call, m *mail) (ok bool, err error) {
	ok, closed := a.reserve(a.kind.def.Mailbox)
	if ok && a.kind.def.later && a.laters.Load().keptCalls() > 0 && a.waits()+a.laters.Load().keptCalls() > a.kind.def.Mailbox {
		a.pushed.Add(^uint64(0))
		ok = false
	}
	switch {
	case ok:
		c.queueAt(a) // after reserve: upTo counts a call with a queue as one that has room in the mailbox
		a.put(m)
		a.admitReader(c)
		if a.tenure != nil {
			a.cameBack(c)
		}
		return true, nil
	case closed:
		if a.kind.engine.closed.Load() {
			return true, raysys.ErrClosed
		}
		return false, nil
	}
	err = overloaded(a.kind.def.Mailbox)
	if n := a.laters.Load().keptCalls(); n > 0 {
		err = fmt.Errorf("%w; the grain keeps %d of them, until it settles them", err, n)
	}
	return true, err
}

// context returns the context of a hook, which is a turn of its own on this activation.
func (a *activation) context(what string) (context.Context, *core.Turn) {
	e := a.kind.engine
	t := core.NewTurn(core.TurnSpec{
		Kind: core.TurnGrain, Name: a.kind.def.name + "/" + shown(a.key) + "." + what,
		ID: e.cfg.Hooks.ID().Child(e.hooks.Add(1)), Up: e.cfg.Hooks, Attempt: 1, Attached: a, Slot: a.holding.slot(),
	})
	return core.HookContext(t), t
}

// activate makes the G and prepares it.
func (a *activation) activate() {
	if a.holding.denied() {
		return
	}
	g := a.kind.def.make()
	if a.kind.def.stores() {
		if err := a.loadStates(g); err != nil {
			a.hookFailed("OnActivate", "", fmt.Errorf("%w: %w", ErrNotLoaded, err))
			return
		}
	}
	if act, ok := g.(activator); ok {
		if err := a.runHook("OnActivate", act.OnActivate); err != nil {
			return
		}
	}
	a.failed, a.state = nil, g
}

// deactivate ends the G.
func (a *activation) deactivate() {
	g := a.state
	if g == nil {
		return
	}
	a.waitInner()
	a.timers.Load().end()
	if d, ok := g.(deactivator); ok {
		_ = a.runHook("OnDeactivate", d.OnDeactivate)
	}
	if a.tenure != nil && a.tenure.durable != nil {
		a.tenure.durable.flush()
		a.tenure.durable.settled()
	}
	a.state = nil
	if a.tenure != nil {
		a.tenure.cells = nil // a turn that is still referred to keeps the activation, and need not keep its States
		if a.tenure.durable != nil {
			a.tenure.durable.entries = nil
		}
	}
}

// runHook runs a hook as a turn of its own and sees to its failure: an error, a panic or the end of its goroutine.
func (a *activation) runHook(name string, f func(context.Context) error) (err error) {
	ctx, t := a.context(name)
	a.hook.Store(t)
	normal := false
	defer func() {
		if !normal {
			if p := recover(); p != nil {
				job, work := t.Job(), a.kind.def.name+"/"+a.key+"."+name
				err = &raysys.TaskError{
					Task: t.ID(), Function: work, Node: job.Node, Attempt: 1, Err: &raysys.PanicError{Value: core.SoundPanic(p)}, Stack: debug.Stack(),
				}
				if job.Panicked != nil {
					job.Panicked(work, err)
				}
			} else {
				err = errGoexit
			}
		}
		a.hook.Store(nil)
		t.End()
		if err != nil {
			a.hookFailed(name, t.ID().String(), err)
		}
	}()
	if a.tenure == nil || a.tenure.durable == nil {
		err = core.Sound(f(ctx))
	} else if era, ok := a.tenure.durable.begin(); ok {
		err = a.tenure.durable.hookEnded(t, era, name == "OnDeactivate", core.Sound(f(ctx)))
	}
	normal = true
	return err
}

// hookFailed sees to the failure of a hook. id is that of its turn, where it had one.
func (a *activation) hookFailed(name, id string, err error) {
	switch {
	case name == "OnActivate":
		err = core.HandOverError(a.kind.engine.cfg.Hooks.Job(), err)
		failed := &failedActivation{a.kind.def.name, a.kind.def.name + "/" + shown(a.key), err}
		a.failed = failed
		countFailed(a, id, failed)
		// Calls in the mailbox fail with that. The message is queued behind them, so that the call after it finds a new
		// activation.
		a.post(&mail{msg: passivate{force: true}})
	default:
		reportUnseen(a, name, err)
	}
}

// reportUnseen reports what nobody waits for: the failure of a hook, or of a message that was kept.
func reportUnseen(a *activation, name string, err error) {
	if tell := a.kind.engine.cfg.Unseen; tell != nil {
		tell(a.kind.def.name+"/"+a.key+"."+name, err)
	}
}

// close takes the activation out of the kind's table; only its own turn calls it, after deactivate. Calls that came
// meanwhile move, in order, to a successor, which starts only now: there are never two activations. On a node of a
// cluster they may have to follow the grain to another node.
func (a *activation) close() {
	k := a.kind
	s := k.stripeOf(a.key)
	s.Lock()
	a.pushed.Or(closedBit)
	calls := a.drain()
	if a.tenure != nil && len(a.tenure.unserved) > 0 {
		calls = append(a.tenure.unserved, calls...)
	}
	if a.holding != nil && len(a.holding.unserved) > 0 {
		calls = append(a.holding.unserved, calls...)
	}
	in := a.holding.takenFrom()
	ended, calls := a.holding.orphans(calls)
	if a.holding.evictedBy() != nil && len(calls) > 0 {
		in = calls[0].bundle()
	}
	var next *activation
	var r *route
	left := false
	switch {
	case a.pool != nil:
	case s.activations[a.key] != a:
	case len(calls) > 0 && a.stays() && !k.engine.closed.Load():
		next = newActivation(k, a.key, in)
		if a.tenure != nil {
			next.tenure.token, next.tenure.wanted = a.tenure.token, a.tenure.wanted
		}
		for _, c := range calls {
			c.queueAt(next)
			// The call's own mail may still be linked in the old mailbox, so it gets another.
			next.pushed.Add(1)
			next.put(&mail{msg: c})
		}
		s.activations[a.key] = next
	default:
		delete(s.activations, a.key)
		left = true
		if a.tenure != nil && k.engine.cfg.Cluster != nil && !k.engine.closed.Load() {
			r = a.routeLocked(s, calls)
		}
	}
	s.Unlock()
	for _, c := range ended {
		c.Future.Fail(fmt.Errorf("%s/%s: %w", k.def.name, shown(a.key), a.holding.evictedBy()))
	}
	if r == nil {
		defer a.parting.Load().end()
	}
	switch {
	case next != nil:
		next.spawn()
	case r != nil:
		k.activationGone()
		r.leave(a)
	default:
		if left {
			defer k.activationGone()
		}
		for _, c := range calls {
			if v := c.inbound(); v != nil {
				v.refuse(graindir.Place{})
				continue
			}
			c.Future.Fail(fmt.Errorf("%s/%s: %w", k.def.name, a.key, raysys.ErrClosed))
		}
	}
}

// drain takes what is left in the closed mailbox, also from senders that reserved room before it closed and link their
// mail now.
func (a *activation) drain() (calls []*call) {
	for {
		msg, ok := a.pop()
		if !ok {
			if a.pushed.Load()&^closedBit <= a.popped.Load() {
				return calls
			}
			runtime.Gosched()
			continue
		}
		if c, ok := msg.(*call); ok {
			calls = append(calls, c)
		}
	}
}

// perform runs c as the activation's turn.
func (a *activation) perform(c *call) (panicked any) {
	if a.inner.Load() > 0 {
		a.waitInner()
	}
	if a.tenure != nil && !a.tenure.mayRun(c, false) {
		return nil
	}
	if a.state == nil && a.holding.evictedBy() == nil {
		a.failCall(c, a.failed)
		return nil
	}
	a.used.Store(a.kind.ticks.Load())
	a.current.Store(&c.Future)
	defer a.endTurn()
	if a.holding != nil && a.holding.refusesEvicted(c, false) {
		return nil
	}
	return c.do(a)
}

func (a *activation) endTurn() {
	if now := a.kind.ticks.Load(); a.used.Load() != now { // a long turn does not count as idle time
		a.used.Store(now)
	}
	a.current.Store(nil)
	if g := a.gate.Load(); g != nil {
		g.endMain()
	}
}

// loadStates reads all States of a new G at once.
func (a *activation) loadStates(g any) error {
	cells := make([]*cell, len(a.kind.def.states))
	for i, d := range a.kind.def.states {
		cells[i] = &cell{act: a, def: d}
		d.bindIn(g, cells[i])
	}
	a.tenure.cells, a.tenure.committedBy = nil, nil
	load := a.load
	if d := a.tenure.durable; d != nil {
		var err error
		if d.entries, err = bindMaps(a.kind.def, g, d.mayChange); err != nil {
			return err
		}
		load = d.restore
	}
	if err := load(cells); err != nil {
		return err
	}
	a.tenure.cells = cells
	return nil
}

// load reads cells from the store.
func (a *activation) load(cells []*cell) error {
	s := a.kind.engine.cfg.States
	if s == nil {
		return fmt.Errorf("load state of %s/%s: %w: this node was given no store for grains.State", a.kind.def.name, a.key, raysys.ErrNoRuntime)
	}
	names := make([]string, len(cells))
	for i, c := range cells {
		names[i] = c.def.name
	}
	records, err := wait(func(done func([]graindir.Record, error)) {
		s.Load(graindir.ID{Kind: a.kind.def.name, Key: a.key}, names, a.tenure.token, done)
	})
	if err == nil && len(records) != len(cells) {
		err = fmt.Errorf("the store answers with %d records for %d", len(records), len(cells))
	}
	if errors.Is(err, raysys.ErrMoved) {
		a.tenure.goStale()
	}
	if err == nil {
		err = a.tenure.fetchObjects(cells, records)
	}
	if err != nil {
		return fmt.Errorf("load state of %s/%s: %w", a.kind.def.name, a.key, err)
	}
	for i, c := range cells {
		if err := c.take(records[i]); err != nil {
			return fmt.Errorf("load state %s: %w", c.name(), err)
		}
	}
	return nil
}

// reload reads what a failed Write left unsure, before another turn sees it.
func (a *activation) reload() error {
	var cells []*cell
	for _, c := range a.tenure.cells {
		if c.unsure {
			cells = append(cells, c)
		}
	}
	if len(cells) == 0 {
		return nil
	}
	return a.load(cells)
}

// routeLocked replaces a by a route, in which its calls wait. The caller has locked the stripe.
func (a *activation) routeLocked(s *stripe, calls []*call) *route {
	k := a.kind
	r := &route{kind: k, key: a.key, bundle: a.holding.takenFrom(), state: routeReleasing, avoid: graindir.Place{NodeKey: k.engine.cfg.Cluster.Self(), Token: a.tenure.token}, moves: a.holding.followsBundle(), parting: a.parting.Load()}
	r.moves = r.moves || r.parting.moves()
	if a.tenure.stale.Load() {
		r.state = routeAsking
	}
	for _, c := range calls {
		if c.Future.Settled() {
			continue
		}
		if v := c.inbound(); v != nil {
			r.queue = append(r.queue, v)
		} else {
			r.queue = append(r.queue, k.outboundOf(a.key, c))
		}
	}
	s.addRoute(r)
	k.engine.releasing.Add(1)
	return r
}

// failCall fails a call that has no turn.
func (a *activation) failCall(c *call, err error) {
	if a.kind.def.Durable && repeated(c) {
		err = maybeDone(err)
	}
	if c.Future.Start() { // else Dropped counts it, as cancelled
		of := tallyOf(a.kind.engine, c.method)
		countWait(a.kind.engine, of, c, 1)
		count(of, c, tally.Error, err)
	}
	c.Future.Fail(err)
}

// repeat has the caller make the call again: it did not count.
func (a *activation) repeat(c *call) {
	if c == nil {
		return
	}
	if c.method.tick { // what its timer belongs to is gone
		c.Future.Cancel(errRepeated)
		return
	}
	if v := c.inbound(); v != nil {
		v.refuse(graindir.Place{})
		return
	}
	f := &c.Future
	last, ok := f.Again(f.TurnFor().Attempt()+1, 0)
	if !ok {
		return
	}
	last.Cancel(errRepeated)
	last.End()
	f.Forget() // what this attempt has put there: an answer is decoded into a place that is zero
	if !f.Unhold() {
		return
	}
	if a.kind.engine.cfg.Cluster == nil {
		if err := a.kind.deliverHere(a.key, c, &mail{msg: c}); err != nil {
			f.Fail(fmt.Errorf("call %s: %w", c.Name(), err))
		}
		return
	}
	o := a.kind.outboundOf(a.key, c)
	o.open = a.kind.def.Durable && repeated(c)
	if err := a.kind.send(a.key, c, o); err != nil {
		o.fail(fmt.Errorf("call %s: %w", c.Name(), err))
	}
}

// stays reports whether calls that came while the activation stopped may get another one on this node at once.
func (a *activation) stays() bool {
	return a.kind.engine.cfg.Cluster == nil || !a.holding.followsBundle() && a.parting.Load() == nil && a.holding.evictedBy() == nil && (a.tenure == nil || !a.tenure.stale.Load() && !a.kind.engine.draining.Load())
}

// warn tells the operator.
func (a *activation) warn(event, detail string) {
	if w := a.kind.engine.cfg.Warn; w != nil {
		w(event, a.kind.def.name+"/"+shown(a.key), detail)
	}
}

// Devices implements core.Holder.
func (a *activation) Devices() []string {
	if a.holding == nil {
		return nil
	}
	return a.kind.engine.cfg.Line.Devices(a.holding.hold.Load())
}

// stop ends an activation of an engine that closes. An idle one for whose end nothing is to run goes at once: with hundreds of
// thousands of them, a goroutine and four messages each took longer than a program has for its end.
func (a *activation) stop() {
	reads := a.busy.CompareAndSwap(false, true) // then this goroutine is the mailbox's reader
	if reads && a.endsUnheard() {
		a.kind.engine.cfg.Actors.ProcessRegistry.Remove(actor.NewPID(a.kind.engine.cfg.Actors.Address(), a.id))
		a.ended()
		return
	}
	a.post(&mail{msg: passivate{force: true}})
	if reads {
		a.kind.engine.cfg.Pool.Go(&a.mailbox)
	}
}

// endsUnheard reports whether neither the grain nor an actor hears of the activation's end, and nothing waits in it. Its reader asks.
func (a *activation) endsUnheard() bool {
	_, hears := a.state.(deactivator)
	durable := a.tenure != nil && a.tenure.durable != nil // it has calls to write
	return !hears && !durable && !a.watched && !a.suspended && a.pool == nil && a.inner.Load() == 0 && a.sysCount.Load() == 0 &&
		a.head.Load().next.Load() == nil
}

// explainTurn says in which turn the activation is, and for how long about; "" for none. calls wait beside those in its mailbox.
func (a *activation) explainTurn(calls int) (what string, since time.Duration, late bool) {
	e := a.kind.engine
	now := e.cfg.Now()
	t := a.turnNow(now)
	if t.of == nil {
		return "", 0, false
	}
	e.looks.mu.Lock()
	if s := e.looks.seen[a]; s != nil && s.turn == t.of {
		since = time.Duration(now - s.since)
	}
	e.looks.mu.Unlock()
	if what = "in " + t.name; t.late != "" {
		what += ", " + t.late
	}
	return fmt.Sprintf("%s, and %d messages are in its mailbox", what, calls+a.waits()), since, t.late != "" && (since > 0 || !t.ended)
}

// stacks returns those of the goroutines in a's turn: the one that reads its mailbox, by its address or that of its turns among the arguments, and what the
// methods on that stack have started. They are folded, the outermost function first, with what they wait for and their number.
func (a *activation) stacks(all []string) []string {
	count := map[string]int{}
	addrs := []string{fmt.Sprintf("(%#x", uintptr(unsafe.Pointer(a))), fmt.Sprintf("(%#x", uintptr(unsafe.Pointer(&a.turns)))}
	var own []string // the names on its stacks
	created := ""
	for _, g := range all {
		if slices.ContainsFunc(addrs, func(addr string) bool {
			_, rest, ok := strings.Cut(g, addr)
			return ok && strings.IndexAny(rest[:1], ",)?") == 0
		}) {
			folded, names := foldStack(g)
			count[folded]++
			own = append(own, names...)
			created, _, _ = strings.Cut(strings.TrimPrefix(g, "goroutine "), " ")
		}
	}
	for _, g := range all {
		_, by, ok := strings.Cut(g, "\ncreated by ")
		if name, in, _ := strings.Cut(by, " in goroutine "); ok && created != "" && slices.Contains(own, name) && strings.HasPrefix(in, created+"\n") {
			folded, _ := foldStack(g)
			count[folded]++
		}
	}
	var list []string
	for _, folded := range slices.Sorted(maps.Keys(count)) {
		list = append(list, fmt.Sprintf("%s %d", folded, count[folded]))
	}
	return list
}

// ended follows deactivate.
func (a *activation) ended() {
	a.timers.Load().end()
	a.laters.Load().abandonCalls("its activation has ended")
	stopSending(a)
	a.holding.giveBack()
	a.leave()
}

// leave takes the activation out of its pool, or out of the kind's table.
func (a *activation) leave() {
	if a.pool != nil {
		a.pool.leave(a)
		return
	}
	a.close()
}

// countPull is called when a worker is sent a pull. The caller has locked the pool.
func (a *activation) countPull() {
	if a.holding != nil {
		a.holding.pulls = true
	}
}

// moveFromSick is called when an activation has been given a call, maybe by what Line.Move does.
func (a *activation) moveFromSick(c *call) {
	e := a.kind.engine
	if a.holding == nil || a.holding.need().GPU == 0 || !e.cfg.Line.Ill() || a.kind.waitsFor(c) {
		return
	}
	e.cfg.Pool.Go(goroutines.Func(e.cfg.Line.Move))
}

// String names the grain, for what waits behind it.
func (a *activation) String() string { return "grain " + a.kind.def.name + "/" + shown(a.key) }

// namesKept is how many calls of which methods the activation keeps.
func (a *activation) namesKept() string {
	k := a.laters.Load()
	if k == nil {
		return ""
	}
	count, kept := map[string]int{}, map[string]*Later{} // one of each
	k.mu.Lock()
	for c, l := range k.open {
		if name := c.method.entry.Name; l.kept {
			count[name]++
			kept[name] = l
		}
	}
	k.mu.Unlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		one := fmt.Sprintf("%d of %s", count[name], name)
		if why := kept[name].because(); why != "" { // which may lock what a settling turn has locked
			one += " (" + why + ")"
		}
		names = append(names, one)
	}
	if len(names) == 0 {
		return ""
	}
	return "; it keeps calls that wait for Settle: " + strings.Join(names, ", ")
}

// waits is how many messages are in the mailbox.
func (a *activation) waits() int {
	return int(max(int64(a.pushed.Load()&^closedBit)-int64(a.popped.Load()), 0))
}

// ticksPerIdle is how many ticks of the idle clock make one idle period: an activation goes within a sixteenth after
// it. Each tick looks at all activations of the kind.
const ticksPerIdle = 16
