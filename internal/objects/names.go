package objects

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/store"
)

// keptObjects are the objects that this node keeps although no reference here may stand for them: under a name, or as a copy
// for another node.
type keptObjects struct {
	mu     sync.Mutex // guards the rest
	byID   map[raysys.TaskID]*reasons
	copies map[*pendingCopy]struct{} // copies that are about to be kept
	byName map[string]raysys.TaskID  // in a process without a cluster
}

// reasons is why an object is kept.
type reasons struct {
	object       *objectstore.Object
	future       *core.Future // the future, where the object was put
	owner        core.NodeKey
	names        map[string]uint64       // keys of the directory and of States, with which hold of them it is
	pending      map[string]*pendingName // those of names that the directory is not known to have yet
	forOwner     bool                    // the owner asked for it
	replicas     []core.NodeKey          // at the owner: whom it asked
	unreferenced bool                    // no reference here stands for it
}

// wanted says whether there is still a reason. names.mu is held.
func (k *reasons) wanted() bool { return k.forOwner || len(k.names) > 0 }

// keep enters a reason for an object; false when it is gone already.
func (n *keptObjects) keep(obj *objectstore.Object, change func(*reasons)) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !obj.SetPrimary(true) {
		return false
	}
	k := n.byID[obj.ID()]
	if k == nil {
		k = &reasons{object: obj, names: map[string]uint64{}}
		if n.byID == nil {
			n.byID = map[raysys.TaskID]*reasons{}
		}
		n.byID[obj.ID()] = k
	}
	k.object = obj // another attempt may have come
	change(k)
	return true
}

// unneeded notes that no reference here stands for an object any more. It returns what is to end, nil when there is a reason
// left to keep it.
func (n *keptObjects) unneeded(obj *objectstore.Object) *reasons {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unneededLocked(obj)
}

func (n *keptObjects) unneededLocked(obj *objectstore.Object) *reasons {
	k := n.byID[obj.ID()]
	if k == nil || k.object != obj {
		return ending(&reasons{object: obj})
	}
	k.unreferenced = true
	if k.wanted() {
		return nil
	}
	delete(n.byID, obj.ID())
	return ending(k)
}

// drop takes a reason away, and returns what is to end when it was the last one and nothing else needs it.
func (n *keptObjects) drop(oid raysys.TaskID, change func(*reasons)) *reasons {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.byID[oid]
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
	delete(n.byID, oid)
	return ending(k)
}

// ending releases the object under the lock that the decision was made under, so that nobody enters a reason in between. The
// pin leaves files and memory to objects.end.
func ending(k *reasons) *reasons {
	k.object.Pin()
	k.object.Release()
	return k
}

// find returns the future of an object that is kept where it was put.
func (n *keptObjects) find(oid raysys.TaskID) (future *core.Future, obj *objectstore.Object) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if k := n.byID[oid]; k != nil {
		return k.future, k.object
	}
	return nil, nil
}

// unkeep ends a reason, and frees the object with the last.
func (o *Objects) unkeep(oid raysys.TaskID, change func(*reasons)) {
	o.end(o.kept.drop(oid, change))
}

// end does what is left to do about an object that nothing here needs any more.
func (o *Objects) end(k *reasons) {
	if k == nil {
		return
	}
	k.object.Unpin()
	o.withdraw(k.object.ID())
	o.release(k)
}

// endCollected is end for the collector's goroutine, which must free memory at once, and must not wait or set alarms: others
// are told at the next tick.
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

// release tells those who keep copies for this node that it is over.
func (o *Objects) release(k *reasons) {
	for _, at := range k.replicas {
		o.free(at, k.object.ID())
	}
}

// free tells a node that its copy may go, until it has heard or is dead.
func (o *Objects) free(at core.NodeKey, oid raysys.TaskID) {
	o.ask(at, opFree, question{oid: oid}, func(_ reply, err error) {
		if err != nil && o.ctx.Err() == nil && o.mesh.Alive(at) { // who is gone keeps nothing
			o.clock.SetAlarm(&core.Alarm{At: o.clock.Now() + int64(watchPause), Ring: func() { o.free(at, oid) }})
		}
	})
}

// withdraw takes this node out of an object's record.
func (o *Objects) withdraw(oid raysys.TaskID) {
	o.mu.Lock()
	listed := o.listed[oid]
	delete(o.listed, oid)
	o.mu.Unlock()
	if listed {
		o.removeFromDirectory(oid)
	}
}

