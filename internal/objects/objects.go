package objects

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
	"weak"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/transfer"
)

// Config is what objects are made of.
type Config struct {
	Node      raysys.NodeID
	Namespace string
	Job       *core.Job
	Clock     refs.Clock
	Log       *zap.Logger
	// Store says what the node's object store may use, and whose it is. An earlier process may have left files in a Dir of its
	// own, which are removed.
	Store objectstore.Config
	// Fetched is called with each object that came from another node.
	Fetched func(size int64, took time.Duration)
	// Records returns the records of States. In a process without a cluster they are opened when first asked for.
	Records func() (*registry.Registry, error)
	// Cluster is nil without one.
	Cluster *Cluster
}

// Cluster is what objects need of the other nodes.
type Cluster struct {
	Mesh      *mesh.Mesh
	Refs      *refs.References
	Runner    *runner.Runner
	Directory *registry.Directory
	View      func() *member.View
	// Host names the host to other processes there, which may map this node's objects; empty: none may.
	Host string
}

// Objects joins the node's object store to its futures and to the other nodes. It implements core.Objects and
// core.Names.
type Objects struct {
	name      raysys.NodeID
	namespace string
	job       *core.Job
	clock     refs.Clock
	log       *zap.Logger
	fetched   func(size int64, took time.Duration)
	records   func() (*registry.Registry, error)
	store     *objectstore.Store
	ctx       context.Context // ends with the node
	cancel    context.CancelFunc

	// These are nil without a cluster.
	mesh   *mesh.Mesh
	refs   *refs.References
	runner *runner.Runner
	dir    *registry.Directory
	view   func() *member.View
	engine *transfer.Engine

	mu     sync.Mutex                                  // guards the rest
	needs  map[raysys.TaskID]need                      // objects of other nodes that references here stand for
	live   map[raysys.TaskID]weak.Pointer[core.Future] // the futures whose values are objects of this node
	listed map[raysys.TaskID]bool                      // those for which the directory names this node
	deaths map[core.NodeKey]time.Time                  // when an object of a dead node was first missed
	kept   keptObjects

	evacuated []evacuated // of the drain in progress
}

// need is why this node wants an object of another.
type need struct {
	count int          // references here that stand for it
	owner core.NodeKey // as the last of them has it
	size  int64        // about
}

// Open opens the node's store. It writes nothing before there is something to spill.
func Open(cfg Config) (*Objects, error) {
	o := &Objects{
		name: cfg.Node, namespace: cfg.Namespace, job: cfg.Job, clock: cfg.Clock, log: cfg.Log, fetched: cfg.Fetched, records: cfg.Records,
		needs: map[raysys.TaskID]need{},
	}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	trouble := func(what string, err error) { o.log.Warn("object store: "+what, zap.Error(err)) }
	sc := cfg.Store
	sc.Node, sc.Pressure = cfg.Node, o.pressure
	sc.Hooks = objectstore.Hooks{
		Dropped: func(v objectstore.Version) { o.withdraw(v.ID) },
		Lost: func(id raysys.TaskID, err error) {
			o.log.Warn("object lost", zap.Stringer("object", id), zap.Error(err))
		},
		Trouble: trouble,
	}
	var err error
	if o.store, err = objectstore.Open(sc); err != nil {
		return nil, err
	}
	if c := cfg.Cluster; c != nil {
		o.mesh, o.refs, o.runner, o.dir, o.view = c.Mesh, c.Refs, c.Runner, c.Directory, c.View
		if o.engine, err = o.newEngine(c.Host); err != nil {
			return nil, errors.Join(err, o.store.Close())
		}
	}
	if sc.Dir != "" {
		// What an earlier incarnation left is of no use without the futures that stood for it.
		if err := o.store.Sweep(); err != nil {
			trouble("files of an earlier incarnation stay", err)
		}
	}
	return o, nil
}

