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

// copying is a copy that an owner asked this node to keep, until it has answered. An owner that waits no longer says that
// the copy may go, which may be heard before there is one.
type copying struct {
	ask   keepAsk
	owner core.NodeKey
	ctx   context.Context
	stop  context.CancelCauseFunc // called with names.mu held
}

// errUnwanted: the owner gave up meanwhile.
var errUnwanted = fmt.Errorf("%w: its owner does not want the copy any more", raysys.ErrCancelled)

// copies notes that a copy was asked for.
func (n *names) copies(ctx context.Context, owner core.NodeKey, ask keepAsk) *copying {
	c := &copying{ask: ask, owner: owner}
	c.ctx, c.stop = context.WithCancelCause(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.copying == nil {
		n.copying = map[*copying]struct{}{}
	}
	n.copying[c] = struct{}{}
	return c
}

// copied ends that.
func (n *names) copied(c *copying) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.copying, c)
	c.stop(nil)
}

// lentNoMore lets a copy go that the owner needs no more, also one that is being made.
func (o *Objects) lentNoMore(oid raysys.TaskID) {
	n := &o.names
	n.mu.Lock()
	for c := range n.copying {
		if c.ask.oid == oid {
			c.stop(errUnwanted)
		}
	}
	n.mu.Unlock()
	o.unkeep(oid, func(k *keeping) {
		k.lent = false
		for key, e := range k.entering { // nobody will enter it now
			o.clock.ClearAlarm(&e.alarm)
			delete(k.entering, key)
			delete(k.names, key)
		}
	})
}

// keepFor pulls a copy of the owner's object and keeps it until the owner, or the name that it has, says otherwise.
func (o *Objects) keepFor(c *copying) error {
	defer o.names.copied(c)
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	oid := c.ask.oid
	var had keeping // before
	enter := func(k *keeping) {
		had.lent = k.lent
		k.owner, k.lent = c.owner, c.ctx.Err() == nil
		k.free = o.needed(oid) == 0
		if c.ask.key != "" {
			had.names = map[string]uint64{c.ask.key: k.names[c.ask.key]}
			k.names[c.ask.key] = 1
		}
	}
	var obj *objectstore.Object
	for kept := false; !kept; kept = o.names.keep(obj, enter) { // not kept: it was here for a reference, and went with that
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
	o.unkeep(oid, func(k *keeping) {
		k.lent = k.lent && had.lent
		for key, n := range had.names {
			if n == 0 {
				delete(k.names, key)
			}
		}
	})
	if o.store.Lookup(oid) == nil {
		o.gone(oid) // the directory may have been told of it since it was withdrawn
	}
	return err
}

// enterCopy tells the directory of a copy that is kept.
func (o *Objects) enterCopy(c *copying, obj *objectstore.Object) error {
	m, err := obj.Manifest(c.ctx)
	if err != nil {
		return err
	}
	oid, key := c.ask.oid, c.ask.key
	o.list(oid)
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
