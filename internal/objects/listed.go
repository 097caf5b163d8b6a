package objects

import (
	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/registry"
)

// addToDirectory enters a copy in the directory, so that others find it when the owner is gone or busy.
func (o *Objects) addToDirectory(obj *objectstore.Object, owner core.NodeKey) {
	m, err := obj.Manifest(o.ctx)
	if err != nil {
		return
	}
	o.markListed(m.ID)
	o.dir.Update(registry.AddCopy(registry.Record{ID: m.ID, Owner: owner, Size: m.Size, Attempt: m.Attempt, Sum: m.Sum}, false))
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

// removeFromDirectory takes a copy out of the directory.
func (o *Objects) removeFromDirectory(oid raysys.TaskID) {
	if o.dir != nil && o.ctx.Err() == nil {
		o.dir.Update(registry.RemoveCopy(oid))
	}
}
