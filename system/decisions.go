package system

import (
	"strings"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/placement"
)

// keptDecisions is how many decisions of placement a node remembers, about half a megabyte.
const keptDecisions = 1024

// decisions are the last decisions of this node where tasks and grains go. A plain task is none: it goes to where a CPU is free.
type decisions struct {
	mu   sync.Mutex // guards the rest
	ring []decided  // at most keptDecisions
	next int        // where the oldest is, once the ring is full
}

type decided struct {
	at    time.Time
	task  core.TaskID // zero for a grain
	name  string      // the task's function
	grain grainengine.ID
	placement.Decision
}

func (d *decisions) task(id core.TaskID, name string, to placement.Decision) {
	d.enter(decided{at: time.Now(), task: id, name: name, Decision: to})
}

func (d *decisions) placed(id grainengine.ID, to placement.Decision) {
	d.enter(decided{at: time.Now(), grain: id, Decision: to})
}

func (d *decisions) enter(n decided) {
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
func (d *decisions) of(id string, by raysys.NodeID) (list []raysys.Scheduling) {
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
		s.Placed = []raysys.Placed{{Time: n.at, By: by, Node: n.Node, Reasons: n.Scores(n.grain.Key)}}
		list = append(list, s)
	}
	return list
}
