package system

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/store"
)

// shardActor is the actor around one shard that this node leads: one message at a time, so that what it keeps needs
// no lock. The shard's own goroutine commits; its answers come back as messages.
type shardActor struct {
	reg      *registry
	shard    *store.Shard
	placing  map[string][]*request // by placement key: who else asked while a placement is being committed
	counts   map[core.NodeKey]int  // grains placed, for the balance
	view     *placement.View       // the nodes with these counts
	gen      uint64                // of the cluster's nodes, when view was made
	draws    uint64                // placements so far, which seeds the next choice
	table    objectTable
	unreaped unreapedRecords
}

// placed is the outcome of committing a placement.
type placed struct {
	key   string
	place grainengine.Place
	err   error
}

// released tells that a placement record is gone.
type released struct{ node core.NodeKey }

// stateSaved tells that the State with this key was stored or removed.
type stateSaved string

// newShardActor counts what the table holds already.
func newShardActor(r *registry, s *store.Shard) *shardActor {
	a := &shardActor{reg: r, shard: s, placing: map[string][]*request{}, counts: map[core.NodeKey]int{}, table: newObjectTable()}
	s.Scan("g/", func(_ string, rec store.Record) bool {
		if p, err := readPlacement(rec); err == nil {
			a.counts[p.NodeKey]++
		}
		return true
	})
	return a
}

// Receive implements actor.Actor.
func (a *shardActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *request:
		a.serve(ctx, m)
	case *placed:
		a.settle(ctx, m)
		a.reapRest(ctx, m.key)
	case *released:
		if a.counts[m.node]--; a.counts[m.node] <= 0 {
			delete(a.counts, m.node)
		}
	case *reap:
		a.reap(ctx)
	case *unreaped:
		a.postpone(ctx, m.keys)
	case *againReap:
		a.reapAgain(ctx)
	case stateSaved:
		a.tell(string(m))
	case *objectsMoved:
		a.objectsCommitted(ctx, m)
		a.reapRest(ctx, m.keys...)
	case *actor.Stopping:
		// The shard ended before; a word of it about these came too late for the mailbox.
		for _, waiting := range a.placing {
			for _, q := range waiting {
				q.answer(answer{retry: true})
			}
		}
		a.placing = nil
		a.stopObjects()
	}
}

// placementVersion is the first byte of a placement record.
const placementVersion = 1

func appendPlacement(p grainengine.Place) []byte {
	return wire.AppendUvarint(wire.AppendBytes([]byte{placementVersion}, p.Node), p.Incarnation)
}

func readPlacement(rec store.Record) (grainengine.Place, error) {
	r := wire.NewReader(rec.Value)
	if v := r.Byte(); v != placementVersion {
		return grainengine.Place{}, fmt.Errorf("placement record: version %d is unknown here: upgrade this node", v)
	}
	p := grainengine.Place{NodeKey: core.NodeKey{Node: raysys.NodeID(r.String()), Incarnation: r.Uvarint()}, Token: grainengine.Token(rec.Version)}
	return p, r.Err()
}

// current returns the grain's placement if it is on a node that lives.
func (a *shardActor) current(key string) (p grainengine.Place, rec store.Record, ok bool) {
	rec, ok = a.shard.Get(key)
	if !ok {
		return p, rec, false
	}
	p, err := readPlacement(rec)
	return p, rec, err == nil && a.reg.nodes.alive(p.NodeKey)
}

func (a *shardActor) serve(ctx actor.Context, q *request) {
	if err := a.reg.nodes.suspended(); err != nil {
		q.answer(answer{err: err})
		return
	}
	switch q.op {
	case opLocate:
		a.locate(ctx, q)
	case opConfirm:
		a.confirm(q)
	case opRelease:
		a.release(ctx, q)
	case opLoad:
		a.load(q)
	case opSave:
		a.save(ctx, q)
	case opObjects:
		a.objects(ctx, q)
	case opFind:
		a.find(q)
	}
}

