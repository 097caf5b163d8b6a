package system

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/store"
)

// reap asks a shard's leader to remove what incarnations have there that are not alive.
type reap struct{}

// unreaped tells that what a reaping proposed for these keys was refused, againReap that the pause after that is over.
type (
	unreaped  struct{ keys []string }
	againReap struct{}
)

// unreapedRecords are the records that a reaping could not look at or change. Each is looked at again.
type unreapedRecords struct {
	left map[string]bool
	due  bool // an againReap will come
}

// reaper is one reaping: it gathers what is to be removed, and proposes it in batches.
type reaper struct {
	a      *shardActor
	ctx    actor.Context
	known  map[core.NodeKey]bool
	places store.Batch
	now    map[string]*objectAnswer
	before map[string]store.Version
}

func (a *shardActor) reaper(ctx actor.Context) *reaper {
	return &reaper{a: a, ctx: ctx, known: map[core.NodeKey]bool{}, now: map[string]*objectAnswer{}, before: map[string]store.Version{}}
}

// reap takes who is not alive out of all records and off the counts, and forgets their questions. Nodes that joined a
// moment ago are alive, and an incarnation does not come back: to look twice does no harm.
func (a *shardActor) reap(ctx actor.Context) {
	g := a.reaper(ctx)
	for key, waiting := range a.table.watching {
		var rest []*request
		for _, q := range waiting {
			if g.alive(q.from) {
				rest = append(rest, q)
			}
		}
		if len(rest) == 0 {
			delete(a.table.watching, key)
		} else {
			a.table.watching[key] = rest
		}
	}
	for key := range a.table.moving { // some of them are not there yet
		a.leave(key)
	}
	for key := range a.placing {
		a.leave(key)
	}
	for _, prefix := range []string{"g/", "o/", "n/"} {
		a.shard.Scan(prefix, func(key string, rec store.Record) bool {
			g.look(key, rec)
			return true
		})
	}
	g.flush()
	for k := range a.counts {
		if !g.alive(k) {
			delete(a.counts, k)
		}
	}
}

// reapRest looks again at those of the keys that were busy when a reaping came to them.
func (a *shardActor) reapRest(ctx actor.Context, keys ...string) {
	if len(a.unreaped.left) == 0 {
		return
	}
	g := a.reaper(ctx)
	for _, key := range keys {
		if !a.unreaped.left[key] {
			continue
		}
		delete(a.unreaped.left, key)
		if rec, ok := a.shard.Get(key); ok {
			g.look(key, rec)
		}
	}
	g.flush()
}

// refusedForNow tells whether a removal may succeed later. A shard that is led from here no more is another's to clear
// up.
func refusedForNow(err error) bool {
	return errors.Is(err, store.ErrConflict) || errors.Is(err, raysys.ErrOverloaded)
}

// postpone has the keys looked at again after a pause.
func (a *shardActor) postpone(ctx actor.Context, keys []string) {
	for _, key := range keys {
		a.leave(key)
	}
	if a.unreaped.due {
		return
	}
	a.unreaped.due = true
	self, root := ctx.Self(), ctx.ActorSystem().Root
	a.reg.nodes.later(func() { root.Send(self, &againReap{}) })
}

func (a *shardActor) leave(key string) {
	if a.unreaped.left == nil {
		a.unreaped.left = map[string]bool{}
	}
	a.unreaped.left[key] = true
}

// reapAgain looks at all that is left.
func (a *shardActor) reapAgain(ctx actor.Context) {
	a.unreaped.due = false
	a.reapRest(ctx, slices.Collect(maps.Keys(a.unreaped.left))...)
}

// alive asks once for each node: a reaping sees one cluster.
func (g *reaper) alive(k core.NodeKey) bool {
	alive, known := g.known[k]
	if !known {
		alive = g.a.reg.nodes.alive(k)
		g.known[k] = alive
	}
	return alive
}

// look strikes the dead off one record.
func (g *reaper) look(key string, rec store.Record) {
	a := g.a
	if strings.HasPrefix(key, "g/") {
		p, err := readPlacement(rec)
		if _, busy := a.placing[key]; busy {
			a.leave(key)
		} else if err == nil && !g.alive(p.NodeKey) {
			// On condition: a grain that was placed anew meanwhile stays.
			g.places.Checks = append(g.places.Checks, store.Check{Key: key, Version: rec.Version})
			g.places.Deletes = append(g.places.Deletes, key)
		}
	} else {
		o, err := recordOf(rec)
		if _, busy := a.table.moving[key]; busy {
			a.leave(key)
		} else if err == nil && (o.reap(g.alive) || len(o.at) == 0 && key[0] == 'o' && !g.alive(o.owner)) {
			// A name that nobody has the bytes of says what was lost, to those who ask for it.
			g.now[key] = &objectAnswer{exists: len(o.at) > 0 || key[0] == 'n', rec: o}
			g.before[key] = rec.Version
		}
	}
	if len(g.places.Deletes) == maxChanges || len(g.now) == maxChanges {
		g.flush()
	}
}

// flush proposes what was gathered.
func (g *reaper) flush() {
	if keys := g.places.Deletes; len(keys) > 0 {
		self, root := g.ctx.Self(), g.ctx.ActorSystem().Root
		g.a.propose(g.places, func(_ store.Result, err error) {
			if refusedForNow(err) {
				root.Send(self, &unreaped{keys})
			}
		})
		g.places = store.Batch{}
	}
	g.a.moveObjects(g.ctx, nil, g.now, g.before, nil)
	g.now, g.before = map[string]*objectAnswer{}, map[string]store.Version{}
}
