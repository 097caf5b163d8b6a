package groupengine

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/placement"
)

// World is what a step sees of the cluster.
type World interface {
	// Alive reports whether an incarnation is in the cluster.
	Alive(core.NodeKey) bool
	// Draining reports whether a node is about to leave.
	Draining(core.NodeKey) bool
	// Assign is placement.Assign, by the nodes of now, with their incarnations.
	Assign(placement.GroupRequest) ([]core.NodeKey, error)
	// Expecting reports whether the cluster has workers that Assign does not know yet.
	Expecting() bool
	// Gatherable is Assign as if nothing of the nodes were taken.
	Gatherable(placement.GroupRequest) ([]core.NodeKey, error)
	// Now is the clock of the leader.
	Now() int64
}

// Progress is what a leader knows of a group beside its record. The zero Progress is that of a new leader.
type Progress struct {
	verb    Verb // the answers below are to this
	attempt uint64
	nodes   map[core.NodeKey]answered // that were asked
	avoid   []raysys.NodeID           // nodes that have refused since the last assignment which found none
	aborted []core.NodeKey            // nodes that may have bundles of an attempt which is over
	told    uint64                    // the attempt of which the nodes were told that it is held

	refusals int // attempts in a row that ended because a node had no room, against its report

	since     int64 // when the group was first seen without a node for a bundle; 0 while all have one
	gathering gathering
}

// pause is how long a group without room waits before its nodes are looked at again. It doubles with each attempt that a node
// refuses, since such an attempt is two commits.
const pause = 100 * time.Millisecond

func (p *Progress) refusedPause() time.Duration { return pause << min(p.refusals, 6) }

type answered byte

const (
	asked answered = iota + 1
	agreed
	refused
)

// Step is what a leader does next. Where it changes the record, the next step follows once that is committed.
type Step struct {
	Record *Record // the record from now on; nil where it stays
	Delete bool    // the record goes
	Asks   []To
	Wait   time.Duration // there is no room: the next step follows after this pause; 0 where there is nothing to wait for
}

// To is an Ask with its node. The answer to an answered one is given to Progress.Answer; of the others there is none.
type To struct {
	Ask
	Node     core.NodeKey
	Answered bool
	number   uint64 // of a question to gather
}

// Answer enters the answer of a node, and reports whether a step follows from it. Answers to what the leader asks no more are left
// out: a group that waits for room must not try again because of one.
func (p *Progress) Answer(t To, err error) bool {
	if t.Verb == Gather {
		return p.gatherAnswered(t, err)
	}
	if t.Verb != p.verb || t.Attempt != p.attempt || p.nodes[t.Node] != asked {
		return false
	}
	p.nodes[t.Node] = agreed
	if err != nil {
		p.nodes[t.Node] = refused
	}
	return true
}

// Step returns what to do next with the group of that key, of which no change is being committed.
func (p *Progress) Step(key string, r *Record, w World) Step {
	switch {
	case r.Removing:
		ends := p.endGathering(key, r, w)
		s := p.remove(key, r, w)
		s.Asks = append(ends, s.Asks...)
		return s
	case r.Owner != core.NodeKey{} && !w.Alive(r.Owner):
		return Step{Record: Remove(r)}
	case r.Never != "":
		return Step{}
	}
	if slices.ContainsFunc(r.Bundles, func(b Bundle) bool { return b.At != core.NodeKey{} && !b.Held }) {
		return p.prepare(key, r, w)
	}
	s := Step{}
	for _, n := range p.aborted {
		if w.Alive(n) {
			s.Asks = append(s.Asks, To{Ask: Ask{Verb: Drop, Group: key, ID: r.ID, Attempt: r.Attempt}, Node: n})
		}
	}
	p.aborted = nil
	if s.Record = p.gathered(r, w); s.Record != nil {
		return s
	}
	next, must := p.assign(r, w)
	if must && p.since == 0 {
		p.since = max(w.Now(), 1)
	} else if !must {
		s.Asks = append(s.Asks, p.endGathering(key, r, w)...)
		p.since, p.gathering = 0, gathering{number: p.gathering.number}
	}
	switch {
	case next != nil:
		s.Record = next
	case must:
		asks, wait := p.gather(key, r, w)
		s.Asks, s.Wait, p.avoid = append(s.Asks, asks...), min(p.refusedPause(), wait), nil
	case p.told != r.Attempt:
		p.told = r.Attempt
		for _, n := range nodesOf(r, w, func(Bundle) bool { return true }) {
			s.Asks = append(s.Asks, To{Ask: Ask{Verb: Hold, Group: key, ID: r.ID, Attempt: r.Attempt}, Node: n})
		}
	}
	return s
}

