package objects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/backoff"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
)

// A named object that was put with raysys.OnDisk lies in a file on each node that keeps it. The record of its name lists
// these nodes, and the label of the file is the key of that record. So the record alone says how long a file stays: a
// later incarnation of the node asks for it, offers the file again or deletes it (files.go). A node whose file is
// damaged or gone gets the bytes of another one (files.go).

// Files is what a node needs to keep objects on disk.
type Files struct {
	// Missing says what the configuration of the node lacks for that; empty: nothing.
	Missing string
	// StoreID is the random id of the store that has the records of names. Files of another store are left alone.
	StoreID string
	// Directory has these records.
	Directory *registry.Directory
}

// diskFiles are the objects of this node that stay in files.
type diskFiles struct {
	o *Objects
	Files
	recovered chan struct{} // closed when the files of earlier incarnations have been looked at
}

// labelOf is what the file of an object is kept for.
func (df *diskFiles) labelOf(key string) string { return df.StoreID + "\x00" + key }

// keyOfLabel returns the key in a label; false: the label is of another store.
func (df *diskFiles) keyOfLabel(label string) (key string, ours bool) {
	id, key, _ := strings.Cut(label, "\x00")
	return key, id == df.StoreID
}

// putOnDisk gives an object that is about to be named its file.
func (df *diskFiles) putOnDisk(ctx context.Context, future *core.Future, obj *objectstore.Object, key string) error {
	d, err := df.o.Describe(future)
	if err != nil {
		return err
	}
	if len(d.Refs) > 0 {
		return fmt.Errorf("%w: OnDisk of a value that holds references: what they stand for would not come back", raysys.ErrBadOption)
	}
	return df.persist(ctx, obj, key)
}

// persist gives an object a file under the key of its name.
func (df *diskFiles) persist(ctx context.Context, obj *objectstore.Object, key string) error {
	if df.Missing != "" {
		return fmt.Errorf("%w: OnDisk on node %s: %s", raysys.ErrNoStore, df.o.name, df.Missing)
	}
	return obj.Persist(ctx, df.labelOf(key))
}

// onDisk are the nodes that have a file, this one and others.
func onDisk(self core.NodeKey, others []core.NodeKey) []raysys.NodeID {
	nodes := []raysys.NodeID{self.Node}
	for _, k := range others {
		nodes = append(nodes, k.Node)
	}
	return nodes
}

// withFiles lists the nodes to ask for a named object: its owner, its locations, and nodes with a file that have come
// back and are no location yet.
func (df *diskFiles) withFiles(rec *registry.Record) []registry.Location {
	list := append([]registry.Location{{Node: rec.Owner, Kept: true}}, rec.At...)
	for _, name := range rec.Files {
		if k, ok := df.currentOf(name); ok && !slices.ContainsFunc(list, func(l registry.Location) bool { return l.Node == k }) {
			list = append(list, registry.Location{Node: k, Kept: true})
		}
	}
	return list
}

// currentOf returns the incarnation of a node that is a member.
func (df *diskFiles) currentOf(name raysys.NodeID) (core.NodeKey, bool) {
	if name == df.o.self().Node {
		return df.o.self(), true
	}
	n, ok := df.o.view().Node(name)
	return core.NodeKey{Node: name, Incarnation: n.Incarnation}, ok
}

// allAway is the error while some of the nodes that have an object's file are no members: they may come back with it. It
// is nil when all of them are.
func (df *diskFiles) allAway(files []raysys.NodeID) error {
	var names []string
	for _, name := range files {
		if _, ok := df.currentOf(name); !ok {
			names = append(names, string(name))
		}
	}
	if names == nil {
		return nil
	}
	return fmt.Errorf("%w: its file is on node %s, which is not in the cluster now: start that node again", raysys.ErrUnreachable, strings.Join(names, " and on node "))
}