func (a *shardActor) locate(ctx actor.Context, q *request) {
	key := q.placementKey()
	if _, busy := a.placing[key]; busy {
		a.placing[key] = append(a.placing[key], q)
		return
	}
	p, rec, ok := a.current(key)
	if ok {
		q.answer(answer{place: p})
		return
	}
	to, err := a.choose(q)
	if err != nil {
		q.answer(answer{err: err})
		return
	}
	next := grainengine.Place{NodeKey: to}
	if !rec.Version.IsZero() {
		a.forget(rec) // it lies on a node that is dead
	}
	a.placing[key] = []*request{q}
	a.counts[to]++
	self, root := ctx.Self(), ctx.ActorSystem().Root
	b := store.Batch{Checks: []store.Check{{Key: key, Version: rec.Version}}, Puts: []store.Put{{Key: key, Value: appendPlacement(next)}}}
	a.propose(b, func(res store.Result, err error) {
		if err == nil {
			next.Token = grainengine.Token(res.Version(0))
		}
		root.Send(self, &placed{key, next, err})
	})
}

// choose finds the node for a grain. A placement that the asker could not use is avoided.
func (a *shardActor) choose(q *request) (core.NodeKey, error) {
	if nodes, gen := a.reg.nodes.nodes(); a.view == nil || gen != a.gen {
		for i := range nodes {
			nodes[i].Grains = a.counts[core.NodeKey{Node: nodes[i].ID, Incarnation: nodes[i].Incarnation}]
		}
		a.view, a.gen = placement.NewView(a.reg.nodes.self().Node, nodes), gen
	}
	a.draws++
	r := placement.Request{
		Kind: placement.Grain, Function: "grain " + q.id.Kind, Namespace: q.ns, Key: q.id.Key, Labels: q.labels,
		Strategy: q.strategy, Custom: a.reg.nodes.strategies(), Seed: a.draws ^ a.shard.Epoch()<<32,
	}
	if q.avoid.Node != "" {
		r.Avoid = []raysys.NodeID{q.avoid.Node}
	}
	// What prefers a place near the asker means the node that calls, not the leader of the shard.
	if q.strategy == raysys.PreferLocal {
		if n := a.view.Find(q.from.Node); n != nil && n.Incarnation == q.from.Incarnation && n.Worker && !n.Joining && !n.Draining && !n.Suspect &&
			n.Namespace == q.ns {
			return q.from, nil
		}
	}
	d, err := placement.Place(a.view, r)
	if own := a.view.Find(a.reg.nodes.self().Node); errors.Is(err, raysys.ErrBadOption) && own != nil && own.Namespace != q.ns {
		r.Strategy = "" // one of that program's own, which this one does not have
		d, err = placement.Place(a.view, r)
	}
	if err != nil {
		return core.NodeKey{}, err
	}
	a.view.Placed(r, d)
	return core.NodeKey{Node: d.Node, Incarnation: d.Incarnation}, nil
}

// propose is Propose with one way for errors.
func (a *shardActor) propose(b store.Batch, done func(store.Result, error)) {
	if err := a.shard.Propose(b, done); err != nil {
		done(store.Result{}, err)
	}
}

// forget takes a record that is about to be replaced or removed off the counts.
func (a *shardActor) forget(rec store.Record) {
	if p, err := readPlacement(rec); err == nil {
		if a.counts[p.NodeKey]--; a.counts[p.NodeKey] <= 0 {
			delete(a.counts, p.NodeKey)
		}
	}
}

// settle answers all who asked for a placement.
func (a *shardActor) settle(ctx actor.Context, m *placed) {
	waiting := a.placing[m.key]
	delete(a.placing, m.key)
	if m.err != nil {
		if a.counts[m.place.NodeKey]--; a.counts[m.place.NodeKey] <= 0 {
			delete(a.counts, m.place.NodeKey)
		}
	}
	if errors.Is(m.err, store.ErrConflict) { // a release or a reaping came first, and its outcome is in the table by now
		for _, q := range waiting {
			a.locate(ctx, q)
		}
		return
	}
	for _, q := range waiting {
		q.answer(a.outcome(m.err, answer{place: m.place}))
	}
}

// outcome is ok, or what err means to who asked.
func (a *shardActor) outcome(err error, ok answer) answer {
	switch {
	case err == nil:
		return ok
	case errors.Is(err, store.ErrDeposed), errors.Is(err, store.ErrClosed):
		return answer{retry: true} // it was not and will not be committed here
	case errors.Is(err, store.ErrTooLarge):
		err = fmt.Errorf("%w: %w", raysys.ErrTooLarge, err)
	case errors.Is(err, store.ErrUnknownOutcome):
		err = fmt.Errorf("%w: %w", raysys.ErrOutcomeUnknown, err)
	}
	return answer{err: err}
}

