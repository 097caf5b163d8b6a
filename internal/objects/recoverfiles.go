package objects

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
)

// Recover looks at the files that earlier incarnations of this node left, and asks the directory about each: it offers
// again what a name still stands for, and deletes the rest. It returns when that is over, or the node ends.
func (o *Objects) Recover() {
	defer close(o.recovered)
	work := make(chan objectstore.Found)
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for f := range work {
				if key, ours := o.labelled(f.Label); ours {
					o.recoverFile(f.Version, key)
				} else {
					o.log.Warn("the file of an object is left alone: it belongs to a cluster that lay in another store", zap.Stringer("object", f.ID))
				}
			}
		})
	}
	if o.files.Missing == "" {
		for _, f := range o.store.Recovered() {
			work <- f
		}
	}
	close(work)
	wg.Wait()
	if o.ctx.Err() == nil && o.files.Missing == "" {
		o.sweep()
	}
}

// sweep removes what earlier incarnations left and nothing needs.
func (o *Objects) sweep() {
	if err := o.store.Sweep(); err != nil {
		o.log.Warn("object store: files of an earlier incarnation stay", zap.Error(err))
	}
}

// awaitRecovered waits until this node knows what files it has.
func (o *Objects) awaitRecovered(ctx context.Context) error {
	select {
	case <-o.recovered:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-o.ctx.Done():
		return raysys.ErrClosed
	}
}

// recoverFile adopts or deletes one file. While the directory does not answer the file stays as it is.
func (o *Objects) recoverFile(v objectstore.Version, key string) {
	a, ok := o.findNamed(key)
	if !ok {
		return
	}
	if !a.Exists || !a.Record.Same(&registry.Record{ID: v.ID, Attempt: v.Attempt, Nonce: v.Nonce, Size: v.Size}) {
		o.log.Info("the file of an object is deleted: its name was forgotten, or its name or State stands for another object", zap.Stringer("object", v.ID))
		o.store.Discard(v)
		return
	}
	adopted := false
	obj, err := o.unlessPresent(v.ID, func() (*objectstore.Object, error) {
		obj, err := o.store.Adopt(o.ctx, v, true)
		adopted = err == nil
		return obj, err
	})
	switch {
	case err != nil:
	case adopted:
		err = o.keepFile(key, obj, &a.Record)
	default:
		defer obj.Unpin()
		if err = o.keepFile(key, obj, &a.Record); err == nil {
			o.store.Discard(v) // not before there is another file
		}
	}
	if err != nil && o.ctx.Err() == nil {
		o.log.Warn("the file of an object is not offered again", zap.Stringer("object", v.ID), zap.Error(err))
	}
}

// unlessPresent makes an object, or takes the one that a reader here has fetched meanwhile, from another node. What it takes
// is pinned.
func (o *Objects) unlessPresent(oid raysys.TaskID, make func() (*objectstore.Object, error)) (*objectstore.Object, error) {
	for {
		obj, err := make()
		if !errors.Is(err, objectstore.ErrPresent) {
			return obj, err
		}
		if obj = o.store.Take(oid); obj != nil {
			return obj, nil
		}
		if !o.pause() { // the bytes are still on their way, or went again
			return nil, raysys.ErrClosed
		}
	}
}

// findNamed returns the record of a name or of a State, as soon as the directory answers; false when the node ends before.
func (o *Objects) findNamed(key string) (registry.Entry, bool) {
	for {
		a, err := runner.Wait(o.ctx, func(done func(registry.Entry, error)) {
			if registry.IsStateKey(key) {
				o.lastRecord(key, done) // behind the commits that an earlier incarnation of this node has asked for
				return
			}
			o.files.Directory.Find(key, done)
		})
		switch {
		case o.ctx.Err() != nil:
			return a, false
		case err == nil:
			return a, true
		case o.dir == nil: // the process's own store does not come back
			o.log.Warn("object store: the record of a name cannot be read, and its file stays", zap.Error(err))
			return a, false
		case !o.pause():
			return a, false
		}
	}
}

