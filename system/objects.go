package system

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
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/transfer"
)

// ObjectConfig says what a node's object store may use. The zero value is sane.
type ObjectConfig struct {
	// Memory that values above 64 KiB may take, in bytes. 0: 30 % of what the process may have.
	Memory int64
	// Spill is the directory that values go to when memory is short. Empty: one below os.TempDir, removed by Close.
	Spill string
	// Disk bounds the files there, in bytes. 0: what the file system has, less a reserve.
	Disk int64
	// NoSharing keeps processes of one host from mapping each other's objects: they are sent instead.
	NoSharing bool
}

// objects joins the node's object store to its futures and to the other nodes. It implements core.Objects and
// core.Names.
type objects struct {
	node   *Node
	store  *objectstore.Store
	engine *transfer.Engine    // nil without a cluster
	dir    *registry.Directory // nil without a cluster
	ctx    context.Context     // ends with the node
	cancel context.CancelFunc

	mu     sync.Mutex                                  // guards the rest
	needs  map[raysys.TaskID]need                      // objects of other nodes that references here stand for
	live   map[raysys.TaskID]weak.Pointer[core.Future] // the futures whose values are objects of this node
	listed map[raysys.TaskID]bool                      // those for which the directory names this node
	deaths map[core.NodeKey]time.Time                  // when an object of a dead node was first missed
	names  names

	evacuated []evacuated // of the drain in progress
}

// need is why this node wants an object of another.
type need struct {
	count int          // references here that stand for it
	owner core.NodeKey // as the last of them has it
	size  int64        // about
}

// openObjects opens the node's store. It writes nothing before there is something to spill.
func (n *Node) openObjects() (*objects, error) {
	o := &objects{node: n, needs: map[raysys.TaskID]need{}}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	cfg := n.cfg.Objects
	trouble := func(what string, err error) { n.log.Warn("object store: "+what, zap.Error(err)) }
	sc := objectstore.Config{
		Budget: cfg.Memory, Dir: cfg.Spill, Disk: cfg.Disk, Node: n.cfg.Name, Cluster: "local",
		Pressure: o.pressure,
		Hooks: objectstore.Hooks{
			Dropped: func(v objectstore.Version) { o.withdraw(v.ID) },
			Lost: func(id raysys.TaskID, err error) {
				n.log.Warn("object lost", zap.Stringer("object", id), zap.Error(err))
			},
			Trouble: trouble,
		},
	}
	if c := n.others; c != nil {
		sc.Cluster, sc.Incarnation = c.cfg.Name, uint64(time.Now().UnixNano()) // the cluster's own is not known yet
	}
	var err error
	if o.store, err = objectstore.Open(sc); err != nil {
		return nil, err
	}
	if c := n.others; c != nil {
		o.dir = registry.NewDirectory(c.reg)
		host := ""
		if !cfg.NoSharing {
			host = transfer.HostID()
		}
		o.engine, err = transfer.New(transfer.Config{
			Self:  func() core.NodeKey { return c.self() },
			Store: o.store, Link: connector{c}, Host: host,
			Hooks: transfer.Hooks{
				Struck: func(from core.NodeKey, id raysys.TaskID, why error) {
					n.log.Debug("no more of an object from a node", zap.Stringer("peer", from), zap.Stringer("object", id), zap.Error(why))
				},
				NotShared: func(from core.NodeKey, id raysys.TaskID, why error) {
					n.log.Debug("object is pulled, not shared", zap.Stringer("peer", from), zap.Stringer("object", id), zap.Error(why))
				},
			},
		})
		if err != nil {
			return nil, errors.Join(err, o.store.Close())
		}
	}
	if cfg.Spill != "" {
		// What an earlier incarnation left is of no use without the futures that stood for it.
		if err := o.store.Sweep(); err != nil {
			trouble("files of an earlier incarnation stay", err)
		}
	}
	n.store, n.job.Objects = o, o // nothing has been submitted yet
	return o, nil
}

// close ends transfers and the store. Values that the program still holds stay.
func (o *objects) close() error {
	o.cancel()
	if o.engine != nil {
		o.engine.Close()
	}
	return o.store.Close()
}

// pressure is called before a primary is spilled: what nobody reaches any more may be enough (rule C25). The runtime
// runs the cleanups that a collection has queued on goroutines of its own; pressure waits until it has run as many as
// were queued.
func (o *objects) pressure() {
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
func (o *objects) id(c *core.Future) raysys.TaskID {
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

func (o *objects) self() core.NodeKey {
	if c := o.node.others; c != nil {
		return c.self()
	}
	return core.NodeKey{Node: o.node.cfg.Name}
}

func fnv1a(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// Keep implements core.Objects.
func (o *objects) Keep(c *core.Future, v any) (kept bool, err error) {
	value := reflect.ValueOf(v).Elem()
	plan, err := codec.PlanOf(value.Type())
	if err != nil {
		return false, nil // it can never travel, nor go to disk: it is the program's own
	}
	size := plan.Size(value)
	if size <= raysys.ObjectSize {
		return false, nil
	}
	h := &held{o: o, c: weak.Make(c), plan: plan, size: int64(size)}
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
func (o *objects) Drop(c *core.Future) {
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
func (o *objects) enter(id raysys.TaskID, c weak.Pointer[core.Future]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.live == nil {
		o.live = map[raysys.TaskID]weak.Pointer[core.Future]{}
	}
	o.live[id] = c
}

// coreOf returns the future of an object of this node, nil when nobody holds it any more.
func (o *objects) coreOf(id raysys.TaskID) *core.Future {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.live[id].Value()
}

// freed ends this node's own need of an object: the future that held it was released.
func (o *objects) freed(obj *objectstore.Object) {
	o.end(o.names.unneeded(obj))
	o.dead(obj)
}

// collected is freed for an object whose future nobody reaches any more, on the collector's goroutine.
func (o *objects) collected(obj *objectstore.Object) {
	o.endCollected(o.names.unneeded(obj))
	o.dead(obj)
}

// dead forgets the future of an object.
func (o *objects) dead(obj *objectstore.Object) {
	o.mu.Lock()
	if o.live[obj.ID()].Value() == nil { // else another attempt has it now
		delete(o.live, obj.ID())
	}
	o.mu.Unlock()
}

// ensure puts the value of c into the store if it is not there, so that other nodes can pull it, and returns its id. It
// may wait for room.
func (o *objects) ensure(c *core.Future) (raysys.TaskID, error) {
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
		h := &held{o: o, c: weak.Make(c), plan: plan, size: int64(plan.Size(value))}
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

// Objects says what the node's object store holds.
func (n *Node) Objects() objectstore.Stats {
	if n.store == nil {
		return objectstore.Stats{}
	}
	return n.store.store.Stats()
}
