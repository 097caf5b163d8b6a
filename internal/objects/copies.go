package objects

import (
	"context"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
)

// A node asks others to keep copies, and tells them that these may go. Either may be lost or late: who is in doubt whether
// another node keeps a copy frees it, and who asks again does so behind that.

// copyAt is a copy that another node keeps, or may keep, for this one.
type copyAt struct {
	node core.NodeKey
	oid  raysys.TaskID
}

// freeing tells a node that its copy may go, until that node has answered or is dead. It ends too when this node asks
// for the copy anew.
type freeing struct{ copyAt }

func (f *freeing) send(o *Objects) {
	if o.kept.freeUnanswered(f.copyAt) != f {
		return
	}
	o.askNode(f.node, opFree, objectRequest{oid: f.oid}, func(_ objectReply, err error) {
		if err != nil && o.ctx.Err() == nil && o.mesh.Alive(f.node) { // a dead node keeps nothing
			o.clock.SetAlarm(&core.Alarm{At: o.clock.Now() + int64(watchPause), Ring: func() { f.send(o) }})
			return
		}
		o.kept.endFree(f)
	})
}

// askToKeep asks a node to keep an object. One that has not answered yet that an earlier copy may go is told so first:
// told later, it would give up what it keeps now.
func askToKeep(ctx context.Context, o *Objects, at core.NodeKey, op objectOp, request objectRequest) error {
	if f := o.kept.freeUnanswered(copyAt{at, request.oid}); f != nil {
		o.kept.endFree(f)
		if err := o.askWait(ctx, at, opFree, objectRequest{oid: request.oid}); err != nil {
			o.free(at, request.oid)
			return err
		}
	}
	return o.askWait(ctx, at, op, request)
}

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

// begin keeps an object while the request for a copy of it is answered, until end; false when it has left the store
// already.
func (c *pendingCopy) begin(o *Objects, obj *objectstore.Object) bool {
	return o.kept.keep(obj, func(k *reasons) {
		k.copying++
		k.unreferenced = o.needed(obj.ID()) == 0 && o.futureOf(obj.ID()) == nil
	})
}

// end enters what an answered request keeps the object for, and nothing where it failed or the owner does not want the
// copy any more. Another request for the same object may be answered meanwhile, and has reasons of its own.
func (c *pendingCopy) end(o *Objects, err error) error {
	oid, key := c.request.oid, c.request.key
	o.unkeep(oid, func(k *reasons) {
		k.copying--
		if err == nil {
			err = context.Cause(c.ctx)
		}
		if err != nil {
			return
		}
		// A node that drains leaves its copy to others, to the owner too: that keeps the object as before, for itself.
		// So does one that keeps a copy for the owner already.
		if k.owner != o.self() && o.futureOf(oid) == nil && !keptForOther(o, k, c.owner) {
			k.owner, k.forOwner = c.owner, true
		}
		if key != "" {
			k.keys[key] = 1
		}
	})
	return err
}

// keptForOther reports whether an object is kept for a node other than that one, which stays in the cluster.
// keptObjects.mu is held.
func keptForOther(o *Objects, k *reasons, that core.NodeKey) bool {
	return k.forOwner && k.owner != that && o.leaves.staysAt(k.owner)
}