// Publish implements core.Names.
func (o *Objects) Publish(ctx context.Context, c *core.Future, spec core.PutSpec) error {
	var oid raysys.TaskID
	for {
		var err error
		oid, err = o.ensure(c)
		var e *core.Elsewhere
		if errors.As(err, &e) {
			if err = evicted(ctx, e); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		break
	}
	obj := o.store.Lookup(oid)
	if obj == nil {
		return raysys.ErrReleased
	}
	if o.dir == nil {
		if spec.Replicas > 1 {
			return fmt.Errorf("%w: Replicas(%d) in a process without a cluster", raysys.ErrNoCapacity, spec.Replicas)
		}
		o.publishLocal(c, obj, spec.Name)
		return nil
	}
	m, err := obj.Manifest(ctx)
	if err != nil {
		return err
	}
	self := o.self()
	rec := registry.Record{ID: oid, Owner: self, Size: m.Size, Attempt: m.Attempt, Sum: m.Sum, Replicas: spec.Replicas}
	rec.Enter(registry.Location{Node: self, Kept: true})
	others, err := o.replicate(ctx, obj, c, spec)
	if err != nil {
		return err
	}
	for _, k := range others {
		rec.Enter(registry.Location{Node: k, Kept: true})
	}
	if !o.kept.keep(obj, func(k *reasons) { k.owner, k.replicas = self, others }) {
		o.release(&reasons{object: obj, replicas: others})
		return raysys.ErrReleased
	}
	o.markListed(oid)
	if _, err := o.dir.ChangeWait(ctx, registry.AddCopy(rec, true)); err != nil {
		return fmt.Errorf("enter it in the directory: %w", err)
	}
	if spec.Name == "" {
		return nil
	}
	key := registry.NameKey(o.namespace, spec.Name)
	o.kept.keep(obj, func(k *reasons) { k.future, k.names[key] = c, 1 })
	// The change may be made although nobody waits for it any more, or nobody can say: the name must not stand for nothing.
	_, err = runner.Wait(ctx, func(done func(registry.Entry, error)) {
		o.dir.Change(registry.SetName(key, rec), func(a registry.Entry, err error) {
			if err != nil {
				o.follow(key, oid)
			} else {
				o.watch(key, oid, a.Version)
			}
			done(a, err)
		})
	})
	if err != nil {
		return fmt.Errorf("enter the name %q: %w", spec.Name, err)
	}
	return nil
}

func (o *Objects) publishLocal(c *core.Future, obj *objectstore.Object, name string) {
	if name == "" {
		return
	}
	o.kept.mu.Lock()
	if o.kept.byName == nil {
		o.kept.byName = map[string]raysys.TaskID{}
	}
	before, had := o.kept.byName[name]
	o.kept.byName[name] = obj.ID()
	o.kept.mu.Unlock()
	o.kept.keep(obj, func(k *reasons) { k.future, k.names[name] = c, 1 })
	if had && before != obj.ID() {
		o.unkeep(before, func(k *reasons) { delete(k.names, name) })
	}
}

// markListed notes that the directory names this node for an object.
func (o *Objects) markListed(oid raysys.TaskID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.listed == nil {
		o.listed = map[raysys.TaskID]bool{}
	}
	o.listed[oid] = true
}

// watch lets an object go when its name stands for another, or for none.
func (o *Objects) watch(key string, oid raysys.TaskID, seen store.Version) {
	o.dir.Await(key, seen, func(a registry.Entry, err error) {
		switch {
		case o.ctx.Err() != nil:
		case err != nil:
			o.clock.SetAlarm(&core.Alarm{At: o.clock.Now() + int64(watchPause), Ring: func() { o.watch(key, oid, seen) }})
		case a.Exists && a.Record.ID == oid:
			o.watch(key, oid, a.Version)
		default:
			o.unkeep(oid, func(k *reasons) { delete(k.names, key) })
		}
	})
}

// watchPause is between two attempts to ask while the lease is out or no leader is to be had.
const watchPause = time.Second

// Lookup implements core.Names.
func (o *Objects) Lookup(ctx context.Context, name string) (*core.Future, error) {
	if o.dir == nil {
		o.kept.mu.Lock()
		oid, ok := o.kept.byName[name]
		o.kept.mu.Unlock()
		if future, _ := o.kept.find(oid); ok && future != nil {
			return future, nil
		}
		return nil, fmt.Errorf("%w: no object has it", raysys.ErrNotFound)
	}
	a, err := o.dir.FindWait(ctx, registry.NameKey(o.namespace, name))
	if err != nil {
		return nil, err
	}
	if !a.Exists {
		return nil, fmt.Errorf("%w: no object of the cluster has it", raysys.ErrNotFound)
	}
	return o.borrow(ctx, &a.Record)
}

// borrow returns a future for an object of the directory: of its owner, or of one that keeps a copy when that is dead.
func (o *Objects) borrow(ctx context.Context, rec *registry.Record) (*core.Future, error) {
	var last, open error // open: of a node that lives and did not say that it has none
	for _, at := range append([]registry.Location{{Node: rec.Owner, Kept: true}}, rec.At...) {
		if at.Node == o.self() {
			if future, _ := o.kept.find(rec.ID); future != nil {
				return future, nil
			}
		}
		if !at.Kept || !o.mesh.Alive(at.Node) || at.Node == o.self() {
			continue
		}
		ans, err := runner.WaitOr(ctx, func(done func(reply, error)) { o.ask(at.Node, opExport, question{oid: rec.ID}, done) }, func(ans reply, err error) {
			if err == nil && ans.number != 0 { // it counts this node, which has nothing to show for it
				o.refs.GiveBack(at.Node, ans.number)
			}
		})
		if err == nil {
			return ans.future(o, at.Node, rec), nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		last = err
		if open == nil && !errors.Is(err, raysys.ErrObjectLost) && o.mesh.Alive(at.Node) {
			open = fmt.Errorf("node %s: %w", at.Node, err)
		}
	}
	if future, obj := o.kept.find(rec.ID); future == nil && obj != nil { // this node has a copy, and the owner is dead
		return reply{}.future(o, o.self(), rec), nil
	}
	if open != nil {
		return nil, fmt.Errorf("%w: it may be had later: %w", raysys.ErrUnreachable, open)
	}
	owner := "is dead"
	if o.mesh.Alive(rec.Owner) {
		owner = "does not have it any more"
	}
	return nil, errors.Join(fmt.Errorf("%w: its owner %s %s, and of %d copies none is left", raysys.ErrObjectLost, rec.Owner, owner, rec.Replicas), last)
}

// Forget implements core.Names.
func (o *Objects) Forget(ctx context.Context, name string) error {
	if o.dir == nil {
		o.kept.mu.Lock()
		oid, ok := o.kept.byName[name]
		delete(o.kept.byName, name)
		o.kept.mu.Unlock()
		if !ok {
			return fmt.Errorf("%w: no object has it", raysys.ErrNotFound)
		}
		o.unkeep(oid, func(k *reasons) { delete(k.names, name) })
		return nil
	}
	key := registry.NameKey(o.namespace, name)
	a, err := o.dir.FindWait(ctx, key)
	switch {
	case err != nil:
		return err
	case !a.Exists:
		return fmt.Errorf("%w: no object of the cluster has it", raysys.ErrNotFound)
	}
	_, err = o.dir.ChangeWait(ctx, registry.RemoveName(key))
	return err
}

// OwnerDied lets go of what was kept for a dead node, unless it has a name: not at once, since references to it may be
// elsewhere, which find it by the directory.
func (o *Objects) OwnerDied(dead core.NodeKey) {
	o.kept.mu.Lock()
	var list []raysys.TaskID
	for oid, k := range o.kept.byID {
		if k.owner == dead && k.forOwner {
			list = append(list, oid)
		}
	}
	o.kept.mu.Unlock()
	for _, oid := range list {
		o.clock.SetAlarm(&core.Alarm{At: o.clock.Now() + int64(orphanGrace), Ring: func() { o.orphan(oid) }})
	}
}

// orphanGrace is how long a copy of a dead node's object is kept as if it were this node's own. Then it is a copy like any
// other, which goes when memory is short.
const orphanGrace = 10 * time.Minute

func (o *Objects) orphan(oid raysys.TaskID) {
	o.kept.mu.Lock()
	k := o.kept.byID[oid]
	named := k != nil && len(k.names) > 0
	switch {
	case named:
		k.forOwner = false // its names say how long it stays
	case k != nil:
		delete(o.kept.byID, oid)
		k.object.SetPrimary(false)
	}
	o.kept.mu.Unlock()
	if k != nil && !named {
		o.log.Debug("a copy of a dead node's object may go now", zap.Stringer("object", oid))
	}
}
