package grainengine

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/detour"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/ledger"
)

// local reports whether calls to key go to this node, as far as can be seen now.
func (k *boundKind) local(key string) bool {
	if k.def.Stateless {
		return k.engine.cfg.Hosts
	}
	a, _ := k.lookup(key)
	return a != nil
}

func (k *boundKind) stripeOf(key string) *stripe {
	return &k.table[maphash.String(k.engine.seed, key)%stripes]
}

// stripeOfBytes is stripeOf for a key on the wire.
func (k *boundKind) stripeOfBytes(key []byte) *stripe {
	return &k.table[maphash.Bytes(k.engine.seed, key)%stripes]
}

// deliverHere queues c as m at the grain of a node without a cluster.
func (k *boundKind) deliverHere(key string, c *call, m *mail) error {
	for {
		a, err := k.activation(key, c)
		if err != nil {
			return err
		}
		if ok, err := a.accept(c, m); ok {
			a.moveFromSick(c)
			return err
		}
		// It stopped this moment. Once close is done, the table has its successor or nothing.
	}
}

// activation finds the grain's activation or makes it for c. It fails where there is none, and the engine is closed or
// full.
func (k *boundKind) activation(key string, c *call) (*activation, error) {
	s := k.stripeOf(key)
	s.RLock()
	a := s.activations[key]
	s.RUnlock()
	if a != nil {
		return a, nil
	}
	s.Lock()
	if a = s.activations[key]; a != nil {
		s.Unlock()
		return a, nil
	}
	if err := fullNow(k.engine); err != nil {
		s.Unlock()
		return nil, err
	}
	if s.activations == nil {
		s.activations = map[string]*activation{}
	}
	// Close sets closed and then looks at every stripe, so it finds what is entered here.
	if k.engine.closed.Load() {
		s.Unlock()
		return nil, raysys.ErrClosed
	}
	a = newActivation(k, key, c.bundle())
	s.activations[key] = a
	first := k.live.Add(1) == 1
	s.Unlock()
	if first {
		k.arm()
	}
	a.spawn()
	return a, nil
}

// activationGone counts an activation that is gone.
func (k *boundKind) activationGone() {
	k.live.Add(-1)
	k.engine.pokeDrain()
	if k.engine.closed.Load() {
		select {
		case k.engine.poke <- struct{}{}:
		default:
		}
	}
}

// never says why no state of this node has what the kind asks for.
func (k *boundKind) never() error {
	if !k.def.holds() {
		return nil
	}
	if s := k.engine.cfg.Line.Ever(k.def.Need); !s.Empty() {
		return fmt.Errorf("%w: grain %s asks for more than the node has (%w): ask for less by grains.Holds, or raise system.Config.Resources",
			raysys.ErrNoCapacity, k.def.name, s.Err())
	}
	return nil
}

// goesElsewhere reports whether the node refuses a grain that was placed here: it can never have it, or not while its devices are
// sick, or would have it wait while another node need not.
func (k *boundKind) goesElsewhere(id graindir.ID, w graindir.Wanted) bool {
	if !k.def.holds() {
		return false
	}
	line := k.engine.cfg.Line
	return k.unfit != nil || !line.Could(k.def.Need) || !w.Bound && !line.HasNow(k.def.Need) && !k.engine.cfg.Cluster.Elsewhere(id, w, true).IsZero()
}

// arm starts the kind's idle clock. It runs only while there are activations, so a node without grains has no timer.
func (k *boundKind) arm() {
	k.engine.lookAtTurns(lookEvery)
	k.timer.Lock()
	defer k.timer.Unlock()
	if k.armed == nil && !k.engine.closed.Load() && !k.def.Keep {
		k.armed = time.AfterFunc(k.def.Idle/ticksPerIdle, k.tick)
	}
}

