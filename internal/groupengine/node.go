package groupengine

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/ledger"
)

// Patience is how long a bundle may be prepared without news before the node asks the leader about it.
const Patience = 2 * time.Second

// heldPatience is the same for a bundle that is held. It may have been moved, since the node was to drain when its leader last
// looked.
const heldPatience = 30 * time.Second

// Node is what one node has of groups. It takes their bundles out of the node's ledger.
type Node struct {
	// MakeRoom has idle grains of the node give up what is missing for needs, for all or for as many as can be.
	MakeRoom func(needs []ledger.Need, all bool)

	self func() core.NodeKey
	line *ledger.Line
	now  func() int64

	mu       sync.Mutex // guards the rest
	groups   map[string]*local
	leaving  error                // why it takes no bundle any more; nil while it does
	releases map[release][]func() // of groups whose work has not returned: who waits for that
	left     map[release]int      // the bundles of these that are not free yet
	gatherer *gatherer            // nil while the node gathers for no group
}

// local is the bundles of one group that are here.
type local struct {
	id      core.TaskID
	bundles map[int]*here
	used    int     // by calls of prepare, which have unlocked mu
	moved   []*here // placed anew, at other nodes or here; work in them goes on to its end
}

// here is a bundle that is here.
type here struct {
	*ledger.Bundle
	attempt uint64
	held    bool
	since   int64 // when it was prepared, or compared with the record
}

// release names a group whose work is to return.
type release struct {
	group string
	id    core.TaskID
}

// NewNode makes a Node without bundles.
func NewNode(self func() core.NodeKey, line *ledger.Line, now func() int64) *Node {
	return &Node{self: self, line: line, now: now, groups: map[string]*local{}, releases: map[release][]func(){}, left: map[release]int{}}
}

// Do does what a leader asks for. done is called once, on any goroutine: for Release when the room is free,
// for Gather when there is room.
func (n *Node) Do(a Ask, done func(error)) {
	switch a.Verb {
	case Prepare:
		err := n.prepare(a)
		done(err)
	case Hold:
		n.hold(a)
		done(nil)
	case Drop:
		n.drop(a, nil, func(b *here) bool { return !b.held && b.attempt == a.Attempt }, nil)
		done(nil)
	case MakeRoom, MakeRoomForAll:
		n.MakeRoom(a.needs(), a.Verb == MakeRoomForAll)
		done(nil)
	case Gather:
		n.gather(a, done)
	case Release:
		n.drop(a, ErrRemoved(a.Group), func(b *here) bool { return b.attempt <= a.Attempt }, func() { done(nil) })
	}
}

// prepare takes the room of all bundles of a, or of none.
func (n *Node) prepare(a Ask) (err error) {
	n.mu.Lock()
	g := n.groups[a.Group]
	switch {
	case n.leaving != nil:
		n.mu.Unlock()
		return n.leaving
	case g != nil && g.id != a.ID: // either of them is an earlier one: the leader is asked which
		for _, b := range g.bundles {
			b.since = n.now() - int64(heldPatience)
		}
		n.mu.Unlock()
		return fmt.Errorf("%w: node %s has bundles of another %s", raysys.ErrOverloaded, n.self(), Shown(a.Group))
	case g == nil:
		g = &local{id: a.ID, bundles: map[int]*here{}}
		n.groups[a.Group] = g
	}
	var old []*here
	for _, want := range a.Bundles {
		was := g.bundles[want.Index]
		switch {
		case was != nil && was.attempt == a.Attempt:
			continue
		case was != nil && was.attempt > a.Attempt:
			err = fmt.Errorf("%w: attempt %d of %s is over", raysys.ErrMoved, a.Attempt, Shown(a.Group))
		case was != nil:
			delete(g.bundles, want.Index)
			old = append(old, was)
		}
	}
	n.move(a.Group, g, old)
	room, ended := n.gathered(a)
	g.used++
	n.mu.Unlock()
	n.close(a.Group, g, old, nil)
	if ended != nil {
		ended.end(errEnded)
	}
	n.mu.Lock()
	g.used--
	if err == nil {
		err = n.carve(a, g, room)
	}
	n.forget(a.Group, g)
	n.mu.Unlock()
	if room != nil {
		room.end(errEnded) // where it was not carved
	}
	return err
}

// carve takes the room of the bundles of a that are not here, all of it or none; where it was gathered, from that. n.mu is held.
func (n *Node) carve(a Ask, g *local, gathered *gatherer) error {
	var parts []ledger.Part
	seen := map[int]bool{} // a leader that names one twice gets it once
	for _, want := range a.Bundles {
		if g.bundles[want.Index] == nil && !seen[want.Index] {
			seen[want.Index] = true
			parts = append(parts, ledger.Part{Name: core.Bundle{Group: a.Group, Index: want.Index}, Need: ledger.Of(core.Resources(want.Needs))})
		}
	}
	var list []*ledger.Bundle
	var without int
	var short ledger.Shortage
	if gathered != nil && len(parts) == len(gathered.Bundles) {
		list = gathered.room.Carve(parts)
	} else if list, without, short = n.line.Carve(parts...); !short.Empty() {
		return fmt.Errorf("%w: %v is not free on node %s", raysys.ErrOverloaded, parts[without].Need.Resources(), n.self())
	}
	for i, b := range list {
		g.bundles[parts[i].Name.Index] = &here{Bundle: b, attempt: a.Attempt, since: n.now()}
	}
	return nil
}

