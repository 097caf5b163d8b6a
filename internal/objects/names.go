package objects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/shardlog"
)

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
	key := registry.NameKey(o.namespace, spec.Name)
	if o.dir == nil && spec.Replicas > 1 {
		return fmt.Errorf("%w: Replicas(%d) in a process without a cluster", raysys.ErrNoCapacity, spec.Replicas)
	}
	file := spec.OnDisk && !(spec.Others && o.files.Missing != "")
	if file {
		if err := o.files.putOnDisk(ctx, c, obj, key); err != nil {
			return err
		}
	}
	if o.dir == nil {
		if spec.Name == "" {
			return nil
		}
		return o.publishLocal(ctx, c, obj, key, spec.OnDisk)
	}
	v, err := obj.Version(ctx)
	if err != nil {
		return err
	}
	self := o.self()
	rec := registry.Record{ID: oid, Owner: self, Size: v.Size, Attempt: v.Attempt, Nonce: v.Nonce, Replicas: spec.Replicas}
	rec.Enter(registry.Location{Node: self, Kept: true})
	others, err := o.replicate(ctx, obj, c, spec)
	if err != nil {
		return err
	}
	for _, k := range others {
		rec.Enter(registry.Location{Node: k, Kept: true})
	}
	if spec.OnDisk {
		rec.Files = onDisk(self, others)
		if !file {
			rec.Files = rec.Files[1:]
		}
	}
	if !o.kept.keep(obj, func(k *reasons) {
		k.owner, k.want, k.files = self, len(others), rec.Files
		k.addReplicas(others)
	}) {
		o.release(&reasons{object: obj, replicas: others})
		return raysys.ErrReleased
	}
	o.markListed(oid)
	if _, err := o.dir.ChangeWait(ctx, registry.AddCopy(rec, true)); err != nil {
		return fmt.Errorf("enter it in the directory: %w", err)
	}
	if slices.ContainsFunc(others, func(k core.NodeKey) bool { return !o.mesh.Alive(k) }) {
		defer o.recopying.recopy([]raysys.TaskID{oid}) // it died before NodeGone could see that it has a copy
	}
	if spec.Name == "" {
		return nil
	}
	o.kept.keep(obj, func(k *reasons) { k.future, k.keys[key] = c, 1 })
	// The change may be made after ctx has ended, or with an unknown outcome. Until the directory's record says
	// otherwise the object is kept: a name must not stand for an object that is gone.
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

// publishLocal names an object in a process without a cluster.
func (o *Objects) publishLocal(ctx context.Context, c *core.Future, obj *objectstore.Object, key string, onDisk bool) error {
	if err := o.recordLocal(ctx, obj, key, onDisk); err != nil {
		return fmt.Errorf("enter the name: %w", err)
	}
	o.kept.mu.Lock()
	if o.kept.byName == nil {
		o.kept.byName = map[string]raysys.TaskID{}
	}
	before, had := o.kept.byName[key]
	o.kept.byName[key] = obj.ID()
	o.kept.mu.Unlock()
	o.kept.keep(obj, func(k *reasons) {
		k.future, k.keys[key] = c, 1
		if onDisk {
			k.files = []raysys.NodeID{o.name}
		}
	})
	if had && before != obj.ID() {
		o.unkeep(before, func(k *reasons) { delete(k.keys, key) })
	}
	return nil
}

// recordLocal enters the name of an object on disk in the process's own store. An object that is not on disk ends the
// record that an earlier one may have there.
func (o *Objects) recordLocal(ctx context.Context, obj *objectstore.Object, key string, onDisk bool) error {
	if !onDisk {
		if a, err := o.localRecord(ctx, key); err != nil || !a.Exists {
			return err
		}
		return o.forgetLocal(ctx, key)
	}
	v, err := obj.Version(ctx)
	if err != nil {
		return err
	}
	rec := registry.Record{ID: v.ID, Owner: o.self(), Size: v.Size, Attempt: v.Attempt, Nonce: v.Nonce, Replicas: 1, Files: []raysys.NodeID{o.name}}
	_, err = o.files.Directory.ChangeWait(ctx, registry.SetName(key, rec))
	return err
}

// localRecord returns the record of a name in the process's own store.
func (o *Objects) localRecord(ctx context.Context, key string) (a registry.Entry, err error) {
	if o.files.Missing != "" {
		return a, nil
	}
	return o.files.Directory.FindWait(ctx, key)
}

