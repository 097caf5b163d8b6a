package grainengine

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/detour"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/tally"
	"github.com/raysys/raysys/internal/wire"
)

// Config is what an Engine is given.
type Config struct {
	Actors *actor.ActorSystem
	Pool   *goroutines.Pool // runs mailboxes
	Table  *raysys.Table
	Detour *detour.Detour               // what calls pass; nil for nothing
	CPUs   int                          // of the node
	Hooks  *core.Turn                   // above the turns of OnActivate and OnDeactivate
	Now    func() int64                 // the runtime's clock, exact
	Rough  func() int64                 // the same, up to a millisecond late
	Unseen func(work string, err error) // called with a hook's error; nil to ignore

	// Tally counts what runs; nil for one of the engine's own.
	Tally *tally.Tally

	// Warn is called with what the operator should know of a grain; nil to ignore.
	Warn func(event, grain, detail string)

	Cluster graindir.Cluster // nil in a single process
	States  graindir.States  // keeps grains.State; nil where no kind has one
	Line    *ledger.Line     // what the node has for kinds that ask for resources; nil where none does
	// Bundle returns the node that has a bundle with these resources; of several any. An error that matches raysys.ErrOverloaded
	// says that there is none yet.
	Bundle func(graindir.ID, core.Bundle, core.Resources) (core.NodeKey, error)
	// RoomInGroup reports whether a bundle of another node has room for a grain that waits here and may be in any of its group, and takes it
	// to go there.
	RoomInGroup func(graindir.ID, ledger.Need) bool
	// Conditions returns the conditions for the node of a grain with the nodes that they mean. Where known is false it calls again,
	// soon: nothing is known yet. Answers from before since do not count. On a node of a cluster only.
	Conditions func(list []core.Condition, of core.GrainName, since int64, again func()) (nodes []core.NodeCondition, known bool, err error)
	Retainer   graindir.Retainer // retains what references in a State refer to; nil where there is no object store
	// WaitForResources has all calls wait for a node with what no node has, as raysys.WaitForResources.
	WaitForResources bool
	// Hosts lets a node of a cluster run stateless workers. Which nodes named grains live on is the Cluster's choice.
	Hosts bool
}

// Engine holds the activations of one node and delivers calls to them.
type Engine struct {
	cfg    Config
	seed   maphash.Seed
	serial atomic.Uint64 // names activations
	hooks  atomic.Uint64 // numbers the turns of hooks
	closed atomic.Bool
	poke   chan struct{} // capacity 1: an activation went while closing
	kinds  sync.Map      // *kind -> *boundKind

	// On a node of a cluster:
	peers     sync.Map // wire.Peer -> *peer
	forwarded sync.Map // *core.Future -> *outboundCall, of calls whose record has none
	held      heldCalls
	draining  atomic.Bool
	drained   chan struct{} // capacity 1: an activation or placement went while draining
	holders   sync.Map      // *activation that holds resources -> nil
	rooms     sync.Mutex    // guards what MakeRoom notes in these
	moving    sync.Mutex    // of MoveCalls
	pooled    atomic.Int64  // calls that wait for workers that hold resources
	releasing atomic.Int64  // placements that are being removed
	nodeless  sync.Map      // *route -> Nodeless
	entering  sync.Map      // *activation that waits for its bundle -> nil
	forgets   forgets
	open      openCalls
	looks     turnLooks
	unloaded  unloadedGrains
	waker     func() *core.Turn // that calls grains which stand where they have moved

	spawnMu  sync.Mutex // guards spawning, by which protoactor gets the mailbox of the one activation that is being spawned
	spawning *activation
}

// NewEngine makes the engine of one node. It starts nothing.
func NewEngine(cfg Config) *Engine {
	if cfg.Tally == nil {
		cfg.Tally = &tally.Tally{}
	}
	e := &Engine{cfg: cfg, seed: maphash.MakeSeed(), poke: make(chan struct{}, 1), drained: make(chan struct{}, 1)}
	e.waker = sync.OnceValue(func() *core.Turn {
		return core.NewRoot(cfg.Hooks.Job(), context.Background(), cfg.Hooks, cfg.Hooks.ID().Child(e.hooks.Add(1)))
	})
	return e
}

const stripes = 64

