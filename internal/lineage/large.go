package lineage

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wire"
)

// The store's servers have all records in memory, and a record takes 126 KiB at most. So a recipe above 4 KiB, which its
// argument makes large, is an object of the submitter, and the record says where. It is made when the task is recorded.
//
//	fitRecipe ──▶ object, copies ──▶ the record: id, owner and name of the object ··· the record goes ──▶ the object goes
//	                             │ the submitter is dead
//	openRecipe ◀── the recipe ◀── a copy
//
//	task                        copies, before the record commits             found by
//	with a name                 in files of two nodes, a driver not counted   name
//	to which a State refers     the same, before the State is written         id, then name
//	any other                   on the submitter and one other node           id
//	that had another submitter  as if a State referred to it                  name
//
// A recipe that no other node takes is in the record if it fits, and else with the submitter alone.

// largeRecipe is a recipe that is an object. It lives as long as the task is this node's.
type largeRecipe struct {
	lineage *Lineage
	future  *core.Future // has the object, or a copy
	name    string       // that the object has in the cluster, where it has one
	named   atomic.Bool  // it may have the name
}

const (
	// maxInline is the largest recipe in a record: an argument of 4 KiB, and what else a recipe has.
	maxInline = 4<<10 + 512
	// mayInline is the largest recipe that a record takes, beside names and an outcome.
	mayInline = registry.MaxTask - raysys.ObjectSize - 4<<10
	// largeVersion is the first byte of what a record has in the place of a recipe: id, owner and name of the object, and the
	// function.
	largeVersion = 2
)

// largeRecipes makes and reads the recipes that are objects.
type largeRecipes struct {
	l    *Lineage
	made atomic.Uint64
}

// fitRecipe returns what the record of a task shall have of its recipe, and the object that it may be. The record of a name outlives
// all nodes. then is called once, on any goroutine.
func (lr *largeRecipes) fitRecipe(k registry.TaskKey, function string, recipe []byte, then func([]byte, *largeRecipe, error)) {
	if len(recipe) <= maxInline {
		then(recipe, nil, nil)
		return
	}
	lr.l.cfg.Runner.Background(func() {
		n := lr.made.Add(1)
		o := &largeRecipe{lineage: lr.l, future: core.Own(lr.l.cfg.Job, n, recipe), name: drawnName("recipe", k, fmt.Sprintf("%s %d", lr.l.cfg.Self(), n))}
		err := o.publish(k.Named(), len(recipe) <= mayInline)
		switch {
		case err == nil:
			head := wire.AppendNode(wire.AppendID([]byte{largeVersion}, o.future.ID()), lr.l.cfg.Self())
			then(wire.AppendBytes(wire.AppendBytes(head, o.name), function), o, nil)
		case away(err) && k.Named():
			o.drop()
			then(nil, nil, err)
		default:
			o.drop()
			then(recipe, nil, nil)
		}
	}, func(err error) { then(nil, nil, err) })
}

// publish makes the copies of the object. strict asks for all of them; else as few as there are will do.
func (o *largeRecipe) publish(stays, strict bool) (err error) {
	l := o.lineage
	names, ctx := l.cfg.Job.Objects.(core.Names), l.cfg.Runner.Context()
	if !stays {
		err = names.Publish(ctx, o.future, core.PutSpec{Replicas: 2})
		if err != nil && !strict && o.future.Failure() == nil {
			l.cfg.Log("the recipe of a task is on this node alone", "object", o.future.ID(), "error", err)
			err = nil
		}
		return err
	}
	o.named.Store(true)
	if strict {
		return names.Publish(ctx, o.future, core.PutSpec{Name: o.name, Replicas: 2, OnDisk: true, Others: l.cfg.Driver})
	}
	return l.publish(o.future, o.name)
}

// drop frees the name of the object.
func (o *largeRecipe) drop() {
	if o == nil || !o.named.Load() {
		return
	}
	l := o.lineage
	l.cfg.Runner.Run(func() {
		for away(l.cfg.Job.Objects.(core.Names).Forget(l.cfg.Runner.Context(), o.name)) && l.cfg.Runner.Pause(untilAgain) {
		}
	})
}

