package system

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
)

// maxHeld bounds how many objects one answer lists.
const maxHeld = 10_000

// Memory asks every node, or the one called name, for the contents of its object store, for up to 3 s or as long as ctx
// lasts. Each node lists its largest objects, at most limit. The error matches ErrNoSuchNode when the cluster has no
// node of that name. A node without a cluster answers for itself.
func (n *Node) Memory(ctx context.Context, name raysys.NodeID, limit int) (inspect.Memory, error) {
	members := slices.DeleteFunc(n.members(), func(m member.Node) bool { return name != "" && m.ID != name })
	switch {
	case n.cluster == nil && (n.objects == nil || len(members) == 0):
		return inspect.Memory{}, fmt.Errorf("memory of %s: %w: this is %s, in no cluster", name, ErrNoSuchNode, n.cfg.Name)
	case len(members) == 0:
		return inspect.Memory{}, fmt.Errorf("memory of %s: %w: raysys status lists the nodes", name, ErrNoSuchNode)
	}
	all := inspect.Memory{}
	if n.cluster != nil {
		all.Cluster = n.cluster.cfg.Name
	}
	answers := n.askAll(ctx, members, adminRequest{op: adminMemory, limit: limit})
	for _, m := range members {
		a := answers[mesh.KeyOf(m)]
		one := inspect.NodeMemory{}
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
	slices.SortFunc(all.Nodes, func(a, b inspect.NodeMemory) int {
		return cmp.Or(strings.Compare(string(a.Name), string(b.Name)), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	return all, nil
}

// memory lists this node's own store.
func (n *Node) memory(limit int) inspect.NodeMemory {
	m := inspect.NodeMemory{Name: n.cfg.Name, Store: inspect.ObjectStats(n.objects.Stats()), Objects: []inspect.HeldObject{}}
	if c := n.cluster; c != nil {
		m.Incarnation, m.Transfer, m.Exported = c.self().Incarnation, inspect.TransferStats(n.objects.Transfers()), c.refs.Exported()
	}
	for _, i := range n.objects.List() {
		m.Count++
		if len(i.Forms) > 0 {
			m.Bytes += i.Size
		}
		if m.Count <= min(limit, maxHeld) {
			m.Objects = append(m.Objects, inspect.HeldObject(i))
		}
	}
	return m
}
