package grainengine

import (
	"cmp"
	"context"
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
	"github.com/raysys/raysys/internal/tally"
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

	spawnMu  sync.Mutex // guards spawning, by which protoactor gets the mailbox of the one activation that is being spawned
	spawning *activation
}

// NewEngine makes the engine of one node. It starts nothing.
func NewEngine(cfg Config) *Engine {
	if cfg.Tally == nil {
		cfg.Tally = &tally.Tally{}
	}
	return &Engine{cfg: cfg, seed: maphash.MakeSeed(), poke: make(chan struct{}, 1), drained: make(chan struct{}, 1)}
}

const stripes = 64

// boundKind is a kind on this node: its activation table, its actor's properties and its idle clock.
type boundKind struct {
	engine  *Engine
	def     *kind
	props   *actor.Props
	root    *actor.RootContext
	detour  *detour.Detour // what its calls pass; nil for nothing
	ticks   atomic.Uint32  // advances with each tick of the idle clock
	unfit   error          // why no state of this node has what the kind asks for
	workers int            // activations per key of a stateless kind
	live    atomic.Int64   // activations
	timer   sync.Mutex     // guards armed
	armed   *time.Timer
	table   [stripes]stripe
	pools   sync.Map // key -> *pool, of stateless workers
}

type stripe struct {
	sync.RWMutex
	activations map[string]*activation
	routes      map[string]*route // of grains that are elsewhere
}

func (k *boundKind) stripeOf(key string) *stripe {
	return &k.table[maphash.String(k.engine.seed, key)%stripes]
}

// stripeOfBytes is stripeOf for a key on the wire.
func (k *boundKind) stripeOfBytes(key []byte) *stripe {
	return &k.table[maphash.Bytes(k.engine.seed, key)%stripes]
}

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

// deliverHere queues c as m at the grain of a node without a cluster.
func (k *boundKind) deliverHere(key string, c *call, m *mail) error {
	for {
		a := k.activation(key, c)
		if a == nil {
			return raysys.ErrClosed
		}
		if ok, err := a.accept(c, m); ok {
			a.sought(c)
			return err
		}
		// It stopped this moment. Once close is done, the table has its successor or nothing.
	}
}

// activation finds the grain's activation or makes it for c; nil once the engine is closed and there is none.
func (k *boundKind) activation(key string, c *call) *activation {
	s := k.stripeOf(key)
	s.RLock()
	a := s.activations[key]
	s.RUnlock()
	if a != nil {
		return a
	}
	s.Lock()
	if a = s.activations[key]; a != nil {
		s.Unlock()
		return a
	}
	if s.activations == nil {
		s.activations = map[string]*activation{}
	}
	// Close sets closed and then looks at every stripe, so it finds what is entered here.
	if k.engine.closed.Load() {
		s.Unlock()
		return nil
	}
	a = newActivation(k, key, c.bundle())
	s.activations[key] = a
	first := k.live.Add(1) == 1
	s.Unlock()
	if first {
		k.arm()
	}
	a.spawn()
	return a
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
