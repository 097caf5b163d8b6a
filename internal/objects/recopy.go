package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/registry"
)

// A node that is gone takes its copies along. One node sees to it that an object has as many as Replicas asked for:
//
//	the owner            while it lives
//	after its death      of an object with a name: the first node by the record of the name that keeps a copy (caretaker)
//	                     of another object: none; its copies are as orphanGrace says
//
// It asks nodes that keep a copy already first: a node that drained may have left it there. An object with files is left alone: a node that
// comes back offers its file again.

const (
	// recopyAtOnce bounds the objects whose copies a node has made at the same time: each is a transfer from this node.
	recopyAtOnce = 4
	// recopyPause is the time until a node looks again at objects that have too few copies. A node that joins ends it.
	recopyPause = 30 * time.Second
)

// recopying are the objects whose copies are to be counted.
type recopying struct {
	o       *Objects
	mu      sync.Mutex // guards the rest
	due     map[raysys.TaskID]bool
	busy    map[raysys.TaskID]bool
	short   map[raysys.TaskID]error // those that have too few copies, and why
	running int                     // goroutines
	waiting bool                    // an alarm is set for short
	warned  bool                    // of short
}

// recopyOf looks after the objects that a dead node kept copies of, or whose owner it was.
func (r *recopying) recopyOf(dead core.NodeKey) {
	o := r.o
	o.kept.mu.Lock()
	var list []raysys.TaskID
	for oid, k := range o.kept.byID {
		if slices.Contains(k.replicas, dead) || k.owner == dead || k.caretaker == dead {
			list = append(list, oid)
		}
	}
	o.kept.mu.Unlock()
	r.recopy(list)
}

// recopy has the copies of objects counted, and made where there are too few.
func (r *recopying) recopy(list []raysys.TaskID) {
	o := r.o
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due == nil {
		r.due, r.busy, r.short = map[raysys.TaskID]bool{}, map[raysys.TaskID]bool{}, map[raysys.TaskID]error{}
	}
	for _, oid := range list {
		r.due[oid] = true
	}
	for r.running < min(recopyAtOnce, len(r.due)) {
		r.running++
		o.runner.Run(r.recopyDue)
	}
}

// recopyDue does the work of recopy.
func (r *recopying) recopyDue() {
	o := r.o
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		oid, ok := r.next()
		if !ok || o.ctx.Err() != nil {
			break
		}
		r.mu.Unlock()
		err := r.recopyOne(oid)
		r.mu.Lock()
		delete(r.busy, oid)
		if delete(r.short, oid); err != nil && o.ctx.Err() == nil {
			r.short[oid] = err
		}
	}
	if r.running--; r.running == 0 && o.ctx.Err() == nil {
		r.recopied()
	}
}

// next returns an object that is due. r.mu is held.
func (r *recopying) next() (raysys.TaskID, bool) {
	for oid := range r.due {
		if !r.busy[oid] {
			delete(r.due, oid)
			r.busy[oid] = true
			return oid, true
		}
	}
	return raysys.TaskID{}, false
}

// recopied is called when all that was due has been tried: one line says of how many objects copies are missing. r.mu is held.
func (r *recopying) recopied() {
	o := r.o
	missing, why := len(r.short), error(nil)
	for oid, err := range r.short {
		why = fmt.Errorf("object %s: %w", oid, err)
	}
	switch {
	case missing > 0 && !r.warned:
		o.log.Warn("objects have fewer copies than Replicas asks for, and are lost with the last; tried again", zap.Int("objects", missing), zap.Error(why))
	case missing == 0 && r.warned:
		o.log.Info("objects have as many copies as Replicas asks for again")
	}
	r.warned = missing > 0
	if missing > 0 && !r.waiting {
		r.waiting = true
		o.runner.After(recopyPause, func() {
			r.mu.Lock()
			r.waiting = false
			r.mu.Unlock()
			r.recopyShort()
		})
	}
}

// recopyShort looks again at the objects that have too few copies.
func (r *recopying) recopyShort() {
	r.mu.Lock()
	var list []raysys.TaskID
	for oid := range r.short {
		list = append(list, oid)
	}
	r.mu.Unlock()
	if list != nil {
		r.recopy(list)
	}
}