func (o *Objects) newEngine(host string) (*transfer.Engine, error) {
	return transfer.New(transfer.Config{
		Self:  o.self,
		Store: o.store, Link: connector{o.mesh}, Host: host,
		Hooks: transfer.Hooks{
			Struck: func(from core.NodeKey, id raysys.TaskID, why error) {
				o.log.Debug("no more of an object from a node", zap.Stringer("peer", from), zap.Stringer("object", id), zap.Error(why))
			},
			NotShared: func(from core.NodeKey, id raysys.TaskID, why error) {
				o.log.Debug("object is pulled, not shared", zap.Stringer("peer", from), zap.Stringer("object", id), zap.Error(why))
			},
		},
	})
}

// Stop ends what waits in it.
func (o *Objects) Stop() { o.cancel() }

// Stats says what the store holds.
func (o *Objects) Stats() objectstore.Stats { return o.store.Stats() }

// Close ends transfers and the store. Values that the program still holds stay.
func (o *Objects) Close() error {
	o.cancel()
	if o.engine != nil {
		o.engine.Close()
	}
	return o.store.Close()
}

// pressure is called before a primary is spilled: what nobody reaches any more may be enough (rule C25). The runtime
// runs the cleanups that a collection has queued on goroutines of its own; pressure waits until it has run as many as
// were queued.
func (o *Objects) pressure() {
	runtime.GC()
	counts := []metrics.Sample{{Name: "/gc/cleanups/queued:cleanups"}, {Name: "/gc/cleanups/executed:cleanups"}}
	metrics.Read(counts)
	queued := counts[0].Value.Uint64()
	ctx, cancel := context.WithTimeout(o.ctx, pressureLimit)
	defer cancel()
	for pause := time.Microsecond; counts[1].Value.Uint64() < queued && ctx.Err() == nil; pause *= 2 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		metrics.Read(counts[1:])
	}
}

// pressureLimit bounds the wait for cleanups.
const pressureLimit = 100 * time.Millisecond

// seed separates the ids of objects from all others.
var seed = maphash.MakeSeed()

// id names the object that a future of this node holds. It is the submission's id, made this incarnation's own, because
// a driver with a fixed seed submits under the same ids again.
func (o *Objects) id(c *core.Future) raysys.TaskID {
	id := c.ID()
	if id.IsZero() {
		// A Ready value has none. Its place in memory is its own while it is there, and with it this id.
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(reflect.ValueOf(c).Pointer()))
		id = raysys.TaskID{Hi: maphash.Bytes(seed, b[:]), Lo: 1}
	}
	return objectID(id, o.self())
}

// objectID names the object that a node made of a submission's value.
func objectID(id raysys.TaskID, owner core.NodeKey) raysys.TaskID {
	h := fnv1a(string(owner.Node)) ^ owner.Incarnation*0x9e3779b97f4a7c15
	return raysys.TaskID{Hi: id.Hi ^ h, Lo: id.Lo ^ h<<32 ^ h>>32}
}

func (o *Objects) self() core.NodeKey {
	if o.mesh != nil {
		return o.mesh.Self()
	}
	return core.NodeKey{Node: o.name}
}

