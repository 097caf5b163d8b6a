package groupengine

import (
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/placement"
)

const (
	// gatherEvery is how often a leader asks nodes again that gather, which else end it.
	gatherEvery = 2 * time.Second
	// gatherFirst is how long nodes gather at first, and gatherMost at most: it doubles each time that this was too short.
	gatherFirst, gatherMost = 30 * time.Second, 10 * time.Minute
	// gatherRest is the pause when all nodes have refused.
	gatherRest = time.Second
)

// gathering is what a leader knows of the room that nodes gather for a group: for bundles without a node what they refuse is not
// free, and what becomes free is taken by the next small task.
type gathering struct {
	want    placement.GroupRequest // that the nodes gather for
	at      []core.NodeKey         // the nodes of its bundles; nil while none gathers
	goes    bool                   // no node has refused at once
	nodes   map[core.NodeKey]answered
	number  uint64 // of the last question, of all of the group: an answer to an earlier one says nothing
	began   int64
	asked   int64  // when the nodes were last asked
	rests   int64  // until when none is asked
	attempt uint64 // the last that nodes have gathered for
	limit   time.Duration
	avoid   []raysys.NodeID // nodes that have not gathered, since all had a chance
}

// Gathers reports whether nodes gather room for the group, and none has refused at once.
func (p *Progress) Gathers() bool { return p.gathering.at != nil && p.gathering.goes }

// gather has nodes gather room for a group that has waited for core.AgeStep. It returns what to ask, and when to look again.
func (p *Progress) gather(key string, r *Record, w World) (asks []To, wait time.Duration) {
	g, now := &p.gathering, w.Now()
	if g.at != nil {
		if p.goesOn(r, w) {
			if now-g.asked >= int64(gatherEvery) {
				asks = p.askToGather(key, r, now)
			}
			if now-g.began < int64(pause) { // those that refuse do so at once
				return asks, pause
			}
			g.goes = true
			return asks, gatherEvery
		}
		asks = p.endGathering(key, r, w)
	}
	if wait = time.Duration(max(p.since+int64(core.AgeStep), g.rests) - now); wait > 0 {
		return asks, wait
	}
	want := request(r, w)
	want.Avoid = g.avoid
	at, err := w.Gatherable(want)
	if err != nil {
		g.avoid, g.rests = nil, now+int64(gatherRest)
		return asks, gatherRest
	}
	g.want, g.at, g.goes, g.began, g.limit = want, at, false, now, max(g.limit, gatherFirst)
	again := p.askToGather(key, r, now)
	asks = slices.DeleteFunc(asks, func(end To) bool { return g.nodes[end.Node] != 0 }) // it might come after the question
	return append(asks, again...), pause
}

// goesOn reports whether what is gathered is of use still, and no node has refused or had its time.
func (p *Progress) goesOn(r *Record, w World) bool {
	g := &p.gathering
	for n, a := range g.nodes {
		if a == refused || !w.Alive(n) {
			return false
		}
	}
	return slices.Equal(g.want.At, request(r, w).At) && w.Now()-g.began < int64(g.limit)
}

// gathered is r with the assignment that all nodes have gathered for, or nil.
func (p *Progress) gathered(r *Record, w World) *Record {
	g := &p.gathering
	if g.at == nil || !p.goesOn(r, w) {
		return nil
	}
	for _, a := range g.nodes {
		if a != agreed {
			return nil
		}
	}
	next := assigned(r, w, g.want, g.at)
	g.at, g.attempt = nil, next.Attempt
	return next
}

// askToGather asks the nodes that gather for their bundles once more.
func (p *Progress) askToGather(key string, r *Record, now int64) (list []To) {
	g := &p.gathering
	g.nodes, g.asked = map[core.NodeKey]answered{}, now
	g.number++
	for i, n := range g.at {
		if g.want.At[i] != "" {
			continue
		}
		k := slices.IndexFunc(list, func(t To) bool { return t.Node == n })
		if k < 0 {
			k, g.nodes[n] = len(list), asked
			list = append(list, To{Ask: Ask{Verb: Gather, Group: key, ID: r.ID, Attempt: r.Attempt, Made: r.Made}, Node: n, Answered: true, number: g.number})
		}
		list[k].Bundles = append(list[k].Bundles, Asked{i, r.Bundles[i].Needs})
	}
	return list
}

// endGathering has the nodes gather no more, and avoids those that have not gathered. The pause before others do is as long as
// they had: room that is kept for nothing is idle for half of the time at most.
func (p *Progress) endGathering(key string, r *Record, w World) (asks []To) {
	g, now := &p.gathering, w.Now()
	if g.at == nil {
		return nil
	}
	late := now-g.began >= int64(g.limit)
	for i, n := range g.at {
		if g.want.At[i] != "" || slices.Contains(g.at[:i], n) {
			continue
		}
		a := g.nodes[n]
		if a == refused || late && a != agreed {
			g.avoid = append(g.avoid, n.Node)
		}
		if a != refused && w.Alive(n) {
			asks = append(asks, To{Ask: Ask{Verb: Gather, Group: key, ID: r.ID, Attempt: r.Attempt}, Node: n})
		}
	}
	if late {
		g.limit = min(2*g.limit, gatherMost)
	}
	if had := now - g.began; had > int64(2*pause) {
		g.rests = now + had
	}
	g.at = nil
	g.number++
	return asks
}

// gatherAnswered is Answer for Gather: a step follows once all nodes have answered.
func (p *Progress) gatherAnswered(t To, err error) bool {
	g := &p.gathering
	if g.at == nil || t.number != g.number {
		return false
	}
	g.nodes[t.Node] = agreed
	if err != nil {
		g.nodes[t.Node] = refused
	}
	for _, a := range g.nodes {
		if a == asked {
			return false
		}
	}
	return true
}