func (k *boundKind) tick() {
	k.timer.Lock()
	k.armed = nil
	k.timer.Unlock()
	now := k.ticks.Add(1)
	for _, a := range k.activations() {
		kept := a.laters.Load().keptCalls() + messagesLeft(a)
		if used := a.used.Load(); now-used > ticksPerIdle && !a.busy.Load() && kept == 0 {
			a.post(&mail{msg: passivate{ticks: used}})
		}
	}
	if k.live.Load() > 0 {
		k.arm()
	}
}

// activations lists the activations of the kind. It copies stripe by stripe, so that no lock is taken for long.
func (k *boundKind) activations() (all []*activation) {
	eachActivation(k, func(a *activation) { all = append(all, a) })
	k.pools.Range(func(_, v any) bool {
		p := v.(*pool)
		p.mu.Lock()
		for _, a := range p.all {
			all = append(all, a)
		}
		p.mu.Unlock()
		return true
	})
	return all
}

// eachActivation shows the activations of the table, with a stripe locked: f must not call methods of k.
func eachActivation(k *boundKind, f func(*activation)) {
	for i := range k.table {
		s := &k.table[i]
		s.RLock()
		for _, a := range s.activations {
			f(a)
		}
		s.RUnlock()
	}
}

// stop ends the idle clock and asks every activation to stop.
func (k *boundKind) stop() {
	k.timer.Lock()
	if k.armed != nil {
		k.armed.Stop()
		k.armed = nil
	}
	k.timer.Unlock()
	for _, a := range k.activations() {
		a.stop()
	}
}

// keyOf returns the string of a key on the wire and the activation that has it. Where there is one, its string is used
// again.
func (k *boundKind) keyOf(b []byte) (string, *activation) {
	s := k.stripeOfBytes(b)
	s.RLock()
	a := s.activations[string(b)]
	s.RUnlock()
	if a != nil {
		return a.key, a
	}
	return string(b), nil
}

// replied notes that a call of this node to a durable grain has its reply. It is called before the call settles: its turn may
// end by that.
func (k *boundKind) replied(c *call, key string, at *peer) {
	if k.def.Durable && !c.isReadOnly() && c.named() == "" {
		if c.byDriver() {
			k.engine.open.leave(c.Future.RunID())
		}
		f := &forgetting{at: at, kind: k, by: c.facts().entry, key: key, call: c.Future.RunID()}
		c.Future.Up().WhenFinal(f)
	}
}

// forget drops the reply to a call, if the grain is active here; the zero id ends the answer to a question.
func (k *boundKind) forget(key string, call raysys.TaskID) {
	a, _ := k.lookup(key)
	switch {
	case a == nil, a.tenure == nil, a.tenure.durable == nil:
	case call.IsZero():
		a.tenure.durable.answered()
	default:
		a.tenure.durable.release(call)
	}
}

// outboundOf returns the outbound part of a call that must leave, made now where its record has none.
func (k *boundKind) outboundOf(key string, c *call) *outboundCall {
	if o := c.outbound(); o != nil {
		return o
	}
	o := &outboundCall{call: c, kind: k, key: key, side: true, open: k.def.Durable && repeated(c)}
	k.engine.forwarded.Store(&c.Future, o)
	return o
}

// nameOf is kind/key.method.
func (k *boundKind) nameOf(key string, method *core.Entry) string {
	return k.def.name + "/" + shown(key) + method.Name[len(k.def.name):]
}

func (k *boundKind) pool(key string) *pool {
	if p, ok := k.pools.Load(key); ok {
		return p.(*pool)
	}
	p, _ := k.pools.LoadOrStore(key, &pool{kind: k, key: key, all: map[string]*activation{}})
	return p.(*pool)
}

// pooled gives c to the workers of the key.
func (k *boundKind) pooled(key string, c *call) error {
	for {
		if err := k.pool(key).deliver(c); err != errGone {
			return err
		}
	}
}

// seeks reports whether calls of the kind go to where there is room for a worker.
func (k *boundKind) seeks() bool { return k.def.Stateless && k.def.holds() }

