package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/system"
)

// Memory implements client.Cluster.
func (o *observer) Memory(ctx context.Context, node raysys.NodeID, limit int) (client.Memory, error) {
	m, err := o.node.Memory(ctx, node, limit)
	if errors.Is(err, system.ErrNoSuchNode) {
		return client.Memory{}, fmt.Errorf("%w: no node named %s is in the cluster", client.ErrNotFound, node)
	}
	if err != nil {
		return client.Memory{}, err
	}
	out := client.Memory{Cluster: m.Cluster}
	for _, n := range m.Nodes {
		out.Stores = append(out.Stores, shownStore(n))
		for _, h := range n.Objects {
			out.Objects = append(out.Objects, client.Object{Node: n.Name, HeldObject: h})
		}
	}
	return out, nil
}

func shownStore(n inspect.NodeMemory) client.Store {
	return client.Store{
		Node: n.Name, Incarnation: n.Incarnation, Objects: n.Count, Bytes: n.Bytes, Used: n.Store.Used, Budget: n.Store.Budget,
		Warm: n.Store.Warm, Disk: n.Store.Disk, Spilled: n.Store.Spilled, Restored: n.Store.Restored, Dropped: n.Store.Dropped,
		Lost: n.Store.Lost, Incoming: n.Store.Incoming, Exported: n.Exported, Sent: n.Transfer.BytesOut, Received: n.Transfer.BytesIn,
		Shared: n.Transfer.Shared, Error: n.Error,
	}
}
