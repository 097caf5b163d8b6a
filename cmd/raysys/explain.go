package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
)

func explainCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain ID",
		Short: "Say where a task or a grain waits and for what, or why it was placed where it is",
		Long: `Ask all nodes where a task or a grain is: in which queue it waits, for how long, behind what and for which resources, and what
keeps each node from taking it. Of what was placed it says when, by which node, and between which nodes the strategy chose, as far
as that is remembered: each node keeps its last decisions.
ID is that of a task, or its first digits; or KIND/KEY of a grain.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return cli.Usagef("%s takes the id of one task, or how it begins, or KIND/KEY of a grain", cmd.CommandPath())
			}
			return nil
		},
	}
	at := whereFlags(cmd.Flags())
	form := cli.OutputFlag(cmd.Flags())
	timeout := timeoutFlag(cmd.Flags(), 10*time.Second)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return limited(cmd.Context(), *timeout, func(ctx context.Context) error {
			return withCluster(ctx, on, *at, func(c client.Cluster) error {
				s, err := c.Explain(ctx, args[0])
				if err != nil {
					return fmt.Errorf("explain %s: %w: run raysys status", args[0], err)
				}
				if *form == cli.JSON {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(s)
				}
				_, err = fmt.Fprint(cmd.OutOrStdout(), cli.Printable(s))
				return err
			})
		})
	}
	return cmd
}

// Explain implements client.Cluster.
func (o *observer) Explain(ctx context.Context, id string) (raysys.Scheduling, error) {
	return o.node.Explain(ctx, id)
}