// makeStay has the recipes of a task and of what it is made of outlive all nodes, for a State that refers to the task: those of them that
// are objects and whose submitter this node is. then is called once, on any goroutine.
func (lr *largeRecipes) makeStay(rec *taskengine.Recipe, then func()) {
	var list []*task
	lr.l.mu.Lock()
	for next := []*taskengine.Recipe{rec}; len(next) > 0; {
		rec, next = next[len(next)-1], next[:len(next)-1]
		t := lr.l.own[registry.TaskKey{Run: rec.Run(), ID: rec.ID()}]
		if t == nil || t.stays { // and what it is made of
			continue
		}
		if t.stays = true; t.large != nil {
			list = append(list, t)
		}
		next = append(next, rec.Needs()...)
	}
	lr.l.mu.Unlock()
	if list == nil {
		then()
		return
	}
	lr.l.cfg.Runner.Background(func() {
		for _, t := range list {
			lr.copyRecipe(t)
		}
		then()
	}, func(error) { then() })
}

// copyAgain has the recipe of an adopted task copied: the last submitter was one of the nodes that had it. The copies are objects of this
// node, which the next submitter finds by the name in the record.
func (lr *largeRecipes) copyAgain(k registry.TaskKey) {
	lr.l.mu.Lock()
	t := lr.l.own[k]
	lr.l.mu.Unlock()
	if t == nil || t.large == nil {
		return
	}
	lr.l.cfg.Runner.Background(func() { lr.copyRecipe(t) }, func(error) {})
}

// copyRecipe makes copies of the recipe of a task that is recorded, under its name.
func (lr *largeRecipes) copyRecipe(t *task) {
	if err := t.large.publish(true, false); err != nil {
		lr.l.cfg.Log("the recipe of a task has fewer copies than it should", "object", t.large.future.ID(), "error", err)
	}
	lr.l.mu.Lock()
	gone := t.gone
	lr.l.mu.Unlock()
	if gone {
		t.large.drop()
	}
}

// openRecipe brings the recipe that was recorded: recipe is what the record has of it. then is called once, on any goroutine; an error
// names the function.
func (lr *largeRecipes) openRecipe(k registry.TaskKey, recipe []byte, then func([]byte, *largeRecipe, error)) {
	at, function, err := readLarge(recipe)
	if at == nil || err != nil {
		then(recipe, nil, err)
		return
	}
	o := lr.largeOf(at)
	from := []core.Source{at.source(lr.l), &namedObject{recorded: at, lineage: lr.l, what: "recipe of a task"}}
	if k.Named() {
		from[0], from[1] = from[1], from[0]
	}
	o.read(from, func(b []byte, err error) {
		if errors.Is(err, raysys.ErrObjectLost) {
			err = taskengine.Unmade(function, fmt.Errorf("its recipe, an object of %s: %w", at.owner, err))
		}
		then(b, o, err)
	})
}

// readLarge reads where the recipe is, and of which function; at is nil where the record has the recipe itself.
func readLarge(recipe []byte) (at *recorded, function string, err error) {
	if len(recipe) == 0 || recipe[0] != largeVersion {
		return nil, "", nil
	}
	r := wire.NewReader(recipe[1:])
	at = &recorded{form: inputOther, id: r.ID(), owner: wire.ReadNode(&r), name: r.String()}
	function = r.String()
	return at, function, r.Err()
}

// largeOf is the recipe of a record that another node has made, which may have published it under its name.
func (lr *largeRecipes) largeOf(at *recorded) *largeRecipe {
	o := &largeRecipe{lineage: lr.l, name: at.name}
	o.named.Store(true)
	return o
}

// read brings the recipe from the first of the sources that has it. It is lost where all say so: an error of a node that may come back
// counts more.
func (o *largeRecipe) read(from []core.Source, then func([]byte, error)) {
	var r core.Ref[[]byte]
	err := core.SetRefFuture(&r, &core.NewUntyped(o.lineage.cfg.Job, from[0]).Future)
	if err == nil {
		o.future = core.FutureOf(r.Link)
		err = o.future.Pin()
	}
	if err != nil {
		then(nil, err)
		return
	}
	refs.WhenHere(o.future, func(v any, err error) {
		defer o.future.Unpin()
		switch {
		case err == nil:
			then(*v.(*[]byte), nil)
		case len(from) > 1:
			o.read(from[1:], func(b []byte, second error) {
				if second == nil || errors.Is(err, raysys.ErrObjectLost) && !errors.Is(second, raysys.ErrNotFound) {
					err = second
				}
				then(b, err)
			})
		default:
			then(nil, err)
		}
	})
}
