package placing

import (
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/nodedevices"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/placement"
)

// Nodes lists the nodes for placement as they are at a moment. The list is the caller's.
func (pl *Placer) Nodes() ([]placement.Node, registry.Moment) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	view := pl.Member.View()
	list := make([]placement.Node, 0, len(view.Nodes()))
	for _, n := range view.Nodes() {
		k := core.NodeKey{Node: n.ID, Incarnation: n.Incarnation}
		pn := placement.Node{
			ID: n.ID, Incarnation: n.Incarnation, Total: n.Info.Resources, Free: n.Info.Resources, Labels: n.Info.Labels,
			Devices: nodedevices.Placement(n.Info.Devices), Worker: n.Info.Works(), Suspect: n.Suspect, Joining: n.Joining, Draining: n.Info.Draining,
		}
		if l, ok := pl.loads[k]; ok {
			EnterLoad(&pn, &l, 0)
		}
		if k == pl.self() {
			table := pl.Table
			pn.Namespace = pl.Namespace
			pn.Runs = func(f string) bool { return has(table, f) }
		} else if p := pl.Mesh.Peer(k); p != nil {
			pn.Namespace = p.Namespace()
			pn.Runs = p.Can
		} else {
			continue // a node that is not connected cannot be sent work
		}
		list = append(list, pn)
	}
	return list, registry.Moment{Members: pl.members, Reports: pl.reports.last}
}

// Since is Since of registry.Members, of this node's cluster.
func (pl *Placer) Since(at registry.Moment, reported func(core.NodeKey)) registry.Moment {
	pl.mu.Lock()
	keys := pl.reports.since(at.Reports)
	now := registry.Moment{Members: pl.members, Reports: pl.reports.last}
	pl.mu.Unlock()
	for _, k := range keys {
		reported(k)
	}
	return now
}

// Reported is Reported of registry.Members.
func (pl *Placer) Reported(n *placement.Node) {
	pl.mu.Lock()
	l, known := pl.loads[core.NodeKey{Node: n.ID, Incarnation: n.Incarnation}]
	pl.mu.Unlock()
	if !known {
		l.Free = n.Total.CPU
	}
	EnterLoad(n, &l, 0)
}

// Expecting reports whether a worker of the cluster is not connected to this node, or not yet.
func (pl *Placer) Expecting() bool {
	return slices.ContainsFunc(pl.Member.View().Nodes(), func(n member.Node) bool {
		k := core.NodeKey{Node: n.ID, Incarnation: n.Incarnation}
		return n.Info.Works() && k != pl.self() && pl.Mesh.Peer(k) == nil
	})
}

// has reports whether a table has what a name of its kind and its own name says, such as "task example.Add".
func has(t *raysys.Table, f string) bool {
	for _, kind := range []string{"task", "grain", "method"} {
		if len(f) > len(kind) && f[:len(kind)] == kind && f[len(kind)] == ' ' {
			return t.Lookup(kind, f[len(kind)+1:]) != nil
		}
	}
	return false
}