// forgetLocal removes the record of a name from the process's own store.
func (o *Objects) forgetLocal(ctx context.Context, key string) error {
	if o.files.Missing != "" {
		return nil
	}
	_, err := o.files.Directory.ChangeWait(ctx, registry.RemoveName(key))
	return err
}

// watch keeps an object for its name until the name stands for another object, or for none.
func (o *Objects) watch(key string, oid raysys.TaskID, seen shardlog.Version) {
	o.dir.Await(key, seen, func(a registry.Entry, err error) {
		switch {
		case o.ctx.Err() != nil:
		case err != nil:
			o.clock.SetAlarm(&core.Alarm{At: o.clock.Now() + int64(watchPause), Ring: func() { o.watch(key, oid, seen) }})
		case a.Exists && a.Record.ID == oid:
			o.kept.noteFiles(oid, &a.Record)
			o.watch(key, oid, a.Version)
		default:
			o.unkeep(oid, func(k *reasons) { delete(k.keys, key) })
		}
	})
}

// watchPause is the time between two attempts to ask while the lease is out or the shard has no leader.
const watchPause = time.Second

// Lookup implements core.Names.
func (o *Objects) Lookup(ctx context.Context, name string) (*core.Future, error) {
	if o.dir == nil {
		o.kept.mu.Lock()
		oid, ok := o.kept.byName[registry.NameKey(o.namespace, name)]
		o.kept.mu.Unlock()
		switch future, obj := o.kept.find(oid); {
		case !ok:
		case future != nil:
			return future, nil
		case obj != nil && obj.Persisted():
			return o.files.fileFuture(obj), nil
		}
		switch a, err := o.localRecord(ctx, registry.NameKey(o.namespace, name)); {
		case err != nil:
			return nil, err
		case a.Exists: // the file was lost
			return nil, o.files.whyDenied(a.Record.ID, nil)
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

// borrow returns a future for an object of the directory. It asks the owner for a reference, then, when the owner is dead
// or does not have the object, the nodes that keep copies.
func (o *Objects) borrow(ctx context.Context, rec *registry.Record) (*core.Future, error) {
	if slices.Contains(rec.Files, o.name) {
		if err := o.files.awaitRecovered(ctx); err != nil {
			return nil, err
		}
	}
	var open error // of the first node that lives and did not answer that it has no copy
	var lost []error
	for _, at := range o.files.withFiles(rec) {
		if at.Node == o.self() {
			if future, _ := o.kept.find(rec.ID); future != nil {
				return future, nil
			}
		}
		if !at.Kept || !o.mesh.Alive(at.Node) || at.Node == o.self() {
			continue
		}
		ans, err := runner.WaitOr(ctx, func(done func(objectReply, error)) { o.askNode(at.Node, opExport, objectRequest{oid: rec.ID}, done) }, func(ans objectReply, err error) {
			if err == nil && ans.number != 0 { // the node counts a reference that this node does not keep
				o.refs.GiveBack(at.Node, ans.number)
			}
		})
		if err == nil {
			return ans.future(o, at.Node, rec), nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		lost = append(lost, err)
		if open == nil && !errors.Is(err, raysys.ErrObjectLost) && o.mesh.Alive(at.Node) {
			open = fmt.Errorf("node %s: %w", at.Node, err)
		}
	}
	switch future, obj := o.kept.find(rec.ID); {
	case future != nil:
	case obj != nil && obj.Lost() == nil: // this node has a copy, and the owner is dead
		return objectReply{}.future(o, o.self(), rec), nil
	case slices.Contains(rec.Files, o.name):
		lost = append(lost, o.files.whyDenied(rec.ID, obj))
	}
	if open == nil {
		open = o.files.allAway(rec.Files)
	}
	if open != nil {
		return nil, fmt.Errorf("%w: it may be had later: %w", raysys.ErrUnreachable, open)
	}
	owner := "is dead"
	if o.mesh.Alive(rec.Owner) {
		owner = "does not have it any more"
	}
	return nil, errors.Join(fmt.Errorf("%w: its owner %s %s, and of %d copies none is left", raysys.ErrObjectLost, rec.Owner, owner, rec.Replicas), errors.Join(lost...))
}

// Forget implements core.Names.
func (o *Objects) Forget(ctx context.Context, name string) error {
	key := registry.NameKey(o.namespace, name)
	if o.dir == nil {
		a, err := o.localRecord(ctx, key)
		if err == nil {
			err = o.forgetLocal(ctx, key)
		}
		if err != nil {
			return err
		}
		o.kept.mu.Lock()
		oid, ok := o.kept.byName[key]
		delete(o.kept.byName, key)
		o.kept.mu.Unlock()
		if !ok && !a.Exists {
			return fmt.Errorf("%w: no object has it", raysys.ErrNotFound)
		}
		o.unkeep(oid, func(k *reasons) { delete(k.keys, key) })
		return nil
	}
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

// pendingName is a name that an object is kept for while it is not known whether the directory has it. On a node with a
// copy the name is pending until the owner has entered it, once all copies are made. On the owner it is pending when
// the outcome of that change is unknown.
type pendingName struct {
	o     *Objects
	key   string
	oid   raysys.TaskID
	alarm core.Alarm // when it has taken too long
}

// follow watches a name that will be entered in the directory, or may have been.
func (o *Objects) follow(key string, oid raysys.TaskID) {
	p := &pendingName{o: o, key: key, oid: oid}
	o.kept.mu.Lock()
	k := o.kept.byID[oid]
	wanted := k != nil && k.keys[key] != 0
	if wanted {
		if k.pending == nil {
			k.pending = map[string]*pendingName{}
		}
		if before := k.pending[key]; before != nil {
			o.clock.ClearAlarm(&before.alarm)
		}
		k.pending[key] = p
		p.setAlarm()
	}
	o.kept.mu.Unlock()
	if wanted {
		p.lookAtName()
	}
}

// setAlarm sets the alarm: a name has as long to be entered as a State has to be written.
func (p *pendingName) setAlarm() {
	p.alarm.At, p.alarm.Ring = p.o.clock.Now()+int64(retainGrace), p.late
	p.o.clock.SetAlarm(&p.alarm)
}

func (p *pendingName) lookAtName() {
	p.o.dir.Find(p.key, func(a registry.Entry, err error) {
		if p.seen(a, err) {
			return
		}
		p.o.dir.Await(p.key, a.Version, func(a registry.Entry, err error) {
			if !p.seen(a, err) {
				p.end()
			}
		})
	})
}

// seen takes an answer about the name's record. It reports false when the record is of another object, or there is none.
func (p *pendingName) seen(a registry.Entry, err error) bool {
	o := p.o
	switch {
	case o.ctx.Err() != nil:
	case err != nil:
		o.clock.SetAlarm(&core.Alarm{At: o.clock.Now() + int64(watchPause), Ring: func() {
			if p.pending() {
				p.lookAtName()
			}
		}})
	case !a.Exists || a.Record.ID != p.oid:
		return false
	default:
		if p.entered() {
			o.kept.noteFiles(p.oid, &a.Record)
			o.watch(p.key, p.oid, a.Version)
		}
	}
	return true
}

// pending reports whether the name is still pending for the object.
func (p *pendingName) pending() bool {
	p.o.kept.mu.Lock()
	defer p.o.kept.mu.Unlock()
	k := p.o.kept.byID[p.oid]
	return k != nil && k.pending[p.key] == p
}

// entered ends the pending name, and reports whether it did: false when that has happened before.
func (p *pendingName) entered() bool {
	p.o.clock.ClearAlarm(&p.alarm)
	p.o.kept.mu.Lock()
	defer p.o.kept.mu.Unlock()
	k := p.o.kept.byID[p.oid]
	if k == nil || k.pending[p.key] != p {
		return false
	}
	delete(k.pending, p.key)
	return true
}

// late is called by the alarm. An owner that lives may still be making copies, so this node waits for it again; else the
// name is not expected any more.
func (p *pendingName) late() {
	p.o.kept.mu.Lock()
	k := p.o.kept.byID[p.oid]
	if k == nil || k.pending[p.key] != p {
		p.o.kept.mu.Unlock()
		return
	}
	forOwner, owner := k.forOwner, k.owner
	p.o.kept.mu.Unlock()
	if forOwner && p.o.mesh.Alive(owner) {
		p.setAlarm()
		return
	}
	p.end()
}

func (p *pendingName) end() {
	p.o.clock.ClearAlarm(&p.alarm)
	p.o.unkeep(p.oid, func(k *reasons) {
		if k.pending[p.key] == p {
			delete(k.pending, p.key)
			delete(k.keys, p.key)
		}
	})
}
