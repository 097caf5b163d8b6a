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

func listCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what a cluster has, by kind",
		Long:  "List what a cluster has, by kind: streams.",
		Args: func(cmd *cobra.Command, args []string) error {
			return cli.Usagef("%s takes what to list: streams", cmd.CommandPath())
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	cmd.AddCommand(listStreamsCommand(on))
	return cmd
}

func listStreamsCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "streams",
		Short: "Show how far the subscriptions of streams are",
		Long: `Show each subscription of all programs: the stream, the kind of grain to which its events go, its parts and the nodes that deliver
them, the lag (events that are stored and were not taken), grains whose handler fails, events parked since the parts began to be delivered where
they are, and events taken in a second, of the last ten. -o json has each part.`,
		Args: cli.NoArgs,
	}
	at := whereFlags(cmd.Flags())
	form := cli.OutputFlag(cmd.Flags())
	timeout := timeoutFlag(cmd.Flags(), 10*time.Second)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return limited(cmd.Context(), *timeout, func(ctx context.Context) error {
			return withCluster(ctx, on, *at, func(c client.Cluster) error {
				s, err := c.Streams(ctx)
				if err != nil {
					return fmt.Errorf("read streams: %w: run raysys doctor", err)
				}
				if *form == cli.JSON {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(s)
				}
				return client.StreamsTable(cmd.OutOrStdout(), cli.Printable(s))
			})
		})
	}
	return cmd
}

// Streams implements client.Cluster.
func (o *observer) Streams(ctx context.Context) (inspect.Streams, error) { return o.node.Streams(ctx) }
