package objects

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/wire"
)

// operation is what one node asks another about an object. The numbers are on the wire.
type operation byte

const (
	opCopy   operation = 1 // pull a copy and keep it
	opFree   operation = 2 // the copy may go
	opExport operation = 3 // a reference to an object that is kept
	opRetain operation = 4 // keep the object of this node while a State's record lists it
	// opCollect: give back the references of the asker that are not needed. The answer comes behind them.
	opCollect operation = 5
)

// question is the question.
type question struct {
	oid raysys.TaskID
	key string // copy: of the directory, where the name of the object is; empty for none. hold: of the State
}

// reply is what was said.
type reply struct {
	number uint64        // lend: in the exports of who answers, 0 when it has only a copy
	id     raysys.TaskID // lend: the submission's
}

// ask asks a node about an object.
func (o *Objects) ask(at core.NodeKey, op operation, ask question, done func(reply, error)) {
	o.mesh.Call(at, func(calls *mesh.Calls) {
		mesh.Ask(calls, wire.Requests, wire.KindKeep, func(dst []byte) []byte {
			return wire.AppendBytes(wire.AppendID(append(dst, byte(op)), ask.oid), ask.key)
		}, func(r *wire.Reader) (reply, error) { return reply{r.Uvarint(), r.ID()}, nil }, done)
	}, func(err error) { done(reply{}, fmt.Errorf("%w: %w", raysys.ErrNotDelivered, err)) })
}

// askWait is keepAt for those who wait.
func (o *Objects) askWait(ctx context.Context, at core.NodeKey, op operation, ask question) error {
	_, err := runner.Wait(ctx, func(done func(reply, error)) { o.ask(at, op, ask, done) })
	return err
}

// Serve serves KindKeep.
func (o *Objects) Serve(p *mesh.Peer, r *wire.Reader, to mesh.Reply) error {
	op, ask := operation(r.Byte()), question{oid: r.ID(), key: r.String()}
	if err := r.Err(); err != nil {
		return err
	}
	answer := func(to mesh.Reply, a reply, err error) {
		if err != nil {
			to.Fail(err)
			return
		}
		to.Send(wire.AppendID(wire.AppendUvarint(to.Head(), a.number), a.id))
	}
	switch op {
	case opCopy:
		cp := o.kept.copyAsked(o.ctx, p.Key(), ask) // now: what comes behind it on the connection may be that it is not wanted
		o.runner.Background(func() { answer(to, reply{}, o.keepCopy(cp)) }, func(err error) { o.kept.copyAnswered(cp); to.Fail(err) })
	case opFree:
		o.dropCopy(ask.oid)
		answer(to, reply{}, nil)
	case opExport:
		a, err := o.export(p, ask.oid)
		answer(to, a, err)
	case opRetain:
		answer(to, reply{}, o.retain(ask.key, ask.oid))
	case opCollect:
		last := func() { answer(to.Behind(), reply{}, nil) } // Requests is the class of the drops
		o.runner.Background(func() { o.pressure(); o.refs.Tick(); o.refs.AfterDrops(last) }, to.Fail)
	default:
		to.Fail(fmt.Errorf("object operation %d is unknown on node %s: upgrade it", op, o.self()))
	}
	return nil
}

// export gives the peer a reference to an object that is kept here.
func (o *Objects) export(p *mesh.Peer, oid raysys.TaskID) (a reply, err error) {
	future, obj := o.kept.find(oid)
	switch {
	case obj == nil:
		return a, fmt.Errorf("%w: node %s does not keep it", raysys.ErrObjectLost, o.self())
	case future == nil:
		return a, nil
	}
	if a.number, err = refs.Of(p).Export(future); err != nil {
		return a, err
	}
	a.id = future.ID()
	return a, nil
}

// future returns a future for what the node at was asked to lend: one of its exports, or the object itself, whose copies
// the directory finds.
func (a reply) future(o *Objects, at core.NodeKey, rec *registry.Record) *core.Future {
	if a.number != 0 {
		return o.refs.Take(a.id, at, a.number)
	}
	s := o.refs.Uncounted(at, a.id) // nobody counts a reference to a copy
	return &core.NewForeign(o.job, o.NewSource(s, refs.Description{OID: rec.ID, Owner: rec.Owner, Size: rec.Size})).Future
}

// replicate has other nodes pull copies of an object that is here, and keep them.
func (o *Objects) replicate(ctx context.Context, obj *objectstore.Object, future *core.Future, spec core.PutSpec) ([]core.NodeKey, error) {
	if spec.Replicas <= 1 {
		return nil, nil
	}
	if d, err := o.Describe(future); err != nil || len(d.Refs) > 0 {
		return nil, errors.Join(err, fmt.Errorf("%w: Replicas of a value that holds references: they would end with this node", raysys.ErrBadOption))
	}
	key := ""
	if spec.Name != "" {
		key = registry.NameKey(o.namespace, spec.Name)
	}
	var kept []core.NodeKey
	var errs []error
	for _, k := range o.candidates(obj.ID()) {
		if len(kept) == spec.Replicas-1 {
			break
		}
		err := o.askWait(ctx, k, opCopy, question{obj.ID(), key})
		if err == nil {
			kept = append(kept, k)
			continue
		}
		if !mesh.Undelivered(err) {
			o.free(k, obj.ID()) // it may be at it still, or its answer was lost
		}
		errs = append(errs, fmt.Errorf("node %s: %w", k.Node, err))
		if ctx.Err() != nil {
			break
		}
	}
	if len(kept) < spec.Replicas-1 {
		o.release(&reasons{object: obj, replicas: kept})
		errs = append([]error{fmt.Errorf("%w: Replicas(%d), and %d other nodes took a copy", raysys.ErrNoCapacity, spec.Replicas, len(kept))}, errs...)
		return nil, errors.Join(errs...)
	}
	return kept, nil
}

// candidates are the other workers, in an order that differs from object to object.
func (o *Objects) candidates(oid raysys.TaskID) []core.NodeKey {
	rank := map[core.NodeKey]uint64{}
	var keys []core.NodeKey
	for _, n := range o.view().Nodes() {
		k := mesh.KeyOf(n)
		if (n.Info.Role != member.Driver || n.Info.Serves) && !n.Info.Draining && !n.Suspect && k != o.self() {
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

// needed says how many references here stand for an object of another node.
func (o *Objects) needed(oid raysys.TaskID) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.needs[oid].count
}
