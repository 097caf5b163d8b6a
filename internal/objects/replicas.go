package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/registry"
)

// replicate has other nodes pull copies of an object that is here, and keep them.
func (o *Objects) replicate(ctx context.Context, obj *objectstore.Object, future *core.Future, spec core.PutSpec) ([]core.NodeKey, error) {
	want := spec.Replicas
	if !spec.Others {
		want--
	}
	if want <= 0 {
		return nil, nil
	}
	if d, err := o.Describe(future); err != nil || len(d.Refs) > 0 {
		return nil, errors.Join(err, fmt.Errorf("%w: Replicas of a value that holds references: they would end with this node", raysys.ErrBadOption))
	}
	key := ""
	if spec.Name != "" {
		key = registry.NameKey(o.namespace, spec.Name)
	}
	op := opCopy
	if spec.OnDisk {
		op = opCopyFile
	}
	var kept []core.NodeKey
	var errs []error
	for _, k := range o.candidates(obj.ID()) {
		if len(kept) == want {
			break
		}
		err := o.askWait(ctx, k, op, objectRequest{oid: obj.ID(), key: key})
		if err == nil {
			kept = append(kept, k)
			continue
		}
		if !mesh.Undelivered(err) {
			o.free(k, obj.ID()) // the node may still be making the copy, or its answer was lost
		}
		errs = append(errs, fmt.Errorf("node %s: %w", k.Node, err))
		if ctx.Err() != nil {
			break
		}
	}
	if len(kept) < want {
		o.release(&reasons{object: obj, replicas: kept})
		errs = append([]error{fmt.Errorf("%w: Replicas(%d), and %d other nodes took a copy", raysys.ErrNoCapacity, spec.Replicas, len(kept))}, errs...)
		return nil, errors.Join(errs...)
	}
	return kept, nil
}

// others counts the other workers that stay, those that do not answer included.
func (o *Objects) others() (n int) {
	for _, m := range o.view().Nodes() {
		if keepsObjects(m) && !m.Info.Draining && mesh.KeyOf(m) != o.self() {
			n++
		}
	}
	return n
}

// keepsObjects reports whether a node keeps copies for others.
func keepsObjects(n member.Node) bool { return n.Info.Role != member.Driver || n.Info.Serves }

// candidates lists the other workers that stay, in an order that differs from object to object.
func (o *Objects) candidates(oid raysys.TaskID) []core.NodeKey {
	rank := map[core.NodeKey]uint64{}
	var keys []core.NodeKey
	for _, n := range o.view().Nodes() {
		k := mesh.KeyOf(n)
		if keepsObjects(n) && !n.Info.Draining && !n.Suspect && k != o.self() {
			rank[k] = (fnv1a(string(k.Node)) ^ oid.Hi ^ oid.Lo) * 0x9e3779b97f4a7c15
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b core.NodeKey) int {
		switch {
		case rank[a] < rank[b]:
			return -1
		case rank[a] > rank[b]:
			return 1
		}
		return 0
	})
	return keys
}

// letGoLimit bounds LetGo. Copies that it leaves end after orphanGrace.
const letGoLimit = 2 * time.Second

// LetGo tells other nodes that this one is about to leave in good order and does not need the copies which they keep for it. Names and
// States keep a copy as before. A copy stays for orphanGrace, as after a death, where another node holds a reference to the object, where
// a State of this node lists it, or where it is one of recorded: the record of a task that may go on elsewhere names it.
func LetGo(ctx context.Context, o *Objects, recorded map[*core.Future]bool) {
	if o.dir == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, letGoLimit)
	defer cancel()
	o.refs.Tick() // frees what the collector has found
	list := copied(o, recorded)
	if slices.ContainsFunc(list, func(e *evacuation) bool { return len(e.holders) > 0 }) {
		o.leaves.collectDone(ctx, list) // a reference that its node does not need any more counts until that node collects garbage
		holders := o.refs.Holders()
		for _, e := range list {
			e.holders = living(o, holders[e.future])
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

// copied lists the objects of this node whose copies on other nodes may go with it, unless one of these holds a reference or the record of
// a task names it.
func copied(o *Objects, recorded map[*core.Future]bool) (list []*evacuation) {
	holders := o.refs.Holders()
	o.kept.mu.Lock()
	defer o.kept.mu.Unlock()
	for oid, k := range o.kept.byID {
		if k.replicas != nil && k.owner == o.self() && len(k.names()) == len(k.keys) {
			c := cmp.Or(k.future, o.futureOf(oid))
			if c != nil && recorded[c] {
				continue
			}
			list = append(list, &evacuation{future: c, object: k.object, holders: living(o, holders[c]), copies: k.replicas})
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
	slices.Sort(names) // all who keep the object begin with the same one
	return names
}

// ownerLeft ends what this node keeps for an owner that leaves in good order. A name that the owner was about to enter stays pending.
func ownerLeft(o *Objects, r objectRequest, owner core.NodeKey) {
	o.unkeep(r.oid, func(k *reasons) { k.forOwner = k.forOwner && k.owner != owner })
}
