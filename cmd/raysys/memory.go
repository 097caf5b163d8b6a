package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
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
	return m.List(limit), nil
}
