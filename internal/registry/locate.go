package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
)

// locate asks where a grain is. A grain that has no placement, or one on a dead node, is placed. Every node may ask.
type locate struct {
	grain
	placeAnswer
	strategy raysys.Strategy
	labels   map[string]string // the node must have them all
	needs    raysys.Resources  // what the grain holds
	avoid    graindir.Place    // a placement that the asker could not use
	always   bool              // it is woken where its placement ends by itself
	bundle   core.Bundle       // what it holds that of; zero for the node
	at       core.NodeKey      // the node that has the bundle, as far as the asker knows

	conditions []placement.Condition
}

func (*locate) code() code { return codeLocate }

// maxLabels bounds the labels of one request.
const maxLabels = 64

func (o *locate) append(dst []byte) []byte {
	dst = wire.AppendBytes(o.grain.append(dst), o.strategy)
	dst = wire.AppendUvarint(dst, uint64(len(o.labels)))
	for k, v := range o.labels {
		dst = wire.AppendBytes(wire.AppendBytes(dst, k), v)
	}
	dst = appendPlace(dst, o.avoid)
	if !o.holds() && o.bundle.Group == "" && len(o.conditions) == 0 && !o.always {
		return dst // most grains: what follows would only take room
	}
	needs, err := json.Marshal(o.needs)
	if err != nil {
		panic(err) // its amounts are valid, or the kind is not defined
	}
	if dst = wire.AppendBytes(dst, needs); o.bundle.Group == "" && len(o.conditions) == 0 && !o.always {
		return dst
	}
	if o.bundle.Group != "" { // it decides on the node: there are no conditions
		dst = appendBundle(wire.AppendNode(dst, o.at), o.bundle)
	} else {
		dst = appendConditions(wire.AppendNode(dst, core.NodeKey{}), o.conditions)
	}
	if o.always { // a leader of a version before passes over it
		dst = append(dst, 1)
	}
	return dst
}

func (o *locate) holds() bool { return !reflect.DeepEqual(o.needs, raysys.Resources{}) }

func (o *locate) read(r *wire.Reader) error {
	if err := o.grain.read(r); err != nil {
		return err
	}
	o.strategy = raysys.Strategy(r.String())
	n := r.Count(2)
	if n > maxLabels {
		return fmt.Errorf("%w: %d labels", wire.ErrCorrupt, n)
	}
	for range n {
		if o.labels == nil {
			o.labels = map[string]string{}
		}
		k := r.String()
		o.labels[k] = r.String()
	}
	o.avoid = readPlace(r)
	if r.Len() == 0 {
		return nil
	}
	if err := json.Unmarshal(r.Bytes(), &o.needs); err != nil || o.needs.Validate() != nil {
		return fmt.Errorf("%w: the resources of a grain: %w", wire.ErrCorrupt, errors.Join(err, o.needs.Validate()))
	}
	if r.Len() == 0 {
		return nil
	}
	var err error
	if o.at = wire.ReadNode(r); o.at.Node != "" {
		o.bundle = readBundle(r)
	} else {
		o.conditions, err = readConditions(r)
	}
	o.always = r.Len() > 0 && r.Byte() == 1
	return err
}

// placed is the outcome of committing a placement.
type placed struct {
	key   string
	place graindir.Placed
	err   error
}

func (o *locate) serve(l *leader, q *asked[graindir.Placed]) {
	key := o.placementKey()
	if _, busy := l.placing[key]; busy {
		l.placing[key] = append(l.placing[key], q)
		return
	}
	p, rec, ok := l.current(key)
	if ok {
		q.answer(p, nil)
		return
	}
	to, err := o.choose(l, q.from)
	if err != nil {
		q.fail(err)
		return
	}
	next := graindir.Placed{Place: graindir.Place{NodeKey: to}, Bundle: o.bundle}
	if !rec.Version.IsZero() { // the record places the grain on a dead node
		if p, err := readPlacement(rec); err == nil {
			l.uncount(p.NodeKey)
		}
	}
	l.placing[key] = []*asked[graindir.Placed]{q}
	l.counts[to]++
	b := shardlog.Batch{Checks: []shardlog.Check{{Key: key, Version: rec.Version}}, Puts: []shardlog.Put{{Key: key, Value: appendPlacement(next)}}}
	if _, there := l.shard.Get(o.alwaysKey()); o.always && !there {
		b.Puts = append(b.Puts, shardlog.Put{Key: o.alwaysKey(), Value: []byte{alwaysVersion}})
	}
	l.propose(b, func(res shardlog.Result, err error) {
		if err == nil {
			next.Token = graindir.Token(res.Version(0))
		}
		l.post(&placed{key, next, err})
	})
}