// Remove is r once its removal has begun.
func Remove(r *Record) *Record {
	next := r.clone()
	next.Removing = true
	return next
}

// listAsks returns the asks for the nodes that have not been asked.
func (p *Progress) listAsks(v Verb, key string, r *Record, nodes []core.NodeKey) (list []To) {
	if p.verb != v || p.attempt != r.Attempt {
		p.verb, p.attempt, p.nodes = v, r.Attempt, map[core.NodeKey]answered{}
	}
	for _, n := range nodes {
		if p.nodes[n] != 0 {
			continue
		}
		p.nodes[n] = asked
		t := To{Ask: Ask{Verb: v, Group: key, ID: r.ID, Attempt: r.Attempt}, Node: n, Answered: true}
		for i, b := range r.Bundles {
			if v == Prepare && b.At == n && !b.Held {
				t.Bundles = append(t.Bundles, Asked{i, b.Needs})
			}
		}
		list = append(list, t)
	}
	return list
}

// remove has the nodes release what they have. One that could not be asked is asked again after a pause, while it lives.
func (p *Progress) remove(key string, r *Record, w World) (s Step) {
	nodes := nodesOf(r, w, func(Bundle) bool { return true })
	for _, n := range r.Left {
		if w.Alive(n) && !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	for n, a := range p.nodes {
		if p.verb == Release && a == refused {
			delete(p.nodes, n)
		}
	}
	s.Asks = p.listAsks(Release, key, r, nodes)
	s.Delete = !slices.ContainsFunc(nodes, func(n core.NodeKey) bool { return p.nodes[n] != agreed })
	return s
}

// prepare has the nodes of an assignment take the room, and ends the attempt: all of them have it, or it is over.
func (p *Progress) prepare(key string, r *Record, w World) (s Step) {
	open := func(b Bundle) bool { return !b.Held }
	nodes := nodesOf(r, w, open)
	s.Asks = p.listAsks(Prepare, key, r, nodes)
	dies := slices.ContainsFunc(r.Bundles, func(b Bundle) bool { return !b.Held && b.At != core.NodeKey{} && !w.Alive(b.At) })
	missing := false
	for _, n := range nodes {
		if p.nodes[n] == refused {
			p.avoid = append(p.avoid, n.Node)
			p.refusals++
			if r.Attempt == p.gathering.attempt {
				p.gathering.rests = w.Now() + int64(p.refusedPause())
			}
			dies = true
		}
		missing = missing || p.nodes[n] != agreed
	}
	if missing && !dies {
		return s
	}
	p.verb, p.nodes = 0, nil // the attempt is over: what nodes answer now says nothing
	s = Step{Record: r.clone()}
	for i := range s.Record.Bundles {
		b := &s.Record.Bundles[i]
		switch {
		case b.Held:
		case dies:
			b.At, b.Attempt = core.NodeKey{}, 0
		case b.At != core.NodeKey{}:
			b.Held = true
		}
	}
	if dies {
		p.aborted = append(p.aborted, nodes...)
	} else {
		p.avoid, p.refusals = nil, 0
	}
	return s
}

// assign gives the bundles a node that have none, or a dead or a draining one. must is false where all have one that lives: a
// bundle on a draining node stays while no other has room. Where nodes gather for the group nothing is free that it can have.
func (p *Progress) assign(r *Record, w World) (next *Record, must bool) {
	g := request(r, w)
	g.Avoid = slices.Clone(p.avoid)
	for n := range p.gathering.nodes {
		if p.gathering.at != nil {
			g.Avoid = append(g.Avoid, n.Node)
		}
	}
	moves := false
	for i, b := range r.Bundles {
		switch {
		case !has(b, w):
			must = true
		case w.Draining(b.At):
			g.At[i], moves = "", true
		}
	}
	if !must && !moves {
		return nil, false
	}
	to, err := w.Assign(g)
	if err != nil && must && moves {
		g.At = request(r, w).At
		to, err = w.Assign(g)
	}
	if next := hoped(r, err, w); next != nil {
		return next, must
	}
	if err != nil {
		return lost(r, w), must
	}
	return assigned(r, w, g, to), must
}

// hoped is r once it is known whether the nodes, of which it hoped for more, could ever have its bundles: err is that of an assignment. It
// is nil for a group that does not hope, and while the nodes are not all there. A group for which they once were enough waits whatever
// becomes of them: nodes come back.
func hoped(r *Record, err error, w World) *Record {
	never := errors.Is(err, raysys.ErrNoCapacity)
	if !r.Hopes || err == nil || never && w.Expecting() {
		return nil
	}
	next := r.clone()
	next.Hopes = false
	if never {
		next.Never = strings.TrimPrefix(err.Error(), raysys.ErrNoCapacity.Error()+": ")
	}
	return next
}

// request asks for nodes for the bundles that have none, or a dead one.
func request(r *Record, w World) placement.GroupRequest {
	g := placement.GroupRequest{Strategy: r.Strategy, Namespace: r.Namespace}
	for _, b := range r.Bundles {
		at := raysys.NodeID("")
		if has(b, w) {
			at = b.At.Node
		}
		g.Bundles, g.At = append(g.Bundles, b.Needs), append(g.At, at)
	}
	return g
}

// has reports whether a bundle has a node that lives.
func has(b Bundle, w World) bool { return b.At != core.NodeKey{} && w.Alive(b.At) }

// assigned is r under its next attempt: those bundles that g wants nodes for are at these.
func assigned(r *Record, w World, g placement.GroupRequest, to []core.NodeKey) *Record {
	next := r.clone()
	next.Attempt, next.Hopes = next.Attempt+1, false
	next.Left = slices.DeleteFunc(next.Left, func(n core.NodeKey) bool { return !w.Alive(n) })
	for i := range next.Bundles {
		if b := &next.Bundles[i]; g.At[i] == "" {
			if b.Held && w.Alive(b.At) && !slices.Contains(next.Left, b.At) {
				next.Left = append(next.Left, b.At)
			}
			b.At, b.Attempt, b.Held = to[i], next.Attempt, false
		}
	}
	return next
}

// lost is r without the nodes that are dead, so that it does not say of the bundles there that they are held; nil where there is none.
func lost(r *Record, w World) *Record {
	gone := func(b Bundle) bool { return b.At != core.NodeKey{} && !w.Alive(b.At) }
	if !slices.ContainsFunc(r.Bundles, gone) {
		return nil
	}
	next := r.clone()
	for i, b := range next.Bundles {
		if gone(b) {
			next.Bundles[i] = Bundle{Needs: b.Needs}
		}
	}
	return next
}

// New is the record of a group that is made, with an assignment where there is room now. The error is that of an assignment that
// can never be, unless the group waits even so, or hopes for workers that w does not know yet.
func New(r Record, w World) (*Record, error) {
	g := placement.GroupRequest{Strategy: r.Strategy, Namespace: r.Namespace}
	for i := range r.Bundles {
		g.Bundles = append(g.Bundles, r.Bundles[i].Needs)
	}
	to, err := w.Assign(g)
	next := &Record{ID: r.ID, Owner: r.Owner, Namespace: r.Namespace, Strategy: r.Strategy, Made: r.Made, Waits: r.Waits} // what is done with a group, no node may claim
	for i := range r.Bundles {
		b := Bundle{Needs: r.Bundles[i].Needs}
		if err == nil {
			b.At, b.Attempt, next.Attempt = to[i], 1, 1
		}
		next.Bundles = append(next.Bundles, b)
	}
	if errors.Is(err, raysys.ErrNoCapacity) && !r.Waits {
		if next.Hopes = w.Expecting(); !next.Hopes {
			return nil, err
		}
	}
	return next, nil
}

// nodesOf lists the living nodes of those bundles, in the order of the bundles.
func nodesOf(r *Record, w World, which func(Bundle) bool) (list []core.NodeKey) {
	for _, b := range r.Bundles {
		if b.At != (core.NodeKey{}) && which(b) && !slices.Contains(list, b.At) && w.Alive(b.At) {
			list = append(list, b.At)
		}
	}
	return list
}
