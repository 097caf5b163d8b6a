package system

import (
	"errors"
	"fmt"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/store"
)

// objectTable is the leader's part of the object directory: the records lie in the shard's table, who waits for a
// change lies here and is asked for again at the next leader.
type objectTable struct {
	moving   map[string][]*request // keys with a change that is being committed: who comes behind it
	watching map[string][]*request
	open     map[*request]bool // whose changes are being committed
}

func newObjectTable() objectTable {
	return objectTable{map[string][]*request{}, map[string][]*request{}, map[*request]bool{}}
}

// objectsMoved is the outcome of committing changes.
type objectsMoved struct {
	q       *request // nil for a reaping
	answers []objectAnswer
	keys    []string
	err     error
}

// objects makes changes of the directory, all or none of them durable; each on its own may be refused.
func (a *shardActor) objects(ctx actor.Context, q *request) {
	for i := range q.changes {
		ch := &q.changes[i]
		if a.reg.conf.ShardOf(ch.key) != a.reg.conf.ShardOf(q.slotKey()) {
			q.answer(answer{err: fmt.Errorf("%w: changes of objects in several shards", wire.ErrCorrupt)})
			return
		}
		if _, busy := a.table.moving[ch.key]; busy {
			a.table.moving[ch.key] = append(a.table.moving[ch.key], q)
			return
		}
	}
	now := map[string]*objectAnswer{}
	before := map[string]store.Version{}
	answers := make([]objectAnswer, len(q.changes))
	for i := range q.changes {
		ch := &q.changes[i]
		o := now[ch.key]
		if o == nil {
			o = &objectAnswer{}
			if rec, ok := a.shard.Get(ch.key); ok {
				r, err := recordOf(rec)
				if err != nil {
					q.answer(answer{err: err})
					return
				}
				*o = objectAnswer{exists: true, rec: r, version: rec.Version}
				before[ch.key] = rec.Version
			}
		}
		after, exists, ok := ch.apply(o.rec, o.exists, q.from, a.reg.nodes.alive)
		if !ok {
			answers[i] = *o
			answers[i].refused = true
			continue
		}
		o.rec, o.exists = after, exists
		now[ch.key] = o
		answers[i] = *o
	}
	a.moveObjects(ctx, q, now, before, answers)
}

// moveObjects commits what the records are now.
func (a *shardActor) moveObjects(ctx actor.Context, q *request, now map[string]*objectAnswer, before map[string]store.Version, answers []objectAnswer) {
	if len(now) == 0 {
		if q != nil {
			q.answer(answer{objects: answers})
		}
		return
	}
	if q != nil {
		a.table.open[q] = true
	}
	var b store.Batch
	keys := make([]string, 0, len(now))
	puts := map[string]int{}
	for key, o := range now {
		keys = append(keys, key)
		a.table.moving[key] = nil
		if o.exists || before[key] != (store.Version{}) {
			b.Checks = append(b.Checks, store.Check{Key: key, Version: before[key]})
		}
		if o.exists {
			puts[key] = len(b.Puts)
			b.Puts = append(b.Puts, store.Put{Key: key, Value: o.rec.append(nil)})
		} else {
			b.Deletes = append(b.Deletes, key)
		}
	}
	self, root := ctx.Self(), ctx.ActorSystem().Root
	a.propose(b, func(res store.Result, err error) {
		if err == nil {
			for i := range answers {
				if n, ok := puts[q.changes[i].key]; ok && !answers[i].refused {
					answers[i].version = res.Version(n)
				}
			}
		}
		root.Send(self, &objectsMoved{q, answers, keys, err})
	})
}

// objectsCommitted answers who asked for the changes, lets those behind them go on and tells who waits for them.
func (a *shardActor) objectsCommitted(ctx actor.Context, m *objectsMoved) {
	delete(a.table.open, m.q)
	var next []*request
	for _, key := range m.keys {
		next = append(next, a.table.moving[key]...)
		delete(a.table.moving, key)
	}
	switch {
	case m.q == nil:
		if refusedForNow(m.err) {
			a.postpone(ctx, m.keys)
		}
	case errors.Is(m.err, store.ErrConflict):
		next = append([]*request{m.q}, next...)
	default:
		m.q.answer(a.outcome(m.err, answer{objects: m.answers}))
	}
	if m.err == nil {
		for _, key := range m.keys {
			a.tell(key)
		}
	}
	for _, q := range next {
		a.objects(ctx, q)
	}
}

// tell answers those who wait for a change of key.
func (a *shardActor) tell(key string) {
	waiting := a.table.watching[key]
	delete(a.table.watching, key)
	for _, q := range waiting {
		a.find(q)
	}
}

// find answers with a record, or keeps the question until there is another than the asker has seen.
func (a *shardActor) find(q *request) {
	var o objectAnswer
	rec, ok := a.shard.Get(q.key)
	switch {
	case !ok:
	case strings.HasPrefix(q.key, "s/"):
		o = objectAnswer{exists: true, version: rec.Version, held: grainengine.Held(rec.Value)}
	default:
		r, err := recordOf(rec)
		if err != nil {
			q.answer(answer{err: err})
			return
		}
		o = objectAnswer{exists: true, rec: r, version: rec.Version}
	}
	if q.wait && o.version == q.seen {
		a.table.watching[q.key] = append(a.table.watching[q.key], q)
		return
	}
	q.answer(answer{objects: []objectAnswer{o}})
}

// stopObjects sends those who wait to the next leader, and those whose changes may have been committed: a change that
// is made again has the outcome that it would have had later.
func (a *shardActor) stopObjects() {
	for q := range a.table.open {
		q.answer(answer{retry: true})
	}
	for _, table := range []map[string][]*request{a.table.moving, a.table.watching} {
		for _, waiting := range table {
			for _, q := range waiting {
				q.answer(answer{retry: true})
			}
		}
	}
	a.table = objectTable{}
}