func fnv1a(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// Keep implements core.Objects.
func (o *Objects) Keep(c *core.Future, v any) (kept bool, err error) {
	value := reflect.ValueOf(v).Elem()
	plan, err := codec.PlanOf(value.Type())
	if err != nil {
		return false, nil // it can never travel, nor go to disk: it is the program's own
	}
	size := plan.Size(value)
	if size <= raysys.ObjectSize {
		return false, nil
	}
	h := &futureValue{o: o, c: weak.Make(c), plan: plan, size: int64(size)}
	switch s := core.SourceOf(c).(type) {
	case nil:
	case *storedSource: // it came back from disk
		h.object = s.object
		s.object.Revive(h)
		return true, nil
	case *objectSource:
		if copied := o.store.Lookup(s.OID); copied != nil {
			h.object = copied
			copied.Revive(h)
			return true, nil
		}
		return false, nil
	default:
		return false, nil
	}
	h.value.Store(&v)
	defer h.value.Store(nil)
	id := o.id(c)
	obj, err := o.store.Add(o.ctx, id, attemptOf(c), h)
	if errors.Is(err, objectstore.ErrPresent) {
		// An attempt before this one left it, whose outcome was lost on the way: this is the one that counts (rule
		// C22).
		if old := o.store.Lookup(id); old != nil {
			old.Release()
		}
		obj, err = o.store.Add(o.ctx, id, attemptOf(c), h)
	}
	if err != nil {
		if o.ctx.Err() != nil {
			return false, nil // the node closes, and its values with it
		}
		return false, err
	}
	h.mu.Lock()
	h.object = obj
	h.mu.Unlock()
	o.enter(id, h.c)
	runtime.AddCleanup(c, o.collected, obj)
	return true, nil
}

func attemptOf(c *core.Future) uint32 {
	if t := c.OwnTurn(); t != nil {
		return uint32(max(t.Attempt(), 1))
	}
	return 1
}

// Drop implements core.Objects.
func (o *Objects) Drop(c *core.Future) {
	switch s := core.SourceOf(c).(type) {
	case nil:
		if obj := o.store.Lookup(o.id(c)); obj != nil {
			o.freed(obj)
		}
	case *storedSource:
		o.freed(s.object)
	}
}

// enter remembers the future of an object of this node.
func (o *Objects) enter(id raysys.TaskID, c weak.Pointer[core.Future]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.live == nil {
		o.live = map[raysys.TaskID]weak.Pointer[core.Future]{}
	}
	o.live[id] = c
}

// coreOf returns the future of an object of this node, nil when nobody holds it any more.
func (o *Objects) coreOf(id raysys.TaskID) *core.Future {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.live[id].Value()
}

// freed ends this node's own need of an object: the future that held it was released.
func (o *Objects) freed(obj *objectstore.Object) {
	o.end(o.kept.unneeded(obj))
	o.dead(obj)
}

// collected is freed for an object whose future nobody reaches any more, on the collector's goroutine.
func (o *Objects) collected(obj *objectstore.Object) {
	o.endCollected(o.kept.unneeded(obj))
	o.dead(obj)
}

// dead forgets the future of an object.
func (o *Objects) dead(obj *objectstore.Object) {
	o.mu.Lock()
	if o.live[obj.ID()].Value() == nil { // else another attempt has it now
		delete(o.live, obj.ID())
	}
	o.mu.Unlock()
}

// ensure puts the value of c into the store if it is not there, so that other nodes can pull it, and returns its id. It
// may wait for room.
func (o *Objects) ensure(c *core.Future) (raysys.TaskID, error) {
	id := o.id(c)
	for {
		if obj := o.store.Lookup(id); obj != nil && obj.Lost() == nil {
			return id, nil
		}
		v, err := c.Outcome()
		if err != nil {
			return id, err
		}
		value := reflect.ValueOf(v).Elem()
		plan, err := codec.PlanOf(value.Type())
		if err != nil {
			return id, err
		}
		// A copy of the head: what Outcome returned may lie in the future, which must not be kept.
		head := reflect.New(value.Type())
		head.Elem().Set(value)
		v = head.Interface()
		h := &futureValue{o: o, c: weak.Make(c), plan: plan, size: int64(plan.Size(value))}
		h.value.Store(&v) // it is not the store's to forget: it counts, and stays
		obj, err := o.store.Add(o.ctx, id, attemptOf(c), h)
		switch {
		case err == nil:
			o.enter(id, h.c)
			runtime.AddCleanup(c, o.collected, obj)
			return id, nil
		case !errors.Is(err, objectstore.ErrPresent):
			return id, fmt.Errorf("keep an object to send: %w", err)
		}
	}
}

// evicted is for who found a value elsewhere while ensure looked: most likely it went to disk that moment, and another
// try finds it in the store. Not so one that was lost there.
func evicted(ctx context.Context, e *core.Elsewhere) error {
	if s, ok := e.Source.(*storedSource); ok {
		if err := s.object.Lost(); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