func (e *Engine) bind(def *kind) *boundKind {
	// Nearly every process has one engine, so a kind remembers where it was bound last.
	if k := def.bound.Load(); k != nil && k.engine == e {
		return k
	}
	if k, ok := e.kinds.Load(def); ok {
		def.bound.Store(k.(*boundKind))
		return k.(*boundKind)
	}
	k := &boundKind{engine: e, def: def, workers: cmp.Or(def.Workers, e.cfg.CPUs)}
	k.detour = e.cfg.Detour.OfKind(def.has, !def.Unfiltered, def.Filters)
	if k.detour.Faked() {
		k.def = def.faked()
	}
	k.unfit = k.never()
	host := &kindActor{k}
	k.props = actor.PropsFromProducer(func() actor.Actor { return host },
		actor.WithMailbox(func() actor.Mailbox { return &e.spawning.mailbox }))
	k.root = e.cfg.Actors.Root.Copy().WithGuardian(supervision(def.OnPanic))
	got, _ := e.kinds.LoadOrStore(def, k)
	return got.(*boundKind)
}

// deliver queues c at the grain, activating it if need be.
func (e *Engine) deliver(def *kind, key string, c *call) error {
	if !def.Durable || !c.byDriver() {
		return e.queue(def, key, c)
	}
	e.open.enter(c.Future.RunID(), &c.Future, e.cfg.Rough())
	err := e.queue(def, key, c)
	if err != nil {
		e.open.leave(c.Future.RunID())
	}
	return err
}

func (e *Engine) queue(def *kind, key string, c *call) error {
	k := e.bind(def)
	switch {
	case e.cfg.Cluster != nil && def.Stateless && e.cfg.Hosts:
		to, leaves := k.workersElsewhere(key, false)
		if !leaves {
			return k.pooled(key, c)
		}
		o := k.outboundOf(key, c)
		o.to = &to.NodeKey
		return k.send(key, c, o)
	case e.cfg.Cluster != nil:
		return k.send(key, c, c.outbound())
	case k.unfit != nil:
		return k.unfit
	case def.Stateless:
		err := k.pooled(key, c)
		k.soughtCall(c)
		return err
	}
	return k.deliverHere(key, c, &c.mail)
}

// Activations returns how many grains of the kind are in memory.
func (e *Engine) Activations(kind string) int {
	n := int64(0)
	e.kinds.Range(func(_, v any) bool {
		if k := v.(*boundKind); k.def.name == kind {
			n += k.live.Load()
		}
		return true
	})
	return int(n)
}

// PID returns the address of the grain's activation on this node, nil when it has none.
func (e *Engine) PID(id graindir.ID) *actor.PID {
	entry := e.cfg.Table.Lookup("grain", id.Kind)
	if entry == nil {
		return nil
	}
	def, ok := entry.Impl.(*kind)
	if !ok || def.Stateless {
		return nil
	}
	a, _ := e.bind(def).lookup(id.Key)
	if a == nil {
		return nil
	}
	return actor.NewPID(e.cfg.Actors.Address(), a.id)
}

// Kinds returns how many activations of each kind are in memory.
func (e *Engine) Kinds() map[string]int {
	m := map[string]int{}
	e.kinds.Range(func(_, v any) bool {
		if k := v.(*boundKind); k.live.Load() > 0 {
			m[k.def.name] += int(k.live.Load())
		}
		return true
	})
	return m
}

// Close stops every activation, OnDeactivate included, and waits for that or for ctx. On a node of a cluster the
// placements stay, and end with the node's incarnation: Drain before Close moves the grains.
func (e *Engine) Close(ctx context.Context) error {
	e.closed.Store(true)
	if e.cfg.Cluster != nil {
		e.closeRoutes()
	}
	e.kinds.Range(func(_, v any) bool {
		v.(*boundKind).stop()
		return true
	})
	e.dropWaiting()
	e.stopLooks()
	for {
		left := e.Live()
		if left == 0 {
			return nil
		}
		select {
		case <-e.poke:
		case <-ctx.Done():
			what, busy := "are still in a turn", e.Busy(maxNamed)
			if len(busy) == 0 {
				what = "wait to be deactivated"
			}
			return fmt.Errorf("close: %d grains %s%s: %w", left, what, named(busy), context.Cause(ctx))
		}
	}
}

// Live returns how many activations are in memory.
func (e *Engine) Live() (n int64) {
	e.kinds.Range(func(_, v any) bool {
		n += v.(*boundKind).live.Load()
		return true
	})
	return n
}

