package objects

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// letGoLimit bounds LetGo. Copies that it leaves end after orphanGrace.
const letGoLimit = 2 * time.Second

// LetGo tells other nodes that this one is about to leave in good order and does not need the copies which they keep for it. Names and
// States keep a copy as before. A copy stays for orphanGrace, as after a death, where another node holds a reference to the object, where
// a State of this node lists it, or where a record of the store names it.
func (o *Objects) LetGo(ctx context.Context) {
	if o.dir == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, letGoLimit)
	defer cancel()
	o.refs.Tick() // frees what the collector has found
	list := o.copied()
	if slices.ContainsFunc(list, func(e *evacuation) bool { return len(e.holders) > 0 }) {
		o.collect(ctx, list) // a reference that its node does not need any more counts until that node collects garbage
		holders := o.refs.Holders()
		for _, e := range list {
			e.holders = o.living(holders[e.future])
		}
	}
	var wg sync.WaitGroup
	for _, e := range list {
		if len(e.holders) > 0 {
			continue
		}
		for _, at := range e.copies {
			wg.Go(func() { _ = o.askWait(ctx, at, opLeft, objectRequest{oid: e.object.ID()}) })
		}
	}
	wg.Wait()
}

// copied lists the objects of this node whose copies on other nodes may go with it, unless one of these holds a reference.
func (o *Objects) copied() (list []*evacuation) {
	holders := o.refs.Holders()
	o.kept.mu.Lock()
	defer o.kept.mu.Unlock()
	for oid, k := range o.kept.byID {
		if k.replicas != nil && k.owner == o.self() && !k.recorded && len(k.names()) == len(k.keys) {
			c := cmp.Or(k.future, o.futureOf(oid))
			list = append(list, &evacuation{future: c, object: k.object, holders: o.living(holders[c]), copies: k.replicas})
		}
	}
	return list
}

// names are the keys of the names that an object is kept for. keptObjects.mu is held.
func (k *reasons) names() (names []string) {
	for key := range k.keys {
		if isName(key) {
			names = append(names, key)
		}
	}
	return names
}

// ownerLeft ends what this node keeps for an owner that leaves in good order. A name that the owner was about to enter stays pending.
func (o *Objects) ownerLeft(r objectRequest, owner core.NodeKey) {
	o.unkeep(r.oid, func(k *reasons) { k.forOwner = k.forOwner && k.owner != owner })
}