// recopyOne counts the copies of one object, if this node sees to them, and has those made that are missing.
func (r *recopying) recopyOne(oid raysys.TaskID) error {
	o := r.o
	if err := r.takeOver(oid); err != nil {
		return err
	}
	e, want := r.replicasOf(oid)
	if e == nil {
		return nil
	}
	anew := e.copies == nil // nodes that keep a copy for an owner that is dead are to keep it for this node
	if len(e.copies) >= want && !anew {
		return nil
	}
	a, _ := o.dir.FindWait(o.ctx, registry.ObjectKey(oid)) // without an answer there may be a copy more than is asked for
	keeps := func(k core.NodeKey) bool { return slices.Contains(a.Record.At, registry.Location{Node: k, Kept: true}) }
	targets := slices.DeleteFunc(o.candidates(oid), func(k core.NodeKey) bool { return slices.Contains(e.copies, k) })
	slices.SortStableFunc(targets, func(a, b core.NodeKey) int { return boolOrder(keeps(b), keeps(a)) })
	errs := []error{fmt.Errorf("%w: no other node takes a copy", raysys.ErrNoCapacity)}
	for _, k := range targets {
		if len(e.copies) >= want && !(anew && keeps(k)) {
			break
		}
		if doubt, err := o.leaves.leaveTo(o.ctx, k, oid, e); err != nil {
			if doubt { // also where keeps(k): from now on it may keep that copy for this node
				o.free(k, oid)
			}
			errs = append(errs, fmt.Errorf("node %s: %w", k.Node, err))
			continue
		}
		if e.copies = append(e.copies, k); !r.noteCopies(e) {
			o.free(k, oid)
			return nil
		}
	}
	if slices.ContainsFunc(e.copies, func(k core.NodeKey) bool { return !o.mesh.Alive(k) }) {
		r.recopy([]raysys.TaskID{oid}) // it died before NodeGone could see that it has a copy
	}
	if len(e.copies) < want {
		return errors.Join(errs...)
	}
	return nil
}

// replicasOf returns an object to whose copies this node sees, with the living nodes that keep them, and how many there should be; nil
// for another object.
func (r *recopying) replicasOf(oid raysys.TaskID) (*evacuation, int) {
	o := r.o
	o.kept.mu.Lock()
	defer o.kept.mu.Unlock()
	k := o.kept.byID[oid]
	if k == nil || len(k.files) > 0 || !k.copiesSeenTo(o.self()) {
		return nil, 0
	}
	alive := slices.DeleteFunc(slices.Clone(k.replicas), func(at core.NodeKey) bool { return !o.mesh.Alive(at) })
	return &evacuation{object: k.object, names: k.names(), copies: alive}, k.want
}

// copiesSeenTo reports whether self, whose reasons these are, sees to the copies: as the owner, or as the caretaker
// while the object has a name. keptObjects.mu is held.
func (k *reasons) copiesSeenTo(self core.NodeKey) bool { return k.want > 0 || k.caretaker == self }

// noteCopies notes which nodes keep copies, and forgets the dead; false where this node does not see to the copies any
// more, and has freed those that it knew of.
func (r *recopying) noteCopies(e *evacuation) bool {
	kept := &r.o.kept
	kept.mu.Lock()
	defer kept.mu.Unlock()
	k := kept.byID[e.object.ID()]
	if k == nil || k.object != e.object || !k.copiesSeenTo(r.o.self()) {
		return false
	}
	k.addReplicas(e.copies)
	k.replicas = slices.DeleteFunc(k.replicas, func(at core.NodeKey) bool { return !r.o.mesh.Alive(at) })
	return true
}

// addReplicas adds nodes that keep copies for this one. Those that it knows already stay: an object may be published
// again while its copies are made anew, and a node that nothing names any more would keep its copy for ever.
// keptObjects.mu is held.
func (k *reasons) addReplicas(nodes []core.NodeKey) {
	list := slices.Clone(nodes)
	for _, at := range k.replicas {
		if !slices.Contains(list, at) {
			list = append(list, at)
		}
	}
	k.replicas = list
}

// takeOver finds the node that sees to the copies of an object whose owner is dead, if it has a name: the first, by the record of the
// name, of those that live and keep a copy.
func (r *recopying) takeOver(oid raysys.TaskID) error {
	o := r.o
	for {
		o.kept.mu.Lock()
		k, names := o.kept.byID[oid], []string(nil)
		if k != nil && !o.mesh.Alive(k.owner) && !o.mesh.Alive(k.caretaker) {
			names = k.names()
		}
		o.kept.mu.Unlock()
		if names == nil {
			return nil
		}
		a, err := o.dir.FindWait(o.ctx, names[0])
		if err != nil {
			return err
		}
		at := slices.DeleteFunc(a.Record.At, func(l registry.Location) bool { return !l.Kept || !o.mesh.Alive(l.Node) })
		if a.Record.ID != oid || len(a.Record.Files) > 0 || !slices.Contains(at, registry.Location{Node: o.self(), Kept: true}) {
			return nil
		}
		o.kept.mu.Lock()
		named := k.keys[names[0]] != 0 // still: what is made for a name that has ended would stay
		if named {
			k.caretaker = at[0].Node
		}
		if named && k.caretaker == o.self() {
			k.want = max(a.Record.Replicas, 1) - 1
		}
		o.kept.mu.Unlock()
		if !named || o.mesh.Alive(at[0].Node) { // else NodeGone may have come before k.caretaker named that node
			return nil
		}
	}
}

// keepsObjects reports whether a node keeps copies for others.
func keepsObjects(n member.Node) bool { return n.Info.Role != member.Driver || n.Info.Serves }

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
