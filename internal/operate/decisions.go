package operate

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/placement"
)

// keptDecisions is how many decisions of placement a node remembers, about half a megabyte.
const keptDecisions = 1024

// Decisions are the last decisions of this node where tasks and grains go. A plain task is none: it goes to where a CPU is free.
type Decisions struct {
	mu   sync.Mutex // guards the rest
	ring []decided  // at most keptDecisions
	next int        // where the oldest is, once the ring is full
}

type decided struct {
	at    time.Time
	task  core.TaskID // zero for a grain
	name  string      // the task's function
	grain graindir.ID
	in    core.Bundle // where it was placed in a bundle; zero else
	any   bool        // it might have been in any of the group
	why   string      // of a grain that has moved; "" else
	placement.Decision
}

// reasons are why it is where it is.
func (d *decided) reasons() []string {
	switch {
	case d.why != "":
		return []string{d.why}
	case d.in.Group == "":
		return d.Scores(d.grain.Key)
	case d.in.Index == core.AnyBundle: // of a grain, whose leader knows no more
		return []string{fmt.Sprintf("in any bundle there of %s", groupengine.Shown(d.in.Group))}
	case d.any:
		return []string{fmt.Sprintf("in bundle %d of %s, of those that it may be in: they take turns, those with room first", d.in.Index, groupengine.Shown(d.in.Group))}
	}
	return []string{fmt.Sprintf("in bundle %d of %s", d.in.Index, groupengine.Shown(d.in.Group))}
}

// Task notes where a task goes.
func (d *Decisions) Task(id core.TaskID, name string, to placement.Decision) {
	d.enter(decided{at: time.Now(), task: id, name: name, Decision: to})
}

// Bundled notes where a task goes that is in a group.
func (d *Decisions) Bundled(id core.TaskID, name string, in core.Bundle, at raysys.NodeID, any bool) {
	d.enter(decided{at: time.Now(), task: id, name: name, in: in, any: any, Decision: placement.Decision{Node: at}})
}

// PlacedIn notes where a grain goes that is in a group.
func (d *Decisions) PlacedIn(id graindir.ID, in core.Bundle, at core.NodeKey) {
	d.enter(decided{at: time.Now(), grain: id, in: in, Decision: placement.Decision{Node: at.Node}})
}

// Placed notes where a grain goes.
func (d *Decisions) Placed(id graindir.ID, to placement.Decision) {
	d.enter(decided{at: time.Now(), grain: id, Decision: to})
}

// Moved notes where a grain of this node has gone.
func (d *Decisions) Moved(id graindir.ID, to raysys.NodeID, why string) {
	d.enter(decided{at: time.Now(), grain: id, why: why, Decision: placement.Decision{Node: to}})
}

func (d *Decisions) enter(n decided) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.ring) < keptDecisions {
		d.ring = append(d.ring, n)
		return
	}
	d.ring[d.next] = n
	d.next = (d.next + 1) % keptDecisions
}

// of lists those about tasks whose ids begin so, or about the grain of a kind/key, oldest first, as node by has made them.
func (d *Decisions) of(id string, by raysys.NodeID) (list []raysys.Scheduling) {
	ids, some := core.PrefixOf(id)
	grain := strings.Contains(id, "/")
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.ring {
		n := &d.ring[(d.next+i)%len(d.ring)]
		s := raysys.Scheduling{ID: n.grain.String(), Name: "grain"}
		switch {
		case n.task != core.TaskID{} && some && ids.Of(n.task):
			s.ID, s.Name = n.task.String(), n.name
		case n.task == core.TaskID{} && grain && s.ID == id:
		default:
			continue
		}
		s.Placed = []raysys.Placed{{Time: n.at, By: by, Node: n.Node, Reasons: n.reasons()}}
		list = append(list, s)
	}
	return list
}
