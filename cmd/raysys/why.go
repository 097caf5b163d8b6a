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

func whyCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why REF",
		Short: "Say where a value is, how it was made, and why it is lost",
		Long: `Ask all nodes what they know of an object: where it is, how it was made, of what, and why it is lost or cannot be made again.
REF is its id, of the task that made it or of the object as raysys memory shows it, or the first digits of one; or the name of
a detached task.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return cli.Usagef("%s takes the id of one value, or how it begins: raysys memory lists objects", cmd.CommandPath())
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
				e, err := c.Why(ctx, args[0])
				if err != nil {
					return fmt.Errorf("why %s: %w: run raysys memory", args[0], err)
				}
				if *form == cli.JSON {
					return json.NewEncoder(cmd.OutOrStdout()).Encode(e)
				}
				_, err = fmt.Fprint(cmd.OutOrStdout(), cli.Printable(e))
				return err
			})
		})
	}
	return cmd
}

// Why implements client.Cluster.
func (o *observer) Why(ctx context.Context, ref string) (raysys.Explanation, error) {
	return o.node.Why(ctx, ref)
}