// dropEntering has the activations that wait for their bundle, and need not any more, go on without.
func (e *Engine) dropEntering() {
	e.entering.Range(func(k, _ any) bool {
		if a := k.(*activation); a.holding.Over() {
			if _, waits := e.entering.LoadAndDelete(a); waits {
				a.holding.Grant(nil)
			}
		}
		return true
	})
}

// Leaves reports whether c is a call of this node to a grain that is not here, as far as is known.
func (e *Engine) Leaves(c *core.Future) bool { return e.outboundOf(c) != nil }

func (e *Engine) outboundOf(c *core.Future) *outboundCall {
	t := callOf(c)
	if t == nil {
		return nil
	}
	if o := t.outbound(); o != nil {
		return o
	}
	if v, ok := e.forwarded.Load(c); ok {
		return v.(*outboundCall)
	}
	return nil
}

// Away returns the node that has a call of this node, and the number of the call there.
func (e *Engine) Away(c *core.Future) (p wire.Peer, number uint64, ok bool) {
	o := e.outboundOf(c)
	if o == nil {
		return nil, 0, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.peer == nil {
		return nil, 0, false
	}
	return o.peer.Peer, o.slot, true
}

// Inbound returns the call that p has here under its number, nil when it has none.
func (e *Engine) Inbound(wp wire.Peer, number uint64) *core.Future {
	p := e.peer(wp)
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if v := p.inboundLocked(number); v != nil {
		return &v.call.Future
	}
	return nil
}

// dropWaiting has the activations that wait, and need not any more, go on without.
func (e *Engine) dropWaiting() {
	e.dropEntering()
	if e.cfg.Line == nil || e.cfg.Line.Idle() {
		return
	}
	for _, w := range e.cfg.Line.Remove(func(w ledger.Work) bool {
		h, ok := w.(*holding)
		return ok && h.a.kind.engine == e && h.Over()
	}) {
		w.Grant(nil)
	}
}

// Short is called when work waits for resources, or a device is sick: activations that hold those go once they are idle.
func (e *Engine) Short() {
	e.holders.Range(func(k, _ any) bool {
		k.(*activation).holding.askEarly()
		return true
	})
}

// MakeRoom is called when work that needs this waits at other nodes, or a placement group does, again and again while it does.
// Activations that have been idle for idleFor go, where what they hold is what is missing here, unless their kind says Keep: for all of
// the needs or none, or else for as many as can be.
func (e *Engine) MakeRoom(needs []ledger.Need, all bool) {
	e.rooms.Lock()
	defer e.rooms.Unlock()
	now := e.cfg.Now()
	idle := map[*ledger.Hold]*activation{}
	e.holders.Range(func(k, _ any) bool {
		a := k.(*activation)
		h, calls := a.holding, a.popped.Load()
		switch hold := h.hold.Load(); {
		case hold == nil || a.kind.def.Keep:
		case a.busy.Load() || a.inner.Load() > 0 || a.laters.Load().keptCalls()+messagesLeft(a) > 0 || h.idle == 0 || h.calls != calls:
			h.calls, h.idle = calls, max(now, 1)
		case now-h.idle >= int64(idleFor):
			idle[hold] = a
		}
		return true
	})
	if len(idle) == 0 {
		return
	}
	for _, hold := range e.cfg.Line.Room(needs, all, slices.Collect(maps.Keys(idle))) {
		h := idle[hold].holding
		h.gives.Store(true)
		if h.asked.CompareAndSwap(false, true) {
			idle[hold].post(&mail{msg: early{}})
		}
	}
}

func (e *Engine) forgetSoon() {
	l := &e.forgets
	l.mu.Lock()
	soon := l.soon
	l.soon, l.armed = nil, false
	l.mu.Unlock()
	e.cfg.Pool.Go(forgetSet{soon})
}

// PeerUp adds a node that this one may call and that may call it. Each incarnation of a node is a Peer of its
// own. It comes before any frame of the peer, and before Cluster.Peer returns it.
func (e *Engine) PeerUp(p wire.Peer) {
	e.peers.LoadOrStore(p, &peer{Peer: p, engine: e})
}

// PeerDown removes a peer that is gone, or to which there is no way; cause says why. Calls that were sent and not
// answered are repeated where their method is Idempotent and else fail with raysys.ErrOutcomeUnknown (rule C8). Calls
// that did not leave follow their grain. No frame of the peer may be handed over after it, and the peer's Send fails.
func (e *Engine) PeerDown(wp wire.Peer, cause error) {
	v, ok := e.peers.LoadAndDelete(wp)
	if !ok {
		return
	}
	p := v.(*peer)
	p.gone.Store(true)
	e.kinds.Range(func(_, k any) bool {
		k.(*boundKind).forgetPeer(p)
		return true
	})
	for _, o := range p.sent.Drain() {
		o.peerLost(p, cause)
	}
	p.dropInbound(cause)
}

// peer returns what PeerUp made of p; nil when p is nil or gone.
func (e *Engine) peer(p wire.Peer) *peer {
	if p == nil {
		return nil
	}
	if v, ok := e.peers.Load(p); ok {
		return v.(*peer)
	}
	return nil
}

// Receive handles a frame of kind wire.KindCall, KindCallResult, KindCallCancel, KindCallForget or KindCallAsk, or a list of calls or results.
// Frames of one class come in the order they were sent. It does not block and keeps nothing of frame. An error means
// that the peer breaks the rules: the link is to be closed.
func (e *Engine) Receive(wp wire.Peer, kind wire.Kind, frame []byte) error {
	p := e.peer(wp)
	if p == nil {
		return nil // PeerDown came this moment
	}
	var err error
	switch kind {
	case wire.KindCalls:
		err = p.calledAll(frame)
	case wire.KindCallResults:
		p.answers.Add(1)
		err = p.answeredAll(frame)
		p.answers.Add(-1)
	default:
		r := wire.NewReader(frame)
		switch kind {
		case wire.KindCall:
			err = p.called(&r)
		case wire.KindCallResult:
			p.answers.Add(1)
			err = p.answered(&r)
			p.answers.Add(-1)
		case wire.KindCallCancel:
			err = p.cancelled(&r)
		case wire.KindCallForget:
			err = p.forgotten(&r)
		case wire.KindCallAsk:
			err = p.askedOpen(&r)
		default:
			err = fmt.Errorf("%w: kind %d is not of grains", wire.ErrCorrupt, kind)
		}
	}
	if err != nil {
		return fmt.Errorf("grain frame of kind %d from %s: %w", kind, wp.Node(), err)
	}
	return nil
}

// CallsWait reports whether MoveCalls has something to look at.
func (e *Engine) CallsWait() bool { return e.pooled.Load() > 0 }

// MoveCalls has calls that wait here for workers that hold resources go to nodes that have room for those now, the oldest of each key
// first. On a node without others those fail whose devices are sick. It is called when what is known of the nodes has changed, and at each tick. Their workers keep their place in the line while
// calls are left for them.
func (e *Engine) MoveCalls() {
	if !e.CallsWait() || e.closed.Load() {
		return
	}
	e.moving.Lock() // a call that one goroutine has looked at, and not yet taken out, would be seen off twice
	defer e.moving.Unlock()
	e.kinds.Range(func(_, v any) bool {
		if k := v.(*boundKind); k.seeks() {
			k.pools.Range(func(_, p any) bool {
				if e.cfg.Cluster != nil {
					p.(*pool).move()
				} else {
					p.(*pool).endSick()
				}
				return true
			})
		}
		return true
	})
}

func (e *Engine) isSelf(p graindir.Place) bool {
	return p.NodeKey == e.cfg.Cluster.Self()
}

// Nodeless lists them.
func (e *Engine) Nodeless() (list []Nodeless) {
	e.nodeless.Range(func(_, v any) bool {
		list = append(list, v.(Nodeless))
		return true
	})
	return list
}

// Block is called by the runtime before a grain's turn parks, Unblock after.
func (e *Engine) Block(t *core.Turn) {
	if a, ok := t.Attached().(*activation); ok && a.inTurn() && t.Kind() == core.TurnGrain {
		a.openGate(t)
	}
}

// Unblock is called on the goroutine of the turn when its wait is over.
func (e *Engine) Unblock(t *core.Turn) {
	if a, ok := t.Attached().(*activation); ok && a.inTurn() && t.Kind() == core.TurnGrain {
		a.shutGate(t)
	}
}

// ExplainWaiting says where the grain of a kind/key, or its calls, are on this node.
func (e *Engine) ExplainWaiting(name string) (list []Waiting) {
	e.kinds.Range(func(_, v any) bool {
		k := v.(*boundKind)
		if key, ok := strings.CutPrefix(name, k.def.name+"/"); ok {
			list = append(list, k.explain(key)...)
		}
		return true
	})
	return list
}
