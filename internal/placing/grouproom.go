package placing

import (
	"slices"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/ledger"
)

// bundleRooms is what is free in the bundles of other nodes, by their reports, and by what this node has sent there that they do not
// count (loadreport.Append). It is about work that may be in any bundle of its group: a bundle without devices to which none has come
// is not reported, and is taken to be free.
type bundleRooms struct {
	mu sync.Mutex // guards the rest
	of map[core.NodeKey]*nodeRooms
}

// nodeRooms is what is known of the bundles of one node.
type nodeRooms struct {
	bundles map[core.Bundle]*bundleRoom
	seenOff []seenOffTo // grains, and tasks of other nodes, which say nothing of when they send them there
	counted int64       // when what was sent was counted, on the node's clock
	sick    int         // devices of bundles
}

// countEvery is how soon what was sent is counted again: a task for which a bundle was chosen may not have gone there.
const countEvery = int64(5 * time.Millisecond)

// bundleRoom is what is known of one bundle.
type bundleRoom struct {
	known ledger.Room // by the last report, or all of the bundle
	left  ledger.Room // less what was sent there
	said  bool        // known is of a report
}

// seenOffTo is a grain, or a task that was given back, which goes to a bundle that had room.
type seenOffTo struct {
	in    core.Bundle
	need  ledger.Need
	until int64       // on the node's clock: it has come by then
	grain graindir.ID // zero for a task
}

// bound is what becomes of work for which a bundle is chosen.
type bound struct {
	as    use
	grain graindir.ID // of a grain that is seen off
}

// report takes in what a node reports, and the tasks of this node that it does not count. healed says that devices are well again, or may be.
func (r *bundleRooms) report(k core.NodeKey, rooms []ledger.Room, uncounted []ledger.Need, now int64) (healed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.node(k)
	n.forget(now)
	was, sick := n.bundles, n.sick
	n.sick = 0
	n.bundles = map[core.Bundle]*bundleRoom{}
	if len(uncounted)+len(n.seenOff) > 0 { // they are on their way to bundles of which it does not know
		n.bundles = was
	}
	for _, room := range rooms {
		n.bundles[room.Bundle] = &bundleRoom{room, room, true}
		n.sick += room.Sick()
	}
	if n.count(uncounted, now); len(n.bundles) == 0 {
		delete(r.of, k)
	}
	return n.sick < sick
}

// nameModels enters the models of the devices of bundles, which are on a node whose record has these. What that does not have stays unknown.
func nameModels(rooms []ledger.Room, on []raysys.Device) {
	for _, r := range rooms {
		for i, n := range r.Numbers[:min(len(r.Numbers), len(r.Rest.Devices))] {
			if n < len(on) {
				r.Rest.Devices[i].Model = on[n].Model
			}
		}
	}
}

// count counts what was sent there.
func (n *nodeRooms) count(uncounted []ledger.Need, now int64) {
	n.counted = now
	for _, b := range n.bundles {
		b.left = b.known
	}
	for i := range uncounted {
		u := &uncounted[i]
		for name, b := range n.bundles { // which of them it will be in its node decides
			if name.Group == u.Bundle.Group && b.left.Has(u) {
				b.left.Take(u)
				break
			}
		}
	}
}

// forget forgets what has come by now.
func (n *nodeRooms) forget(now int64) {
	if len(n.seenOff) > 0 {
		n.seenOff = slices.DeleteFunc(n.seenOff, func(s seenOffTo) bool { return s.until <= now })
	}
}

// arrives is nodeView.arrives for a grain in a bundle.
func (r *bundleRooms) arrives(grain graindir.ID, until int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.of {
		for i := range n.seenOff {
			if s := &n.seenOff[i]; s.grain == grain {
				s.until = until
			}
		}
	}
}

// takeOut forgets that a grain was seen off: it is to be located now. It returns until when it would have been known.
func (r *bundleRooms) takeOut(grain graindir.ID) (until int64) {
	for _, n := range r.of {
		n.seenOff = slices.DeleteFunc(n.seenOff, func(s seenOffTo) bool {
			if s.grain == grain {
				until = s.until
			}
			return s.grain == grain
		})
	}
	return until
}

// forget forgets a node.
func (r *bundleRooms) forget(k core.NodeKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, k)
}

// node is what is known of a node. The caller holds mu.
func (r *bundleRooms) node(k core.NodeKey) *nodeRooms {
	n := r.of[k]
	if n == nil {
		n = &nodeRooms{bundles: map[core.Bundle]*bundleRoom{}}
		if r.of == nil {
			r.of = map[core.NodeKey]*nodeRooms{}
		}
		r.of[k] = n
	}
	return n
}

// at returns what is known of a bundle. The caller holds mu.
func (n *nodeRooms) at(m *memberBundle) *bundleRoom {
	b := n.bundles[m.name]
	if b == nil {
		whole := ledger.RoomOf(m.name, ledger.Of(core.Resources(m.Needs)))
		b = &bundleRoom{whole, whole, false}
		n.bundles[m.name] = b
	}
	return b
}

// has reports whether a bundle has room for work, less what was seen off to it. The caller holds mu.
func (n *nodeRooms) has(b *bundleRoom, need *ledger.Need) bool {
	room := b.left
	for i := range n.seenOff {
		if s := &n.seenOff[i]; s.in == room.Bundle {
			room.Take(&s.need)
		}
	}
	return room.Has(need)
}

// withRoom returns the first of the bundles, from that number on, that has room for work, as far as is known; nil for none.
func (g *Groups) withRoom(list []memberBundle, from int, need ledger.Need, to bound) *memberBundle {
	r, now := &g.room, g.Wheel.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	until := now + int64(givenBackFor)
	if to.grain != (graindir.ID{}) {
		until = max(until, r.takeOut(to.grain))
	}
	for i := range list {
		m := &list[(from+i)%len(list)]
		if m.At == g.Self() {
			in := need
			if in.Bundle = m.name; g.tasks.Line().HasIn(in) {
				return m
			}
			continue
		}
		n := r.node(m.At)
		if now-n.counted >= countEvery {
			if p := g.Placer.peer(m.At); p != nil {
				n.count(g.tasks.Uncounted(p), now)
			}
		}
		n.forget(now)
		b := n.at(m)
		if !n.has(b, &need) {
			continue
		}
		switch to.as {
		case send:
			b.left.Take(&need)
		case seenOff:
			n.seenOff = append(n.seenOff, seenOffTo{m.name, need, until, to.grain})
		}
		return m
	}
	return nil
}

// Elsewhere reports whether a bundle of another node has room for work that waits here and may be in any of its group. away says that
// another node sends it there.
func (g *Groups) Elsewhere(need ledger.Need, away bool) bool {
	to := bound{as: look}
	if away {
		to = bound{as: seenOff}
	}
	return g.elsewhereTo(need, to)
}

// GrainElsewhere is the same for a grain.
func (g *Groups) GrainElsewhere(id graindir.ID, need ledger.Need) bool {
	return g.elsewhereTo(need, bound{seenOff, id})
}

func (g *Groups) elsewhereTo(need ledger.Need, to bound) bool {
	if !need.Roams() {
		return false
	}
	list, _, err := g.fitting(need.Bundle, need.Resources())
	if err != nil {
		return false
	}
	list = slices.DeleteFunc(list, func(b memberBundle) bool { return b.At == g.Self() })
	return g.withRoom(list, 0, need, to) != nil
}
