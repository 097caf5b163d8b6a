package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
)

// completionLimit is how long the shell may wait for node names after a press of Tab.
const completionLimit = 2 * time.Second

// nodeNames completes the one argument of a command by the names of the cluster's nodes. A cluster that cannot be
// reached has none: a completion cannot show an error.
func nodeNames(on cluster, at *client.Where) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		if len(args) > 0 || cli.FromEnvironment(cmd.Flags()) != nil || checkWhere(at) != nil {
			return nil, none
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
		defer cancel()
		var s client.Status
		err := withReader(ctx, on, *at, func(c client.Reader) (err error) {
			s, err = c.Status(ctx)
			return err
		})
		if err != nil {
			return nil, none
		}
		client.Sort(&s)
		var names []cobra.Completion
		for _, n := range s.Nodes {
			names = append(names, cobra.CompletionWithDesc(string(n.Name), string(n.Role)))
		}
		return names, none
	}
}
