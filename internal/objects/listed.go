package objects

import (
	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/registry"
)

// addToDirectory enters a copy in the directory, so that others find it when the owner is gone or busy.
func (o *Objects) addToDirectory(obj *objectstore.Object, owner core.NodeKey) {
	v, err := obj.Version(o.ctx)
	if err != nil {
		return
	}
	o.markListed(v.ID)
	o.dir.Update(registry.AddCopy(registry.Record{ID: v.ID, Owner: owner, Size: v.Size, Attempt: v.Attempt, Nonce: v.Nonce}, false))
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
