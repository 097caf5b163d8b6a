package objects

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
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

// keptObjects are the objects that this node keeps although no reference here may stand for them: under a name, for a
// State, or as a copy for another node.
type keptObjects struct {
	mu     sync.Mutex // guards the rest
	byID   map[raysys.TaskID]*reasons
	copies map[*pendingCopy]struct{} // copies that are about to be kept
	frees  map[copyAt]*freeing       // those that the other node has not answered yet
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
	copying      int                     // requests for a copy that this node is answering
	replicas     []core.NodeKey          // the nodes that keep copies for this one: at the owner, and at its caretaker; replaced, never changed
	want         int                     // how many of them there should be
	caretaker    core.NodeKey            // of an object with a name whose owner is dead: the node that sees to the copies
	files        []raysys.NodeID         // with OnDisk, and of a State: the nodes that have a file
	state        *retention              // the object is a State: why it is kept
	writing      bool                    // at the node that writes the State: it is open whether a record will list the object
	unreferenced bool                    // no reference here stands for the object
}

// wanted reports whether the object still has a reason to be kept. The caller holds keptObjects.mu.
func (k *reasons) wanted() bool { return k.forOwner || k.copying > 0 || len(k.keys) > 0 }

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
	frees := o.kept.beginFrees(k)
	o.refs.AtTick(func() {
		o.mu.Lock()
		anew := o.listed[oid]
		o.mu.Unlock()
		if listed && !anew {
			o.removeFromDirectory(oid)
		}
		for _, f := range frees {
			f.send(o)
		}
	})
}

// release tells the nodes with replicas that these may go.
func (o *Objects) release(k *reasons) {
	for _, f := range o.kept.beginFrees(k) {
		f.send(o)
	}
}

// beginFree enters a freeing, in place of an earlier one of the same copy.
func (kept *keptObjects) beginFree(c copyAt) *freeing {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if kept.frees == nil {
		kept.frees = map[copyAt]*freeing{}
	}
	f := &freeing{c}
	kept.frees[c] = f
	return f
}

// beginFrees is beginFree for the replicas of an object.
func (kept *keptObjects) beginFrees(k *reasons) (list []*freeing) {
	for _, at := range k.replicas {
		list = append(list, kept.beginFree(copyAt{at, k.object.ID()}))
	}
	return list
}

// freeUnanswered returns the freeing of a copy that goes on, nil when there is none.
func (kept *keptObjects) freeUnanswered(c copyAt) *freeing {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	return kept.frees[c]
}

// endFree ends a freeing.
func (kept *keptObjects) endFree(f *freeing) {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if kept.frees[f.copyAt] == f {
		delete(kept.frees, f.copyAt)
	}
}

