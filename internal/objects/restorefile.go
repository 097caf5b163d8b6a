package objects

import (
	"slices"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
)

// NodeJoined tells that a node has joined. When files of objects that this node keeps lie there too, the node is told
// of them: it may have lost them with its disk. Objects whose own file was lost here can be fetched from it. It may keep copies that are missing.
func (o *Objects) NodeJoined(k core.NodeKey) {
	o.recopying.recopyShort()
	for oid, key := range o.kept.filesOf(k.Node) {
		o.files.restoreAt(k, key, oid, restoreTries)
		if _, obj := o.kept.find(oid); obj != nil && obj.Lost() != nil {
			o.files.repairFile(oid)
		}
	}
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
	df.o.ask(k, opRestore, objectRequest{oid: oid, key: key}, func(_ objectReply, err error) {
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