// confirm answers with the current place; whoever asks compares. That confirms a token to the node that it is placed on
// alone: to others it says where the grain is, as locate does.
func (a *shardActor) confirm(q *request) {
	p, _, ok := a.current(q.placementKey())
	if !ok {
		p = grainengine.Place{}
	}
	q.answer(answer{place: p})
}

func (a *shardActor) release(ctx actor.Context, q *request) {
	key := q.placementKey()
	if rec, ok := a.shard.Get(key); ok && grainengine.Token(rec.Version) == q.token {
		if p, err := readPlacement(rec); err == nil && p.NodeKey != q.from {
			q.answer(a.elsewhere(q, p))
			return
		}
	}
	self, root := ctx.Self(), ctx.ActorSystem().Root
	b := store.Batch{Checks: []store.Check{{Key: key, Version: store.Version(q.token)}}, Deletes: []string{key}}
	a.propose(b, func(_ store.Result, err error) {
		switch {
		case errors.Is(err, store.ErrConflict): // another placement is current: there is nothing to release
			err = nil
		case err == nil:
			root.Send(self, &released{q.from})
		}
		q.answer(a.outcome(err, answer{}))
	})
}

// elsewhere refuses what only the node that the grain is placed on may ask for.
func (a *shardActor) elsewhere(q *request, p grainengine.Place) answer {
	return answer{err: fmt.Errorf("%w: %s is placed on node %s, and %s asks for it", raysys.ErrMoved, q.id, p.NodeKey, q.from), place: p}
}

// mayTouch reports whether the activation that asks is the current one. The zero token stands for the one process
// that owns an embedded store.
func (a *shardActor) mayTouch(q *request) (answer, bool) {
	if q.token == (grainengine.Token{}) && a.reg.nodes.alone() {
		return answer{}, true
	}
	p, _, ok := a.current(q.placementKey())
	if ok && p.Token == q.token {
		if p.NodeKey != q.from {
			return a.elsewhere(q, p), false
		}
		return answer{}, true
	}
	return answer{err: fmt.Errorf("%w: activation %d.%d is not the current one of %s", raysys.ErrMoved, q.token.Epoch, q.token.Seq, q.id), place: p}, false
}

func (a *shardActor) load(q *request) {
	if no, ok := a.mayTouch(q); !ok {
		q.answer(no)
		return
	}
	ans := answer{records: make([]grainengine.Record, len(q.names))}
	for i, n := range q.names {
		if rec, ok := a.shard.Get(q.stateKey(n)); ok {
			ans.records[i] = grainengine.Record{Data: rec.Value, ETag: grainengine.ETag(rec.Version), Exists: true}
		}
	}
	// What was read is the truth if this node led the shard at some moment after it.
	a.propose(store.Batch{}, func(_ store.Result, err error) { q.answer(a.outcome(err, ans)) })
}

func (a *shardActor) save(ctx actor.Context, q *request) {
	if no, ok := a.mayTouch(q); !ok {
		q.answer(no)
		return
	}
	key := q.stateKey(q.name)
	state := store.Check{Key: key, Version: store.Version(q.etag)} // the zero ETag: it must not exist
	b := store.Batch{Checks: []store.Check{state}}
	if q.token != (grainengine.Token{}) {
		// First, so that a conflict on it is told from one on the state.
		b.Checks = []store.Check{{Key: q.placementKey(), Version: store.Version(q.token)}, state}
	}
	if q.clear {
		b.Deletes = []string{key}
	} else {
		b.Puts = []store.Put{{Key: key, Value: q.data}}
	}
	self, root := ctx.Self(), ctx.ActorSystem().Root
	a.propose(b, func(res store.Result, err error) {
		if err == nil {
			root.Send(self, stateSaved(key)) // nodes that hold objects for it look whether they still must
		}
		var conflict *store.ConflictError
		if errors.As(err, &conflict) {
			if conflict.Check.Key == key {
				err = fmt.Errorf("%w: state %q of %s was written since it was read", grains.ErrETag, q.name, q.id)
			} else {
				err = fmt.Errorf("%w: activation %d.%d is not the current one of %s", raysys.ErrMoved, q.token.Epoch, q.token.Seq, q.id)
			}
		}
		var etag grainengine.ETag
		if err == nil && !q.clear {
			etag = grainengine.ETag(res.Version(0))
		}
		q.answer(a.outcome(err, answer{etag: etag}))
	})
}
