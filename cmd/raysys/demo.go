package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/examples/cartpole/demo"
)

func demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Learn to balance a pole and serve the policy",
		Long: `Learn CartPole-v1: rollouts are tasks, the learner is a grain, and the policy it finds is then served by
stateless-worker grains. The report goes to standard output, how it goes to standard error; the exit code is 1 when the
mean return of 475 was not reached within --steps.`,
		Args: cli.NoArgs,
	}
	o := demo.Defaults()
	o.Bind(cmd.Flags())
	cmd.Flags().VarP(&o.Form, "output", "o", "form of the report on standard output")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		err := demo.Run(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		if errors.Is(err, demo.ErrUsage) {
			return cli.Usage(err)
		}
		return err
	}
	return cmd
}
