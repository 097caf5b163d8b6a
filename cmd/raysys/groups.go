package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/inspect"
)

func groupsCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "Show the placement groups of a cluster, or remove one",
		Long: `Show the placement groups of all programs, the oldest first: name and id, what they go with, strategy, state, bundles with their
nodes, and since when they are there. A group waits while one of its bundles has no node; it gathers while nodes keep for it what
becomes free; it is held once all bundles have nodes; and it is going until what runs in it has returned.
raysys groups remove removes one.`,
		Args: cli.NoArgs,
	}
	at := whereFlags(cmd.Flags())
	form := cli.OutputFlag(cmd.Flags())
	timeout := timeoutFlag(cmd.Flags(), 10*time.Second)
	limit := cmd.Flags().Int("limit", 100, "how many groups to list, the oldest")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *limit < 0 {
			return cli.Usagef("--limit %d: give 0 or more", *limit)
		}
		return limited(cmd.Context(), *timeout, func(ctx context.Context) error {
			return withCluster(ctx, on, *at, func(c client.Cluster) error {
				g, err := c.Groups(ctx, *limit)
				if err != nil {
					return fmt.Errorf("read placement groups: %w: run raysys doctor", err)
				}
				if *form == cli.JSON {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(g)
				}
				return client.GroupsTable(cmd.OutOrStdout(), cli.Printable(g), time.Now())
			})
		})
	}
	cmd.AddCommand(removeGroupCommand(on))
	return cmd
}

func removeGroupCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove NAME|ID",
		Short: "Remove a placement group, with what runs in it",
		Long: `Remove a placement group by its name, or by its id or how that begins. What waits or runs in it is cancelled; the command
returns once that has returned and the room is free. A removal that is not over within --timeout goes on.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return cli.Usagef("%s takes the name or the id of one placement group: run raysys groups to see them", cmd.CommandPath())
			}
			return nil
		},
	}
	at := whereFlags(cmd.Flags())
	timeout := timeoutFlag(cmd.Flags(), time.Minute)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return limited(cmd.Context(), *timeout, func(ctx context.Context) error {
			return withCluster(ctx, on, *at, func(c client.Cluster) error {
				g, err := c.RemoveGroup(ctx, args[0])
				if err != nil {
					return fmt.Errorf("remove group %s: %w: run raysys groups", args[0], err)
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "group %s is removed\n", cli.Escape(client.GroupName(&g)))
				return nil
			})
		})
	}
	return cmd
}

// Groups implements client.Cluster.
func (o *observer) Groups(ctx context.Context, limit int) (inspect.Groups, error) {
	return o.node.Groups(ctx, "", limit)
}

// RemoveGroup implements client.Cluster.
func (o *observer) RemoveGroup(ctx context.Context, id string) (inspect.GroupStatus, error) {
	return o.node.RemoveGroup(ctx, id)
}