// choose finds the node for a grain. A placement that the asker could not use is avoided.
func (o *locate) choose(l *leader, from core.NodeKey) (core.NodeKey, error) {
	self := l.reg.cfg.Members.Self().Node
	v := l.view()
	if o.bundle.Group != "" {
		return o.inBundle(l, v)
	}
	l.draws++
	r := placement.Request{
		Kind: placement.Grain, Function: "grain " + o.id.Kind, Namespace: o.ns, Key: o.id.Key, Labels: o.labels, Conditions: o.conditions, Needs: o.needs,
		Strategy: o.strategy, Custom: l.reg.cfg.Strategies, Seed: l.draws ^ l.shard.Epoch()<<32,
	}
	if o.avoid.Node != "" {
		r.Avoid = []raysys.NodeID{o.avoid.Node}
	}
	// PreferLocal means the node that asks, not the leader of the shard.
	if o.strategy == raysys.PreferLocal {
		r.From = from.Node
		if n := v.Find(from.Node); n != nil && !o.holds() && n.Incarnation == from.Incarnation && n.Worker && !n.Joining && !n.Draining && !n.Suspect &&
			n.Namespace == o.ns && r.Meets(n) {
			return from, nil
		}
	}
	d, err := placement.Place(v, r)
	if own := v.Find(self); errors.Is(err, raysys.ErrBadOption) && own != nil && own.Namespace != o.ns {
		r.Strategy = "" // the strategy is of the asker's program, which this node does not run
		d, err = placement.Place(v, r)
	}
	if errors.Is(err, placement.ErrNoNode) && o.holds() {
		r.Queue = true // it waits where it is placed
		d, err = placement.Place(v, r)
	}
	if err != nil {
		return core.NodeKey{}, err
	}
	v.Placed(r, d)
	to := core.NodeKey{Node: d.Node, Incarnation: d.Incarnation}
	l.nodes.taken(to, o.needs, l.reg.cfg.Runner.Now())
	if placed := l.reg.cfg.Placed; placed != nil {
		placed(o.id, d)
	}
	return to, nil
}

// inBundle is choose for a grain in a bundle: its node is where the asker says that this is. That node refuses the grain if it is
// not there.
func (o *locate) inBundle(l *leader, v *placement.View) (core.NodeKey, error) {
	n := v.Find(o.at.Node)
	if n == nil || n.Incarnation != o.at.Incarnation || !n.Worker || n.Joining || n.Draining {
		return core.NodeKey{}, fmt.Errorf("%w: node %s, which has the bundle of %s, takes no grain", raysys.ErrOverloaded, o.at, o.id)
	}
	v.Placed(placement.Request{Kind: placement.Grain}, placement.Decision{Node: n.ID, Incarnation: n.Incarnation}) // its needs are taken
	if placed := l.reg.cfg.PlacedIn; placed != nil {
		placed(o.id, o.bundle, o.at)
	}
	return o.at, nil
}

// release removes the placement of a grain if the token is current, or puts it on another node. The node that the grain
// is placed on may ask. The answer is the new place; none where the record was removed, or the token is not current.
type release struct {
	grain
	to   core.NodeKey // zero: nowhere. A leader of a version before does not read it, and removes the record.
	ends bool         // the grain, which is always on, is woken no more
}

func (*release) code() code { return codeRelease }

func (o *release) append(dst []byte) []byte {
	if dst = o.grain.append(dst); o.to.Node == "" && !o.ends {
		return dst
	}
	if dst = wire.AppendNode(dst, o.to); o.ends {
		dst = append(dst, 1)
	}
	return dst
}

func (o *release) read(r *wire.Reader) error {
	if err := o.grain.read(r); err != nil || r.Len() == 0 {
		return err
	}
	o.to = wire.ReadNode(r)
	o.ends = r.Len() > 0 && r.Byte() == 1
	return r.Err()
}

func (*release) appendAnswer(dst []byte, p graindir.Place) []byte {
	if p.IsZero() {
		return dst
	}
	return appendPlace(dst, p)
}

func (*release) readAnswer(r *wire.Reader) (p graindir.Place, err error) {
	if r.Len() > 0 {
		p = readPlace(r)
	}
	return p, nil
}

func (o *release) serve(l *leader, q *asked[graindir.Place]) {
	key := o.placementKey()
	if rec, ok := l.shard.Get(key); ok && graindir.Token(rec.Version) == o.token {
		if p, err := readPlacement(rec); err == nil && p.NodeKey != q.from {
			q.fail(o.elsewhere(p.Place, q.from))
			return
		}
	}
	b := shardlog.Batch{Checks: []shardlog.Check{{Key: key, Version: shardlog.Version(o.token)}}}
	next := graindir.Placed{Place: graindir.Place{NodeKey: o.to}}
	_, busy := l.placing[key]
	moves := !busy && takesGrains(l, o.to)
	if moves {
		l.placing[key] = nil // who locates the grain meanwhile gets the new place
		l.counts[o.to]++
		b.Puts = []shardlog.Put{{Key: key, Value: appendPlacement(next)}}
	} else {
		b.Deletes = []string{key}
	}
	if o.ends {
		b.Deletes = append(b.Deletes, o.alwaysKey())
	}
	l.propose(b, func(res shardlog.Result, err error) {
		if moves {
			if err == nil {
				next.Token = graindir.Token(res.Version(0))
			}
			l.post(&placed{key, next, err})
		}
		if err == nil {
			l.post(&released{q.from, o.name()})
		}
		if err != nil || !moves {
			next = graindir.Placed{}
		}
		if errors.Is(err, shardlog.ErrConflict) { // another placement is current: there is nothing to release
			err = nil
		}
		q.answer(next.Place, outcome(err))
	})
}

// takesGrains reports whether a grain may be put on a node, as this leader sees it.
func takesGrains(l *leader, k core.NodeKey) bool {
	n := l.view().Find(k.Node)
	return n != nil && n.Incarnation == k.Incarnation && l.alive(k) && n.Worker &&
		!n.Joining && !n.Draining && !n.Suspect
}

// confirm asks where a grain is, without placing it. A node that gets a call for the grain asks, and compares the
// call's token with the answer. Every node may ask: the answer confirms the token to the node that it names, and tells
// other nodes where the grain is.
type confirm struct {
	grain
	placeAnswer
}

func (*confirm) code() code { return codeConfirm }

func (o *confirm) serve(l *leader, q *asked[graindir.Placed]) {
	p, _, ok := l.current(o.placementKey())
	if !ok {
		p = graindir.Placed{}
	}
	q.answer(p, nil)
}
