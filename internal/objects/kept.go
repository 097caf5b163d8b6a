package objects

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/registry"
)

// keptObjects are the objects that this node keeps although no reference here may stand for them: under a name, for a
// State, or as a copy for another node.
type keptObjects struct {
	mu     sync.Mutex // guards the rest
	byID   map[raysys.TaskID]*reasons
	copies map[*pendingCopy]struct{} // copies that are about to be kept
	byName map[string]raysys.TaskID  // in a process without a cluster
}

// reasons says why an object is kept.
type reasons struct {
	object *objectstore.Object
	future *core.Future // at the owner: the future that has the value
	owner  core.NodeKey
	// keys are those of the records that the object is kept for: of a name, with 1; of a State, with the number of the
	// last retention.
	keys         map[string]uint64
	pending      map[string]*pendingName // of the names in keys: those that the directory is not known to have yet
	forOwner     bool                    // the owner asked this node to keep a copy
	replicas     []core.NodeKey          // the nodes that keep copies for this one: at the owner, and at its caretaker; replaced, never changed
	want         int                     // how many of them there should be
	caretaker    core.NodeKey            // of an object with a name whose owner is dead: the node that sees to the copies
	files        []raysys.NodeID         // with OnDisk, and of a State: the nodes that have a file
	state        *retention              // the object is a State: why it is kept
	writing      bool                    // at the node that writes the State: it is open whether a record will list the object
	unreferenced bool                    // no reference here stands for the object
}

// wanted reports whether the object still has a reason to be kept. The caller holds keptObjects.mu.
func (k *reasons) wanted() bool { return k.forOwner || len(k.keys) > 0 }

// keep enters a reason for an object; false when the object has left the store already.
func (kept *keptObjects) keep(obj *objectstore.Object, change func(*reasons)) bool {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if !obj.SetPrimary(true) {
		return false
	}
	k := kept.byID[obj.ID()]
	if k == nil {
		k = &reasons{object: obj, keys: map[string]uint64{}}
		if kept.byID == nil {
			kept.byID = map[raysys.TaskID]*reasons{}
		}
		kept.byID[obj.ID()] = k
	}
	k.object = obj // another attempt may have come
	change(k)
	return true
}

// unneeded notes that no reference here stands for an object any more. It returns the reasons for Objects.end to end,
// nil when there is a reason left to keep the object.
func (kept *keptObjects) unneeded(obj *objectstore.Object) *reasons {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	return kept.unneededLocked(obj)
}

func (kept *keptObjects) unneededLocked(obj *objectstore.Object) *reasons {
	k := kept.byID[obj.ID()]
	if k == nil || k.object != obj {
		return ending(&reasons{object: obj})
	}
	k.unreferenced = true
	if k.wanted() {
		return nil
	}
	delete(kept.byID, obj.ID())
	return ending(k)
}

// drop takes a reason away. It returns the reasons for Objects.end to end when that was the last one and no reference
// here stands for the object; else nil.
func (kept *keptObjects) drop(oid raysys.TaskID, change func(*reasons)) *reasons {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	k := kept.byID[oid]
	if k == nil {
		return nil
	}
	change(k)
	if k.wanted() {
		return nil
	}
	k.future = nil // the future may be collected, which frees the object
	if !k.unreferenced {
		return nil
	}
	delete(kept.byID, oid)
	return ending(k)
}

// ending releases the object under the lock under which its end was decided, so that no reason can be entered in
// between. The pin leaves files and memory to Objects.end.
func ending(k *reasons) *reasons {
	k.object.Pin()
	k.object.Release()
	return k
}

// find returns a kept object, and its future at the owner; nil what there is not. The bytes of an object on disk outlive
// the future whose reference the program released.
func (kept *keptObjects) find(oid raysys.TaskID) (future *core.Future, obj *objectstore.Object) {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if k := kept.byID[oid]; k != nil {
		if k.future != nil && k.future.Released() && k.object.Persisted() {
			k.future = nil
		}
		return k.future, k.object
	}
	return nil, nil
}

// unkeep takes a reason away, and frees the object with the last. The copies that the caretaker had made are for the names: they go with the last name.
func (o *Objects) unkeep(oid raysys.TaskID, change func(*reasons)) {
	var copies []core.NodeKey
	o.end(o.kept.drop(oid, func(k *reasons) {
		change(k)
		if k.caretaker != (core.NodeKey{}) && k.caretaker == o.self() && len(k.names()) == 0 {
			copies, k.replicas, k.want, k.caretaker = k.replicas, nil, 0, core.NodeKey{}
		}
	}))
	for _, at := range copies {
		o.free(at, oid)
	}
}

