package objects

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/runner"
)

// letGoLimit bounds LetGo. Copies that it leaves end after orphanGrace.
const letGoLimit = 2 * time.Second

// copied is an object of this node of which other nodes keep copies.
type copied struct {
	id     raysys.TaskID
	future *core.Future // nil: nothing here refers to the object
	at     []core.NodeKey
}

// LetGo tells other nodes that this one is about to leave in good order and does not need the copies which they keep for it. Names and
// States keep a copy as before. A copy stays for orphanGrace, as after a death, where another node holds a reference to the object, where
// a State of this node lists it, or where a record of the store names it.
func (o *Objects) LetGo(ctx context.Context) {
	if o.dir == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, letGoLimit)
	defer cancel()
	list := o.copied()
	held := o.holdersOf(list)
	if len(held) > 0 { // a reference that its node does not need any more counts until that node collects garbage
		o.collect(ctx, held)
		held = o.holdersOf(list)
	}
	needed := map[*core.Future]bool{}
	for _, e := range held {
		needed[e.future] = true
	}
	_, _ = runner.Wait(ctx, func(done func(struct{}, error)) { // what is not answered in time ends later
		left := atomic.Int64{}
		left.Store(1)
		answered := func(objectReply, error) {
			if left.Add(-1) == 0 {
				done(struct{}{}, nil)
			}
		}
		for _, c := range list {
			if c.future != nil && needed[c.future] {
				continue
			}
			for _, at := range c.at {
				left.Add(1)
				o.ask(at, opLeft, objectRequest{oid: c.id}, answered)
			}
		}
		answered(objectReply{}, nil)
	})
}

// copied lists the objects of this node whose copies on other nodes may go with it.
func (o *Objects) copied() (list []copied) {
	o.kept.mu.Lock()
	defer o.kept.mu.Unlock()
	for oid, k := range o.kept.byID {
		if k.owner != o.self() || k.recorded || k.listed() {
			continue
		}
		c := copied{id: oid, future: k.future}
		for _, at := range k.replicas {
			if o.mesh.Alive(at) {
				c.at = append(c.at, at)
			}
		}
		if c.at != nil {
			list = append(list, c)
		}
	}
	return list
}

// listed reports whether a State lists the object. keptObjects.mu is held.
func (k *reasons) listed() bool {
	for key := range k.keys {
		if !isName(key) {
			return true
		}
	}
	return false
}

// holdersOf says which other nodes hold references to the objects of a list.
func (o *Objects) holdersOf(list []copied) (held []*evacuation) {
	if len(list) == 0 {
		return nil
	}
	for i := range list {
		if list[i].future == nil {
			list[i].future = o.futureOf(list[i].id)
		}
	}
	all := o.refs.Holders()
	for _, c := range list {
		if holders := o.living(all[c.future]); len(holders) > 0 {
			held = append(held, &evacuation{future: c.future, holders: holders})
		}
	}
	return held
}

// ownerLeft ends what this node keeps for an owner that leaves in good order. A name that the owner was about to enter stays pending.
func (o *Objects) ownerLeft(oid raysys.TaskID, owner core.NodeKey) {
	o.unkeep(oid, func(k *reasons) { k.forOwner = k.forOwner && k.owner != owner })
}