// free tells a node that its copy may go.
func (o *Objects) free(at core.NodeKey, oid raysys.TaskID) {
	o.kept.beginFree(copyAt{at, oid}).send(o)
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
	ends := !k.wanted()
	if ends {
		delete(o.kept.byID, oid)
		k.object.SetPrimary(false)
	}
	o.kept.mu.Unlock()
	if ends {
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

// copyAsked enters a pending copy.
func (kept *keptObjects) copyAsked(ctx context.Context, owner core.NodeKey, request objectRequest) *pendingCopy {
	c := &pendingCopy{request: request, owner: owner}
	c.ctx, c.stop = context.WithCancelCause(ctx)
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if kept.copies == nil {
		kept.copies = map[*pendingCopy]struct{}{}
	}
	kept.copies[c] = struct{}{}
	return c
}

// copyAnswered removes a pending copy.
func (kept *keptObjects) copyAnswered(c *pendingCopy) {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	delete(kept.copies, c)
	c.stop(nil)
}

// keepCopy pulls a copy of the owner's object and keeps it, until the owner sends opFree and the name, where the
// request has one, stands for another object.
func (o *Objects) keepCopy(c *pendingCopy) error {
	defer o.kept.copyAnswered(c)
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	oid, key := c.request.oid, c.request.key
	var obj *objectstore.Object
	// Not kept: a copy for a reference left the store with that reference.
	for kept := false; !kept; kept = c.begin(o, obj) {
		var err error
		// o.ctx, not c.ctx: a fetch that was stopped half way might still enter the copy, with nothing to remove it.
		obj, err = o.engine.Fetch(o.ctx, objectstore.Version{ID: oid}, transfer.From(c.owner), objectstore.Segment)
		if err != nil {
			return err
		}
		defer obj.Unpin()
	}
	var named registry.Entry
	var err error
	if c.request.file {
		err = o.files.persist(c.ctx, obj, key)
	}
	if err == nil {
		named, err = o.enterCopy(c, obj)
	}
	switch err = c.end(o, err); {
	case err != nil:
		if o.store.Lookup(oid) == nil {
			o.removeFromDirectory(oid) // enterCopy may have entered it after withdraw had removed it
		}
		return err
	case key == "":
	case named.Refused:
		o.follow(key, oid)
	default:
		o.kept.noteFiles(oid, &named.Record)
		o.watch(key, oid, named.Version)
	}
	if !o.mesh.Alive(c.owner) { // it died before NodeGone could see that this node has a copy
		o.ownerDied(oid, c.owner)
		o.recopying.recopy([]raysys.TaskID{oid})
	}
	return nil
}

// enterCopy enters a kept copy in the directory: in the object's record, and in that of its name.
func (o *Objects) enterCopy(c *pendingCopy, obj *objectstore.Object) (named registry.Entry, err error) {
	v, err := obj.Version(c.ctx)
	if err != nil {
		return named, err
	}
	oid, key := c.request.oid, c.request.key
	o.markListed(oid)
	rec := registry.Record{ID: v.ID, Owner: c.owner, Size: v.Size, Attempt: v.Attempt, Nonce: v.Nonce}
	_, err = o.dir.ChangeWait(c.ctx, registry.AddCopy(rec, true))
	if err == nil && key != "" {
		// Where the name stands for the object already, this copy is added; else the owner enters the name with this
		// copy.
		add := registry.AddNamedCopy
		if c.request.file {
			add = registry.AddNamedFile
		}
		named, err = o.dir.ChangeWait(c.ctx, add(key, rec))
	}
	return named, err
}

// dropCopy ends a copy that the node which asked for it does not need any more, also one that is being made.
func (o *Objects) dropCopy(oid raysys.TaskID, owner core.NodeKey) {
	kept := &o.kept
	kept.mu.Lock()
	for c := range kept.copies {
		if c.request.oid == oid && c.owner == owner {
			c.stop(errUnwanted)
		}
	}
	kept.mu.Unlock()
	o.unkeep(oid, func(k *reasons) {
		if keptForOther(o, k, owner) {
			return
		}
		k.forOwner = false
		if r := k.state; r != nil && !r.written.Load() { // its owner knows that no record will list it
			r.over.Store(true)
			delete(k.keys, r.key)
		}
		for key, p := range k.pending { // the owner will not enter the name now
			o.clock.ClearAlarm(&p.alarm)
			delete(k.pending, key)
			delete(k.keys, key)
		}
	})
}

func attemptOf(c *core.Future) uint32 {
	if t := c.OwnTurn(); t != nil {
		return uint32(max(t.Attempt(), 1))
	}
	return 1
}

// A collectable is what the cleanup of an object's future needs. It is weak: what a cleanup holds stays until the future is
// collected, and the node leads to its futures, so that a closed node would stay for ever.
type collectable struct {
	objects weak.Pointer[Objects]
	object  weak.Pointer[objectstore.Object]
	id      raysys.TaskID
}

// collected is called by the collector's goroutine when nothing here refers to the future of an object any more.
func (e collectable) collected() {
	o := e.objects.Value()
	if o == nil {
		return
	}
	if obj := e.object.Value(); obj != nil { // else the store has it no more, and nothing keeps it
		o.endCollected(o.kept.unneeded(obj))
	}
	o.dead(e.id)
}

// evicted says what to do after ensure found the value elsewhere. It returns nil when ensure shall be tried again: most
// likely the value went to disk in that moment, and is in the store now. It returns an error when the store has lost the
// value, or ctx has ended.
func evicted(ctx context.Context, e *core.Elsewhere) error {
	if s, ok := e.Source.(*storedSource); ok {
		if err := s.object.Lost(); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// Keep implements core.Objects.
func (o *Objects) Keep(c *core.Future, v any) (kept bool, err error) {
	value := reflect.ValueOf(v).Elem()
	plan, err := codec.PlanOf(value.Type())
	if err != nil {
		return false, nil // a value that cannot be encoded can neither travel nor go to disk: the program alone has it
	}
	size := plan.Size(value)
	if size <= raysys.ObjectSize {
		return false, nil
	}
	f := &futureValue{o: o, future: weak.Make(c), plan: plan, size: int64(size)}
	switch s := core.SourceOf(c).(type) {
	case nil:
	case *storedSource: // the value came back from disk
		f.object = s.object
		s.object.Revive(f)
		return true, nil
	case *objectSource:
		if copied := o.store.Lookup(s.OID); copied != nil {
			f.object = copied
			copied.Revive(f)
			return true, nil
		}
		return false, nil
	default:
		return false, nil
	}
	f.value.Store(&v)
	defer f.value.Store(nil)
	id := o.id(c)
	obj, err := o.store.Add(o.ctx, id, attemptOf(c), f)
	if errors.Is(err, objectstore.ErrPresent) {
		// The object is of an earlier attempt whose outcome was lost on the way. This attempt is the one that counts
		// (rule C22).
		if old := o.store.Lookup(id); old != nil {
			old.Release()
		}
		obj, err = o.store.Add(o.ctx, id, attemptOf(c), f)
	}
	if err != nil {
		if o.ctx.Err() != nil {
			return false, nil // the node closes, and its values end with it
		}
		return false, err
	}
	f.mu.Lock()
	f.object = obj
	f.mu.Unlock()
	o.enter(id, f.future)
	o.atEnd(c, obj)
	return true, nil
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

// futureOf returns the future of an object of this node, nil when it was collected.
func (o *Objects) futureOf(id raysys.TaskID) *core.Future {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.live[id].Value()
}

// freed ends this node's own need of an object: the future that held it was released.
func (o *Objects) freed(obj *objectstore.Object) {
	o.end(o.kept.unneeded(obj))
	o.dead(obj.ID())
}

// atEnd arranges that the object is needed no more once its future is collected.
func (o *Objects) atEnd(future *core.Future, obj *objectstore.Object) {
	runtime.AddCleanup(future, collectable.collected, collectable{weak.Make(o), weak.Make(obj), obj.ID()})
}

// dead forgets the future of an object.
func (o *Objects) dead(id raysys.TaskID) {
	o.mu.Lock()
	if o.live[id].Value() == nil { // else the object has the future of another attempt now
		delete(o.live, id)
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
		f := &futureValue{o: o, future: weak.Make(c), plan: plan, size: int64(plan.Size(value))}
		f.value.Store(&v) // while it is set Evict refuses: the value counts against the budget and stays
		obj, err := o.store.Add(o.ctx, id, attemptOf(c), f)
		switch {
		case err == nil:
			o.enter(id, f.future)
			o.atEnd(c, obj)
			return id, nil
		case !errors.Is(err, objectstore.ErrPresent):
			return id, fmt.Errorf("keep an object to send: %w", err)
		}
	}
}