// workersElsewhere reports whether a call of a stateless kind that is here had better go to another node, and to which, if one is known to
// have room: here no worker is free, and none can be had. waits says that it waits here, and idle grains elsewhere are to make room.
func (k *boundKind) workersElsewhere(key string, waits bool) (to graindir.Place, leaves bool) {
	switch line := k.engine.cfg.Line; {
	case k.unfit != nil:
		return graindir.Place{}, true
	case !k.def.holds():
		return graindir.Place{}, false
	case !line.Could(k.def.Need):
		return graindir.Place{}, true
	case k.hasWorker(key):
		return graindir.Place{}, false
	}
	to = k.engine.cfg.Cluster.Elsewhere(graindir.ID{Kind: k.def.name, Key: key}, k.def.wanted(), waits)
	return to, !to.IsZero()
}

// hasWorker reports whether a worker of the key is idle, or another can have what the kind holds.
func (k *boundKind) hasWorker(key string) bool {
	n := 0
	if v, ok := k.pools.Load(key); ok {
		p := v.(*pool)
		p.mu.Lock()
		idle := len(p.idle)
		n = len(p.all)
		p.mu.Unlock()
		if idle > 0 {
			return true
		}
	}
	return n < k.workers && k.engine.cfg.Line.HasNow(k.def.Need)
}

// lookup finds the activation or the route of a key.
func (k *boundKind) lookup(key string) (*activation, *route) {
	s := k.stripeOf(key)
	s.RLock()
	defer s.RUnlock()
	return s.activations[key], s.routes[key]
}

// routeFor makes the route of a key that has none, and no activation.
func (k *boundKind) routeFor(key string) (a *activation, r *route) {
	s := k.stripeOf(key)
	s.Lock()
	defer s.Unlock()
	if a, r = s.activations[key], s.routes[key]; a != nil || r != nil {
		return a, r
	}
	r = &route{kind: k, key: key}
	if k.def.Stateless {
		r.rotation = &rotation{}
	}
	s.addRoute(r)
	return nil, r
}

// send queues a call of this node at its grain, or sends it to the grain's node. o is its outbound part if it has one.
// On an error the call was not queued.
func (k *boundKind) send(key string, c *call, o *outboundCall) error {
	for {
		a, r := k.lookup(key)
		if a == nil && r == nil {
			if k.engine.closed.Load() {
				return raysys.ErrClosed
			}
			a, r = k.routeFor(key)
		}
		if a != nil {
			m := &c.mail
			if o != nil {
				m = &mail{msg: c} // the call's own may still be linked in the mailbox of an activation that is gone
			}
			ok, err := a.accept(c, m)
			if ok && err == nil && o != nil {
				o.done()
			}
			if ok {
				return err
			}
			continue
		}
		if o == nil {
			o = k.outboundOf(key, c)
		}
		if held, err := o.hold(); held || err != nil {
			return err
		}
		if ok, err := r.accept(o); ok {
			return err
		}
	}
}

// movedOn closes the route of a key whose grain a call did not find at from. to is where the grain is, if that is
// known.
func (k *boundKind) movedOn(key string, from, to graindir.Place, tries int) {
	_, r := k.lookup(key)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rotation != nil {
		r.rotation.drop(from.Node, from.Incarnation)
	}
	if (r.state != routeOpen || r.place != from) && !(r.state == routeFresh && k.seeks()) {
		return // another call found out before, and asked
	}
	if r.hint = (graindir.Place{}); to.Token.Newer(from.Token) {
		r.hint, r.left, r.leftAt = to, r.peer, k.engine.cfg.Now()
	}
	r.state, r.peer, r.avoid, r.ask = routeFresh, nil, from, graindir.Token{}
	r.tries = max(r.tries, tries-1)
}

// forgetPeer closes the routes to a peer that is gone.
func (k *boundKind) forgetPeer(p *peer) {
	for i := range k.table {
		s := &k.table[i]
		s.Lock()
		for _, r := range s.routes {
			r.mu.Lock()
			if r.rotation != nil {
				r.rotation.drop(p.Node(), p.Incarnation())
			}
			if r.state == routeOpen && r.peer == p {
				// The place becomes avoid: the next question says that it could not be reached.
				r.state, r.peer, r.avoid, r.ask = routeFresh, nil, r.place, graindir.Token{}
			}
			r.mu.Unlock()
		}
		s.Unlock()
	}
}