// whyDenied is the error of a node that does not have an object, with what became of its file.
func (df *diskFiles) whyDenied(oid raysys.TaskID, obj *objectstore.Object) error {
	why := df.o.store.Damaged(oid)
	if obj != nil {
		why = obj.Lost()
	}
	if why == nil {
		why = errors.New("it has neither a copy nor a file")
	}
	return fmt.Errorf("%w: node %s does not keep it: %w", raysys.ErrObjectLost, df.o.self(), why)
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
func (df *diskFiles) pauseForStore() bool { return backoff.Wait(df.o.ctx, watchPause) }

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

// restoreElsewhere tells the other members that have a file of an object by its record, in case they have lost it.
func (df *diskFiles) restoreElsewhere(key string, oid raysys.TaskID, files []raysys.NodeID) {
	for _, name := range files {
		if k, ok := df.currentOf(name); ok && k != df.o.self() {
			df.restoreAt(k, key, oid, restoreTries)
		}
	}
}

// restoreTries bounds how often a node is told of a file that it should have.
const restoreTries = 5

// restoreAt tells a node of a file that it should have.
func (df *diskFiles) restoreAt(k core.NodeKey, key string, oid raysys.TaskID, tries int) {
	df.o.askNode(k, opRestore, objectRequest{oid: oid, key: key}, func(_ objectReply, err error) {
		if err != nil && tries > 1 && df.o.ctx.Err() == nil && df.o.mesh.Alive(k) {
			df.o.clock.SetAlarm(&core.Alarm{At: df.o.clock.Now() + int64(watchPause), Ring: func() { df.restoreAt(k, key, oid, tries-1) }})
		}
	})
}

// restoreFile gives this node the file of a named object that it should have by the record, if it has none: it fetches
// the bytes from another node.
func (df *diskFiles) restoreFile(key string, oid raysys.TaskID) error {
	if err := df.awaitRecovered(df.o.ctx); err != nil {
		return err
	}
	if _, obj := df.o.kept.find(oid); obj != nil && obj.Lost() == nil && obj.Persisted() {
		return nil
	}
	a, ok := df.findNamed(key)
	rec := &a.Record
	if !ok || !a.Exists || rec.ID != oid || !slices.Contains(rec.Files, df.o.self().Node) {
		return nil
	}
	w := &whereabouts{o: df.o, oid: oid, files: rec.Files, lenders: func() (list []core.NodeKey) {
		for _, l := range df.withFiles(rec) {
			list = append(list, l.Node)
		}
		return list // with the owner; this node is left out
	}}
	v := objectstore.Version{ID: oid, Attempt: rec.Attempt, Size: rec.Size, Nonce: rec.Nonce}
	obj, err := df.unlessPresent(oid, func() (*objectstore.Object, error) { return df.o.engine.Fetch(df.o.ctx, v, w, objectstore.Segment) })
	if err != nil {
		return err
	}
	defer obj.Unpin()
	df.o.log.Info("the file of an object is made anew", zap.Stringer("object", oid))
	return df.keepFile(key, obj, rec)
}

// lostHere is called when the last form of an object in this node's store is gone.
func (df *diskFiles) lostHere(oid raysys.TaskID, err error) {
	df.o.log.Warn("object lost", zap.Stringer("object", oid), zap.Error(err))
	df.repairFile(oid)
}

// repairFile fetches an object whose file was damaged from another node that has one. When there is none it is tried again
// when such a node joins.
func (df *diskFiles) repairFile(oid raysys.TaskID) {
	if df.o.dir == nil {
		return
	}
	key, ok := df.o.kept.filesOf(df.o.self().Node)[oid]
	if !ok {
		return
	}
	df.o.runner.Run(func() {
		if err := df.restoreFile(key, oid); err != nil && df.o.ctx.Err() == nil {
			df.o.log.Warn("the file of an object cannot be made anew", zap.Stringer("object", oid), zap.Error(err))
		}
	})
}
