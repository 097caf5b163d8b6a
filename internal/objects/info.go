package objects

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
)

// Info is one object on this node, or one of another node that this node refers to: its holders, and why it is here.
type Info struct {
	ID      string
	Size    int64
	Memory  int64    // counted against the node's budget
	Forms   []string // in which it is there; none: it is referred to, and not fetched
	Primary bool
	Pins    int
	Users   int // views, and transfers that read or write it
	Since   time.Time
	Why     string                // what brought it here: put, result of a function, received, attached, recovered
	Owner   raysys.NodeID         // of a copy or reference: whose object it is
	Refs    int                   // references here to an object of another node
	Holders map[raysys.NodeID]int // nodes that hold references to an object of this one, and how many
	Names   []string
	KeptFor raysys.NodeID   // the node that asked for this replica
	Kept    []raysys.NodeID // nodes that keep replicas for this one
	Missing int             // replicas that were asked for, and that no node keeps
	Lost    string
	Files   []raysys.NodeID // nodes that have it in a file that outlives them
}

// List returns the objects that are here or referred to, the largest first.
func (o *Objects) List() []Info {
	holders := map[raysys.TaskID]map[raysys.NodeID]int{}
	if o.refs != nil {
		holders = o.holders()
	}
	o.mu.Lock()
	needs := maps.Clone(o.needs)
	o.mu.Unlock()
	var list []Info
	for _, i := range o.store.List() {
		need := needs[i.ID]
		delete(needs, i.ID)
		h := shownObject(i)
		if need.count > 0 {
			h.Refs, h.Owner = need.count, need.owner.Node
		}
		h.Holders = holders[i.ID]
		list = append(list, h)
	}
	for oid, need := range needs { // referred to, and not here
		list = append(list, Info{
			ID: oid.String(), Size: need.size, Forms: []string{}, Why: "reference", Owner: need.owner.Node, Refs: need.count,
		})
	}
	alive := func(core.NodeKey) bool { return true }
	if o.mesh != nil {
		alive = o.mesh.Alive
	}
	o.kept.explain(list, alive)
	slices.SortStableFunc(list, func(a, b Info) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), strings.Compare(a.ID, b.ID))
	})
	return list
}

func shownObject(i objectstore.Info) Info {
	h := Info{
		ID: i.ID.String(), Size: i.Size, Memory: i.Memory, Forms: i.Forms, Primary: i.Primary, Pins: i.Pins, Users: i.Users, Since: i.Since, Why: i.Why,
	}
	if h.Forms == nil {
		h.Forms = []string{}
	}
	if i.Lost != nil {
		h.Lost = i.Lost.Error()
	}
	return h
}

// holders says which nodes hold references to objects of this one.
func (o *Objects) holders() map[raysys.TaskID]map[raysys.NodeID]int {
	all := map[raysys.TaskID]map[raysys.NodeID]int{}
	for c, nodes := range o.refs.Holders() {
		var id raysys.TaskID
		switch s := core.SourceOf(c).(type) {
		case nil:
			id = o.id(c)
		case *storedSource:
			id = s.object.ID()
		case *objectSource:
			id = s.OID
		default:
			continue
		}
		if all[id] == nil {
			all[id] = map[raysys.NodeID]int{}
		}
		for k, n := range nodes {
			all[id][k.Node] += n
		}
	}
	return all
}

// explain adds names and replicas.
func (kept *keptObjects) explain(list []Info, alive func(core.NodeKey) bool) {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	byID := make(map[string]*reasons, len(kept.byID))
	for oid, k := range kept.byID {
		byID[oid.String()] = k
	}
	for i := range list {
		k := byID[list[i].ID]
		if k == nil {
			continue
		}
		for key := range k.keys {
			_, name, inCluster := strings.Cut(key, "\x00")
			if !inCluster {
				name = key
			}
			list[i].Names = append(list[i].Names, name)
		}
		slices.Sort(list[i].Names)
		list[i].Files = slices.Clone(k.files)
		if k.forOwner {
			list[i].KeptFor = k.owner.Node
		}
		for _, at := range k.replicas {
			if alive(at) {
				list[i].Kept = append(list[i].Kept, at.Node)
			}
		}
		if len(k.files) == 0 {
			list[i].Missing = max(0, k.want-len(list[i].Kept))
		}
	}
}
