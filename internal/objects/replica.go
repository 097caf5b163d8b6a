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

// pendingCopy is a copy that an owner asked this node to keep, until it has answered. An owner that waits no longer
// says that the copy may go, which may be heard before there is one.
type pendingCopy struct {
	ask   objectRequest
	owner core.NodeKey
	ctx   context.Context
	stop  context.CancelCauseFunc // called with keptObjects.mu held
}

// errUnwanted: the owner gave up meanwhile.
var errUnwanted = fmt.Errorf("%w: its owner does not want the copy any more", raysys.ErrCancelled)

// copyAsked notes that a copy was asked for.
func (kept *keptObjects) copyAsked(ctx context.Context, owner core.NodeKey, ask objectRequest) *pendingCopy {
	c := &pendingCopy{ask: ask, owner: owner}
	c.ctx, c.stop = context.WithCancelCause(ctx)
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if kept.copies == nil {
		kept.copies = map[*pendingCopy]struct{}{}
	}
	kept.copies[c] = struct{}{}
	return c
}

// copyAnswered ends that.
func (kept *keptObjects) copyAnswered(c *pendingCopy) {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	delete(kept.copies, c)
	c.stop(nil)
}

// keepCopy pulls a copy of the owner's object and keeps it until the owner, or the name that it has, says otherwise.
func (o *Objects) keepCopy(c *pendingCopy) error {
	defer o.kept.copyAnswered(c)
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	oid := c.ask.oid
	var had reasons // before
	enter := func(k *reasons) {
		had.forOwner = k.forOwner
		k.owner, k.forOwner = c.owner, c.ctx.Err() == nil
		k.unreferenced = o.needed(oid) == 0
		if c.ask.key != "" {
			had.keys = map[string]uint64{c.ask.key: k.keys[c.ask.key]}
			k.keys[c.ask.key] = 1
		}
	}
	var obj *objectstore.Object
	for kept := false; !kept; kept = o.kept.keep(obj, enter) { // not kept: it was here for a reference, and went with that
		var err error
		// It is not stopped half way: then it might be here a moment later, and nobody would let it go.
		obj, err = o.engine.Fetch(o.ctx, objectstore.Version{ID: oid}, transfer.From(c.owner), objectstore.Segment)
		if err != nil {
			return err
		}
		defer obj.Unpin()
	}
	err := o.enterCopy(c, obj)
	if err == nil {
		return nil
	}
	// What an earlier ask brought about stays.
	o.unkeep(oid, func(k *reasons) {
		k.forOwner = k.forOwner && had.forOwner
		for key, n := range had.keys {
			if n == 0 {
				delete(k.keys, key)
			}
		}
	})
	if o.store.Lookup(oid) == nil {
		o.removeFromDirectory(oid) // the directory may have been told of it since it was withdrawn
	}
	return err
}

// enterCopy tells the directory of a copy that is kept.
func (o *Objects) enterCopy(c *pendingCopy, obj *objectstore.Object) error {
	m, err := obj.Manifest(c.ctx)
	if err != nil {
		return err
	}
	oid, key := c.ask.oid, c.ask.key
	o.markListed(oid)
	rec := registry.Record{ID: m.ID, Owner: c.owner, Size: m.Size, Attempt: m.Attempt, Sum: m.Sum}
	_, err = o.dir.ChangeWait(c.ctx, registry.AddCopy(rec, true))
	var named registry.Entry
	if err == nil && key != "" {
		// The name may stand for it already; else the owner enters it together with this copy.
		named, err = o.dir.ChangeWait(c.ctx, registry.AddNamedCopy(key, rec))
	}
	switch {
	case err != nil || c.ctx.Err() != nil:
		return errors.Join(err, context.Cause(c.ctx))
	case key == "":
	case named.Refused:
		o.follow(key, oid)
	default:
		o.watch(key, oid, named.Version)
	}
	return nil
}

// dropCopy lets a copy go that the owner needs no more, also one that is being made.
func (o *Objects) dropCopy(oid raysys.TaskID) {
	kept := &o.kept
	kept.mu.Lock()
	for c := range kept.copies {
		if c.ask.oid == oid {
			c.stop(errUnwanted)
		}
	}
	kept.mu.Unlock()
	o.unkeep(oid, func(k *reasons) {
		k.forOwner = false
		for key, p := range k.pending { // nobody will enter it now
			o.clock.ClearAlarm(&p.alarm)
			delete(k.pending, key)
			delete(k.keys, key)
		}
	})
}
