package system

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
)

// Memory is the contents of a cluster's object stores.
type Memory struct {
	Cluster string       `json:"cluster"`
	Nodes   []NodeMemory `json:"nodes"`
}

// NodeMemory is the object store of one node. Sizes are in bytes.
type NodeMemory struct {
	Name        raysys.NodeID `json:"name"`
	Incarnation uint64        `json:"incarnation"`
	Store       ObjectStats   `json:"store"`
	Transfer    TransferStats `json:"transfer"`
	Count       int           `json:"count"`    // of objects, also those that were left out
	Bytes       int64         `json:"bytes"`    // of all of them
	Exported    int           `json:"exported"` // futures of this node that others hold, small ones too
	Objects     []HeldObject  `json:"objects"`  // the largest first
	Error       string        `json:"error,omitempty"`
}

// HeldObject is one object on one node: its holders, and why it is there.
type HeldObject struct {
	ID      string                `json:"id"`
	Size    int64                 `json:"size"`
	Memory  int64                 `json:"memory"` // counted against the node's budget
	Forms   []string              `json:"forms"`  // in which it is there; none: it is referred to, and not fetched
	Primary bool                  `json:"primary"`
	Pins    int                   `json:"pins"`
	Users   int                   `json:"users"` // views, and transfers that read or write it
	Since   time.Time             `json:"since"`
	Why     string                `json:"why"`               // what brought it here: put, result of a function, received, attached, recovered
	Owner   raysys.NodeID         `json:"owner,omitempty"`   // of a copy or reference: whose object it is
	Refs    int                   `json:"refs,omitempty"`    // references here to an object of another node
	Holders map[raysys.NodeID]int `json:"holders,omitempty"` // nodes that hold references to an object of this one, and how many
	Names   []string              `json:"names,omitempty"`
	KeptFor raysys.NodeID         `json:"kept_for,omitempty"` // the node that asked for this replica
	Kept    []raysys.NodeID       `json:"kept,omitempty"`     // nodes that keep replicas for this one
	Lost    string                `json:"lost,omitempty"`
	Files   []raysys.NodeID       `json:"files,omitempty"` // nodes that have it in a file that outlives them
}

// maxHeld bounds how many objects one answer lists.
const maxHeld = 10_000

// Memory asks every node, or the one called name, for the contents of its object store, for up to 3 s or as long as ctx
// lasts. Each node lists its largest objects, at most limit. The error matches ErrNoSuchNode when the cluster has no
// node of that name. A node without a cluster answers for itself.
func (n *Node) Memory(ctx context.Context, name raysys.NodeID, limit int) (Memory, error) {
	members := slices.DeleteFunc(n.members(), func(m member.Node) bool { return name != "" && m.ID != name })
	switch {
	case n.cluster == nil && (n.objects == nil || len(members) == 0):
		return Memory{}, fmt.Errorf("memory of %s: %w: this is %s, in no cluster", name, ErrNoSuchNode, n.cfg.Name)
	case len(members) == 0:
		return Memory{}, fmt.Errorf("memory of %s: %w: raysys status lists the nodes", name, ErrNoSuchNode)
	}
	all := Memory{}
	if n.cluster != nil {
		all.Cluster = n.cluster.cfg.Name
	}
	answers := n.askAll(ctx, members, adminRequest{op: adminMemory, limit: limit})
	for _, m := range members {
		a := answers[mesh.KeyOf(m)]
		one := NodeMemory{}
		switch {
		case a.err != nil:
			one.Error = a.err.Error()
		case a.answer.Memory == nil:
			one.Error = "its version has no object store"
		default:
			one = *a.answer.Memory
		}
		one.Name, one.Incarnation = m.ID, m.Incarnation
		all.Nodes = append(all.Nodes, one)
	}
	slices.SortFunc(all.Nodes, func(a, b NodeMemory) int {
		return cmp.Or(strings.Compare(string(a.Name), string(b.Name)), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	return all, nil
}

// memory lists this node's own store.
func (n *Node) memory(limit int) NodeMemory {
	m := NodeMemory{Name: n.cfg.Name, Store: ObjectStats(n.objects.Stats()), Objects: []HeldObject{}}
	if c := n.cluster; c != nil {
		m.Incarnation, m.Transfer, m.Exported = c.self().Incarnation, TransferStats(n.objects.Transfers()), c.refs.Exported()
	}
	for _, i := range n.objects.List() {
		m.Count++
		if len(i.Forms) > 0 {
			m.Bytes += i.Size
		}
		if m.Count <= min(limit, maxHeld) {
			m.Objects = append(m.Objects, HeldObject(i))
		}
	}
	return m
}
