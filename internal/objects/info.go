package objects

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/registry"
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

// ExplainNamed says what the record of a name knows of its object: which nodes have it, or that it is lost and why.
func ExplainNamed(o *Objects, rec *registry.Record) core.Explanation {
	e := core.Explanation{ID: rec.ID.String(), Name: "object", State: "ready", Size: rec.Size, Owner: rec.Owner.Node}
	for _, l := range o.files.withFiles(rec) {
		if n := l.Node.Node; l.Node != rec.Owner && o.mesh.Alive(l.Node) && !slices.Contains(e.Copies, n) {
			e.Copies = append(e.Copies, n)
		}
	}
	switch away := o.files.allAway(rec.Files); {
	case o.mesh.Alive(rec.Owner), e.Copies != nil:
	case away != nil:
		e.Error = fmt.Sprintf("its owner %s is gone: %v", rec.Owner, away)
	default:
		e.State, e.Error = "lost", fmt.Sprintf("its owner %s is gone, and of %d copies none is left: put it again, or Forget the name", rec.Owner, max(rec.Replicas, 1))
	}
	return e
}