// pause waits for watchPause; false when the node ends before.
func (o *Objects) pause() bool {
	t := time.NewTimer(watchPause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-o.ctx.Done():
		return false
	}
}

// keepFile keeps an object for its name, with a file, and makes this node a location of it. While the directory does not
// answer it tries again. When the name stands for another object by now the file is deleted.
func (o *Objects) keepFile(key string, obj *objectstore.Object, rec *registry.Record) error {
	oid := obj.ID()
	if registry.IsStateKey(key) {
		return o.keepStateFile(key, obj, rec)
	}
	if o.dir == nil {
		o.keepLocalFile(key, obj, rec)
		return nil
	}
	had := false
	if !o.kept.keep(obj, func(k *reasons) {
		if k.owner == (core.NodeKey{}) {
			k.owner = rec.Owner
			k.unreferenced = o.needed(oid) == 0
		}
		had = k.keys[key] != 0
		k.keys[key], k.files = 1, rec.Files
	}) {
		return raysys.ErrReleased
	}
	unkeep := func() {
		if !had {
			o.unkeep(oid, func(k *reasons) { delete(k.keys, key) })
		}
	}
	if err := o.persist(o.ctx, obj, key); err != nil {
		unkeep()
		return err
	}
	if !o.mesh.Alive(rec.Owner) { // else NodeGone will be called
		o.ownerDied(oid, rec.Owner)
	}
	o.markListed(oid)
	for {
		own := *rec
		own.At = nil
		_, err := o.dir.ChangeWait(o.ctx, registry.AddCopy(own, true))
		var a registry.Entry
		if err == nil {
			a, err = o.dir.ChangeWait(o.ctx, registry.AddNamedFile(key, own))
		}
		switch {
		case o.ctx.Err() != nil:
			return context.Cause(o.ctx) // the file stays for the next incarnation
		case err == nil && a.Refused && (!a.Exists || !a.Record.Same(rec)):
			unkeep()
			return nil
		case err == nil && !a.Refused:
			if !had {
				o.watch(key, oid, a.Version)
			}
			o.restoreElsewhere(key, oid, a.Record.Files)
			return nil
		case !o.pause(): // the directory does not answer, or its leader does not know this incarnation yet
			return raysys.ErrClosed
		}
	}
}

// keepLocalFile is keepFile in a process without a cluster.
func (o *Objects) keepLocalFile(key string, obj *objectstore.Object, rec *registry.Record) {
	o.kept.keep(obj, func(k *reasons) {
		k.keys[key], k.files = 1, rec.Files
		if o.kept.byName == nil {
			o.kept.byName = map[string]raysys.TaskID{}
		}
		o.kept.byName[key] = obj.ID()
		k.unreferenced = true
	})
}

// fileFuture makes a future for a kept object that has a file and no future, in a process without a cluster.
func (o *Objects) fileFuture(obj *objectstore.Object) *core.Future {
	future := &core.NewUntyped(o.job, &storedSource{o: o, object: obj, size: obj.Info().Size}).Future
	o.atEnd(future, obj)
	o.kept.keep(obj, func(k *reasons) { k.future, k.unreferenced = future, false })
	return future
}

// filesOf lists the objects that this node keeps and that have, by their record, a file on the node, with their keys.
func (kept *keptObjects) filesOf(node raysys.NodeID) map[raysys.TaskID]string {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	list := map[raysys.TaskID]string{}
	for oid, k := range kept.byID {
		if !slices.Contains(k.files, node) {
			continue
		}
		if key := k.fileKey(); key != "" {
			list[oid] = key
		}
	}
	return list
}

// noteFiles takes over which nodes have a file of an object, by the record of its name.
func (kept *keptObjects) noteFiles(oid raysys.TaskID, rec *registry.Record) {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if k := kept.byID[oid]; k != nil {
		k.files = rec.Files
	}
}

// fileKey returns the key of an object's name, or of the State that it is; empty when it has none. keptObjects.mu is held.
func (k *reasons) fileKey() string {
	if k.state != nil {
		return k.state.key
	}
	for key := range k.keys {
		if isName(key) {
			return key
		}
	}
	return ""
}