// forget forgets a group without bundles. n.mu is held.
func (n *Node) forget(group string, g *local) {
	if len(g.bundles)+len(g.moved)+g.used == 0 && n.groups[group] == g {
		delete(n.groups, group)
	}
}

func (n *Node) hold(a Ask) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if g := n.groups[a.Group]; g != nil && g.id == a.ID {
		for _, b := range g.bundles {
			b.held = b.held || b.attempt == a.Attempt // of earlier attempts Compare says which are
		}
	}
}

// move has bundles of a group be such that were placed anew, until they are free. n.mu is held.
func (n *Node) move(group string, g *local, list []*here) {
	g.moved = append(g.moved, list...)
	n.left[release{group, g.id}] += len(list)
}

// close closes bundles that are among those that were moved, and evicts what runs in them where there is a cause.
func (n *Node) close(group string, g *local, list []*here, cause error) {
	for _, b := range list {
		b.Close(cause, func() {
			n.mu.Lock()
			g.moved = slices.DeleteFunc(g.moved, func(m *here) bool { return m == b })
			n.forget(group, g)
			n.mu.Unlock()
			n.freed(release{group, g.id})
		})
	}
}

// drop closes the bundles of the group of a for which which is true. With a cause it evicts what runs in them, and in those that were
// moved before. done, if it is given, is called once the room of all that was dropped of the group is free.
func (n *Node) drop(a Ask, cause error, which func(*here) bool, done func()) {
	r := release{a.Group, a.ID}
	var list, before []*here
	n.mu.Lock()
	g := n.groups[a.Group]
	if g != nil && g.id == a.ID {
		if cause != nil {
			before = slices.Clone(g.moved)
		}
		for i, b := range g.bundles {
			if which(b) {
				delete(g.bundles, i)
				list = append(list, b)
			}
		}
		n.move(a.Group, g, list)
		n.forget(a.Group, g)
	}
	n.left[r]++
	if done != nil {
		n.releases[r] = append(n.releases[r], done)
	}
	n.mu.Unlock()
	n.close(a.Group, g, list, cause)
	for _, b := range before {
		b.Evict(cause)
	}
	n.freed(r)
}

// freed is called for each bundle whose room is free.
func (n *Node) freed(r release) {
	n.mu.Lock()
	var tell []func()
	if n.left[r]--; n.left[r] == 0 {
		tell = n.releases[r]
		delete(n.left, r)
		delete(n.releases, r)
	}
	n.mu.Unlock()
	for _, f := range tell {
		f()
	}
}

// Compare drops the bundles of a group that its record does not have at this node, under the attempt that they are of; of a group
// that is gone, nil, all. What runs in a bundle that was moved goes on, what runs in a group that is gone is cancelled.
func (n *Node) Compare(group string, r *Record) {
	n.mu.Lock()
	g := n.groups[group]
	if g == nil {
		n.mu.Unlock()
		return
	}
	a := Ask{Group: group, ID: g.id}
	if r == nil || r.ID != g.id {
		n.mu.Unlock()
		n.drop(a, ErrRemoved(group), func(*here) bool { return true }, nil)
		return
	}
	self := n.self()
	listed := map[*here]bool{}
	for i, b := range g.bundles {
		if i < len(r.Bundles) && r.Bundles[i].At == self && r.Bundles[i].Attempt == b.attempt {
			listed[b] = true
			b.held, b.since = b.held || r.Bundles[i].Held, n.now()
		}
	}
	n.mu.Unlock()
	n.drop(a, nil, func(b *here) bool { return !listed[b] }, nil)
}

// Silent lists the groups with bundles that the leader is to be asked about: those of which the node has heard nothing for long,
// and of a node that leaves all.
func (n *Node) Silent() (groups []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, g := range n.groups {
		for _, b := range g.bundles {
			limit := heldPatience
			if !b.held {
				limit = Patience
			}
			if n.leaving != nil || n.now()-b.since >= int64(limit) {
				groups = append(groups, key)
				break
			}
		}
	}
	slices.Sort(groups)
	return groups
}

// Leave has the node take no bundle any more, and gather for none; or again: nil.
func (n *Node) Leave(why error) {
	n.mu.Lock()
	n.leaving = why
	ended := n.gatherer
	if why == nil {
		ended = nil
	} else {
		n.gatherer = nil
	}
	n.mu.Unlock()
	if ended != nil {
		ended.end(why)
	}
}

// Len is how many bundles are here.
func (n *Node) Len() (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, g := range n.groups {
		count += len(g.bundles)
	}
	return count
}