// end frees an object that nothing here needs any more: in the store, in the directory, and its replicas. nil ends
// nothing.
func (o *Objects) end(k *reasons) {
	if k == nil {
		return
	}
	k.object.Unpin()
	o.withdraw(k.object.ID())
	o.release(k)
}

// endCollected is end for the collector's goroutine, which must free memory at once, and must not wait or set alarms:
// the directory and the nodes with replicas hear of it at the next tick.
func (o *Objects) endCollected(k *reasons) {
	if k == nil || o.refs == nil {
		o.end(k)
		return
	}
	k.object.Unpin()
	oid := k.object.ID()
	o.mu.Lock()
	listed := o.listed[oid]
	delete(o.listed, oid)
	o.mu.Unlock()
	o.refs.AtTick(func() {
		o.mu.Lock()
		anew := o.listed[oid]
		o.mu.Unlock()
		if listed && !anew {
			o.removeFromDirectory(oid)
		}
		o.release(k)
	})
}

// release tells the nodes with replicas that these may go.
func (o *Objects) release(k *reasons) {
	for _, at := range k.replicas {
		o.free(at, k.object.ID())
	}
}

// free tells a node that its copy may go, until that node has answered or is dead.
func (o *Objects) free(at core.NodeKey, oid raysys.TaskID) {
	o.ask(at, opFree, objectRequest{oid: oid}, func(_ objectReply, err error) {
		if err != nil && o.ctx.Err() == nil && o.mesh.Alive(at) { // a dead node keeps nothing
			o.clock.SetAlarm(&core.Alarm{At: o.clock.Now() + int64(watchPause), Ring: func() { o.free(at, oid) }})
		}
	})
}

// NodeGone ends, after orphanGrace, what this node kept for a dead node, unless a name or a State keeps it too. It
// does not end at once: references on other nodes may still find the copy by the directory. Names of dead nodes that nothing
// will ask for end with it. The copies that are gone with the node are made again.
func (o *Objects) NodeGone(dead core.NodeKey) {
	o.recopying.recopyOf(dead)
	o.kept.mu.Lock()
	var list []raysys.TaskID
	for oid, k := range o.kept.byID {
		if k.owner == dead && k.wanted() {
			list = append(list, oid)
		}
	}
	o.kept.mu.Unlock()
	for _, oid := range list {
		o.ownerDied(oid, dead)
	}
}

// ownerDied is NodeGone for one object of the dead node.
func (o *Objects) ownerDied(oid raysys.TaskID, dead core.NodeKey) {
	o.clock.SetAlarm(&core.Alarm{At: o.clock.Now() + int64(orphanGrace), Ring: func() { o.orphan(oid, dead) }})
}

// orphanGrace is how long a copy of a dead node's object is kept as if it were this node's own. Then it is a copy like
// any other, which goes when memory is short.
const orphanGrace = 10 * time.Minute

func (o *Objects) orphan(oid raysys.TaskID, dead core.NodeKey) {
	o.kept.mu.Lock()
	k := o.kept.byID[oid]
	if k == nil || k.owner != dead {
		o.kept.mu.Unlock()
		return
	}
	k.forOwner = false // from now on its names and States say how long it stays
	keys := slices.Collect(maps.Keys(k.keys))
	if len(keys) == 0 {
		delete(o.kept.byID, oid)
		k.object.SetPrimary(false)
	}
	o.kept.mu.Unlock()
	if len(keys) == 0 {
		o.release(k)
		o.log.Debug("a copy of a dead node's object may be evicted from now on", zap.Stringer("object", oid))
	}
	for _, key := range keys {
		if _, name, ok := strings.Cut(key, "\x00"); ok && isName(key) {
			o.unused(name, func() { o.removeName(key, oid) })
		}
	}
}

// removeName frees a name that nothing will ask for. While the directory does not answer it tries again.
func (o *Objects) removeName(key string, oid raysys.TaskID) {
	o.log.Info("an object is deleted: no task's record has its name", zap.Stringer("object", oid))
	o.dir.Change(registry.RemoveName(key), func(_ registry.Entry, err error) {
		if err != nil && o.ctx.Err() == nil {
			o.clock.SetAlarm(&core.Alarm{At: o.clock.Now() + int64(watchPause), Ring: func() { o.removeName(key, oid) }})
		}
	})
}