// waitsFor reports whether a call waits for resources that no node has now.
func (k *boundKind) waitsFor(c *call) bool {
	return k.def.Waits || k.engine.cfg.WaitForResources || c.facts().waits
}

// soughtCall is sought for a call of a stateless kind.
func (k *boundKind) soughtCall(c *call) {
	if e := k.engine; k.def.Need.GPU > 0 && e.cfg.Line.Ill() && !k.waitsFor(c) {
		e.cfg.Pool.Go(goroutines.Func(e.MoveCalls))
	}
}

func (k *boundKind) explain(key string) (list []Waiting) {
	e := k.engine
	want := k.def.wanted()
	add := func(w raysys.Waiting) {
		w.Asks, w.Labels = raysys.Resources(want.Needs), want.Labels
		list = append(list, Waiting{ID: graindir.ID{Kind: k.def.name, Key: key}, Waiting: w, Want: want})
	}
	a, r := k.lookup(key)
	active := []*activation{}
	if a != nil {
		active = append(active, a)
	}
	calls := 0
	if p, ok := k.pools.Load(key); ok {
		active, calls = p.(*pool).members()
	}
	for _, a := range active {
		if a.holding != nil && a.holding.hold.Load() == nil {
			if a.tenure != nil && a.tenure.wanted != nil {
				want = *a.tenure.wanted
			}
			for _, w := range e.cfg.Line.Waiting(func(w ledger.Work) bool { return w == a.holding }) {
				add(w.Explain(e.cfg.Now()))
			}
			continue
		}
		w := raysys.Waiting{Stage: core.StageRunning, For: fmt.Sprintf("nothing: it is active, and %d messages are in its mailbox", calls+a.waits())}
		if turn, since, late := a.explainTurn(calls); late {
			w.For, w.Waited, w.Stacks = "its turn: it is "+turn, since, a.stacks(GoroutineStacks())
		} else if since > 0 {
			w.For, w.Waited = "nothing: it is "+turn, since
		}
		w.For += a.namesKept()
		add(w)
	}
	if n := e.held.count(k, key); n > 0 {
		add(raysys.Waiting{Stage: core.StageStore, For: fmt.Sprintf("the store: %d calls refer to what must be recorded before another node may know it", n)})
	}
	if r != nil {
		w, named := r.explain()
		if want = named; w.Stage != "" {
			add(w)
		}
	}
	return list
}

// boundKind is a kind on this node: its activation table, its actor's properties and its idle clock.
type boundKind struct {
	engine    *Engine
	def       *kind
	props     *actor.Props
	root      *actor.RootContext
	detour    *detour.Detour // what its calls pass; nil for nothing
	ticks     atomic.Uint32  // advances with each tick of the idle clock
	unfit     error          // why no state of this node has what the kind asks for
	workers   int            // activations per key of a stateless kind
	live      atomic.Int64   // activations
	failed    failedWarns
	earlyKeys atomic.Int64 // keys of calls that were forgotten before their time
	vainSends atomic.Int64 // tries to deliver a message that failed
	timer     sync.Mutex   // guards armed
	armed     *time.Timer
	table     [stripes]stripe
	pools     sync.Map // key -> *pool, of stateless workers
}

type stripe struct {
	sync.RWMutex
	activations map[string]*activation
	routes      map[string]*route // of grains that are elsewhere
}

// addRoute enters r, for which it forgets another when there are too many. The caller has locked the stripe.
func (s *stripe) addRoute(r *route) {
	if s.routes == nil {
		s.routes = map[string]*route{}
	}
	if len(s.routes) >= keptRoutes {
		looked := 0
		for key, old := range s.routes { // in random order
			if old.dropIdle() {
				delete(s.routes, key)
				break
			}
			if looked++; looked == 8 {
				break
			}
		}
	}
	s.routes[r.key] = r
}
