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
	defer close(o.files.recovered)
	work := make(chan objectstore.Found)
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for f := range work {
				if key, ours := o.files.keyOfLabel(f.Label); ours {
					o.files.recoverFile(f.Version, key)
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
		o.files.sweepFiles()
	}
}

// sweepFiles removes what earlier incarnations left and nothing needs.
func (df *diskFiles) sweepFiles() {
	if err := df.o.store.Sweep(); err != nil {
		df.o.log.Warn("object store: files of an earlier incarnation stay", zap.Error(err))
	}
}

// awaitRecovered waits until this node knows what files it has.
func (df *diskFiles) awaitRecovered(ctx context.Context) error {
	select {
	case <-df.recovered:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-df.o.ctx.Done():
		return raysys.ErrClosed
	}
}

// recoverFile adopts or deletes one file. While the directory does not answer the file stays as it is.
func (df *diskFiles) recoverFile(v objectstore.Version, key string) {
	a, ok := df.findNamed(key)
	if !ok {
		return
	}
	if !a.Exists || !a.Record.Same(&registry.Record{ID: v.ID, Attempt: v.Attempt, Nonce: v.Nonce, Size: v.Size}) {
		df.o.log.Info("the file of an object is deleted: its name was forgotten, or its name or State stands for another object", zap.Stringer("object", v.ID))
		df.o.store.Discard(v)
		return
	}
	adopted := false
	obj, err := df.unlessPresent(v.ID, func() (*objectstore.Object, error) {
		obj, err := df.o.store.Adopt(df.o.ctx, v, true)
		adopted = err == nil
		return obj, err
	})
	switch {
	case err != nil:
	case adopted:
		err = df.keepFile(key, obj, &a.Record)
	default:
		defer obj.Unpin()
		if err = df.keepFile(key, obj, &a.Record); err == nil {
			df.o.store.Discard(v) // not before there is another file
		}
	}
	if err != nil && df.o.ctx.Err() == nil {
		df.o.log.Warn("the file of an object is not offered again", zap.Stringer("object", v.ID), zap.Error(err))
	}
}

// unlessPresent makes an object, or takes the one that a reader here has fetched meanwhile, from another node. What it takes
// is pinned.
func (df *diskFiles) unlessPresent(oid raysys.TaskID, make func() (*objectstore.Object, error)) (*objectstore.Object, error) {
	for {
		obj, err := make()
		if !errors.Is(err, objectstore.ErrPresent) {
			return obj, err
		}
		if obj = df.o.store.Take(oid); obj != nil {
			return obj, nil
		}
		if !df.pauseForStore() { // the bytes are still on their way, or went again
			return nil, raysys.ErrClosed
		}
	}
}

// findNamed returns the record of a name or of a State, as soon as the directory answers; false when the node ends before.
func (df *diskFiles) findNamed(key string) (registry.Entry, bool) {
	for {
		a, err := runner.Wait(df.o.ctx, func(done func(registry.Entry, error)) {
			if registry.IsStateKey(key) {
				df.o.lastRecord(key, done) // behind the commits that an earlier incarnation of this node has asked for
				return
			}
			df.Directory.Find(key, done)
		})
		switch {
		case df.o.ctx.Err() != nil:
			return a, false
		case err == nil:
			return a, true
		case df.o.dir == nil: // the process's own store does not come back
			df.o.log.Warn("object store: the record of a name cannot be read, and its file stays", zap.Error(err))
			return a, false
		case !df.pauseForStore():
			return a, false
		}
	}
}

// pauseForStore waits for watchPause; false when the node ends before.
func (df *diskFiles) pauseForStore() bool {
	t := time.NewTimer(watchPause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-df.o.ctx.Done():
		return false
	}
}

// keepFile keeps an object for its name, with a file, and makes this node a location of it. While the directory does not
// answer it tries again. When the name stands for another object by now the file is deleted.
func (df *diskFiles) keepFile(key string, obj *objectstore.Object, rec *registry.Record) error {
	oid := obj.ID()
	if registry.IsStateKey(key) {
		return df.o.states.keepStateFile(key, obj, rec)
	}
	if df.o.dir == nil {
		df.keepLocalFile(key, obj, rec)
		return nil
	}
	had := false
	if !df.o.kept.keep(obj, func(k *reasons) {
		if k.owner == (core.NodeKey{}) {
			k.owner = rec.Owner
			k.unreferenced = df.o.needed(oid) == 0
		}
		had = k.keys[key] != 0
		k.keys[key], k.files = 1, rec.Files
	}) {
		return raysys.ErrReleased
	}
	unkeep := func() {
		if !had {
			df.o.unkeep(oid, func(k *reasons) { delete(k.keys, key) })
		}
	}
	if err := df.persist(df.o.ctx, obj, key); err != nil {
		unkeep()
		return err
	}
	if !df.o.mesh.Alive(rec.Owner) { // else NodeGone will be called
		df.o.ownerDied(oid, rec.Owner)
	}
	df.o.markListed(oid)
	for {
		own := *rec
		own.At = nil
		_, err := df.o.dir.ChangeWait(df.o.ctx, registry.AddCopy(own, true))
		var a registry.Entry
		if err == nil {
			a, err = df.o.dir.ChangeWait(df.o.ctx, registry.AddNamedFile(key, own))
		}
		switch {
		case df.o.ctx.Err() != nil:
			return context.Cause(df.o.ctx) // the file stays for the next incarnation
		case err == nil && a.Refused && (!a.Exists || !a.Record.Same(rec)):
			unkeep()
			return nil
		case err == nil && !a.Refused:
			if !had {
				df.o.watch(key, oid, a.Version)
			}
			df.restoreElsewhere(key, oid, a.Record.Files)
			return nil
		case !df.pauseForStore(): // the directory does not answer, or its leader does not know this incarnation yet
			return raysys.ErrClosed
		}
	}
}

// keepLocalFile is keepFile in a process without a cluster.
func (df *diskFiles) keepLocalFile(key string, obj *objectstore.Object, rec *registry.Record) {
	df.o.kept.keep(obj, func(k *reasons) {
		k.keys[key], k.files = 1, rec.Files
		if df.o.kept.byName == nil {
			df.o.kept.byName = map[string]raysys.TaskID{}
		}
		df.o.kept.byName[key] = obj.ID()
		k.unreferenced = true
	})
}

// fileFuture makes a future for a kept object that has a file and no future, in a process without a cluster.
func (df *diskFiles) fileFuture(obj *objectstore.Object) *core.Future {
	future := &core.NewUntyped(df.o.job, &storedSource{o: df.o, object: obj, size: obj.Info().Size}).Future
	df.o.atEnd(future, obj)
	df.o.kept.keep(obj, func(k *reasons) { k.future, k.unreferenced = future, false })
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
