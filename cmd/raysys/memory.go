package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/system"
)

func memoryCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "memory [NODE]",
		Short: "Show which objects are held, where, by whom and why",
		Long: `Show the object stores of all nodes, or of one, and their largest objects: values above 64 KiB. For each: in which forms it
is there (the Go value, bytes in memory, a segment that other processes can map, a file), what brought it there, and what
keeps it: names, references of other nodes, replicas, references and uses of the node itself. What a process holds of its
own objects only its garbage collector knows.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usagef("%s takes the name of one node, or none for all: run raysys status to see them", cmd.CommandPath())
			}
			if len(args) == 1 {
				return checkName("NODE", args[0])
			}
			return nil
		},
	}
	at := whereFlags(cmd.Flags())
	cmd.ValidArgsFunction = nodeNames(on, at)
	form := cli.OutputFlag(cmd.Flags())
	timeout := timeoutFlag(cmd.Flags(), 10*time.Second)
	limit := cmd.Flags().Int("limit", 20, "how many objects to list, the largest")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *limit < 0 {
			return cli.Usagef("--limit %d: give 0 or more", *limit)
		}
		var node raysys.NodeID
		if len(args) == 1 {
			node = raysys.NodeID(args[0])
		}
		return limited(cmd.Context(), *timeout, func(ctx context.Context) error {
			return withCluster(ctx, on, *at, func(c client.Cluster) error {
				m, err := c.Memory(ctx, node, *limit)
				if err != nil {
					return fmt.Errorf("read memory: %w: run raysys status", err)
				}
				m.Bound(*limit)
				if *form == cli.JSON {
					err = client.MemoryJSON(cmd.OutOrStdout(), m)
				} else {
					err = client.MemoryTable(cmd.OutOrStdout(), cli.Printable(m), time.Now())
				}
				if err == nil && node != "" && m.Stores[0].Error != "" {
					return fmt.Errorf("%w: node %s: %s: run raysys doctor", client.ErrUnreachable, node, m.Stores[0].Error)
				}
				return err
			})
		})
	}
	return cmd
}

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
