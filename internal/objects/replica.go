package objects

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/transfer"
)

// pendingCopy is a copy that an owner asked this node to keep, until this node has answered. An owner that does not
// wait any more sends opFree, which may arrive before the copy is made.
type pendingCopy struct {
	request objectRequest
	owner   core.NodeKey
	ctx     context.Context
	stop    context.CancelCauseFunc // called with keptObjects.mu held
}

// errUnwanted: the owner sent opFree while the copy was being made.
var errUnwanted = fmt.Errorf("%w: its owner does not want the copy any more", raysys.ErrCancelled)

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
	oid := c.request.oid
	var had reasons // as they were before
	enter := func(k *reasons) {
		had.forOwner = k.forOwner
		k.owner, k.forOwner = c.owner, c.ctx.Err() == nil
		k.unreferenced = o.needed(oid) == 0
		if c.request.key != "" {
			had.keys = map[string]uint64{c.request.key: k.keys[c.request.key]}
			k.keys[c.request.key] = 1
		}
	}
	var obj *objectstore.Object
	for kept := false; !kept; kept = o.kept.keep(obj, enter) { // not kept: a copy for a reference left the store with that reference
		var err error
		// o.ctx, not c.ctx: a fetch that was stopped half way might still enter the copy, with nothing to remove it.
		obj, err = o.engine.Fetch(o.ctx, objectstore.Version{ID: oid}, transfer.From(c.owner), objectstore.Segment)
		if err != nil {
			return err
		}
		defer obj.Unpin()
	}
	var err error
	if c.request.file {
		err = o.files.persist(c.ctx, obj, c.request.key)
	}
	if err == nil {
		err = o.enterCopy(c, obj)
	}
	if err == nil {
		return nil
	}
	// The reasons that an earlier request entered stay.
	o.unkeep(oid, func(k *reasons) {
		k.forOwner = k.forOwner && had.forOwner
		for key, n := range had.keys {
			if n == 0 {
				delete(k.keys, key)
			}
		}
	})
	if o.store.Lookup(oid) == nil {
		o.removeFromDirectory(oid) // the change above may have entered it after withdraw had removed it
	}
	return err
}

// enterCopy enters a kept copy in the directory: in the object's record, and in that of its name.
func (o *Objects) enterCopy(c *pendingCopy, obj *objectstore.Object) error {
	v, err := obj.Version(c.ctx)
	if err != nil {
		return err
	}
	oid, key := c.request.oid, c.request.key
	o.markListed(oid)
	rec := registry.Record{ID: v.ID, Owner: c.owner, Size: v.Size, Attempt: v.Attempt, Nonce: v.Nonce}
	_, err = o.dir.ChangeWait(c.ctx, registry.AddCopy(rec, true))
	var named registry.Entry
	if err == nil && key != "" {
		// Where the name stands for the object already, this copy is added; else the owner enters the name with this
		// copy.
		add := registry.AddNamedCopy
		if c.request.file {
			add = registry.AddNamedFile
		}
		named, err = o.dir.ChangeWait(c.ctx, add(key, rec))
	}
	switch {
	case err != nil || c.ctx.Err() != nil:
		return errors.Join(err, context.Cause(c.ctx))
	case key == "":
	case named.Refused:
		o.follow(key, oid)
	default:
		o.kept.noteFiles(oid, &named.Record)
		o.watch(key, oid, named.Version)
	}
	return nil
}

// dropCopy ends a copy that the owner does not need any more, also one that is being made.
func (o *Objects) dropCopy(oid raysys.TaskID) {
	kept := &o.kept
	kept.mu.Lock()
	for c := range kept.copies {
		if c.request.oid == oid {
			c.stop(errUnwanted)
		}
	}
	kept.mu.Unlock()
	o.unkeep(oid, func(k *reasons) {
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
