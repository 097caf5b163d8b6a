package operate

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
func (o *Operator) Memory(ctx context.Context, name raysys.NodeID, limit int) (inspect.Memory, error) {
	members := slices.DeleteFunc(o.Members(), func(m member.Node) bool { return name != "" && m.ID != name })
	c := o.Node.Cluster()
	switch {
	case c == nil && (o.Node.Objects() == nil || len(members) == 0):
		return inspect.Memory{}, fmt.Errorf("memory of %s: %w: this is %s, in no cluster", name, ErrNoSuchNode, o.Name)
	case len(members) == 0:
		return inspect.Memory{}, fmt.Errorf("memory of %s: %w: raysys status lists the nodes", name, ErrNoSuchNode)
	}
	all := inspect.Memory{}
	if c != nil {
		all.Cluster = c.Name
	}
	answers := o.askAll(ctx, members, adminRequest{op: adminMemory, limit: limit})
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
func (o own) memory(limit int) inspect.NodeMemory {
	store := o.Node.Objects()
	m := inspect.NodeMemory{Name: o.Name, Store: inspect.ObjectStats(store.Stats()), Objects: []inspect.HeldObject{}}
	if c := o.Node.Cluster(); c != nil {
		m.Incarnation, m.Transfer, m.Exported = o.Self().Incarnation, inspect.TransferStats(store.Transfers()), c.Refs.Exported()
	}
	for _, i := range store.List() {
		m.Count++
		if len(i.Forms) > 0 {
			m.Bytes += i.Size
		}
		if m.Count <= min(limit, maxHeld) {
			m.Objects = append(m.Objects, inspect.HeldObject(i))
		}
	}
	m.Objects = bounded(m.Objects)
	return m
}
