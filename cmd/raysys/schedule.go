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
	_ "github.com/raysys/raysys/schedule" // reads what the store has of schedules
)

func scheduleCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Pause, resume, run or delete a schedule",
		Long:  `Pause, resume, run or delete a schedule of package schedule, by its name. raysys list schedules shows them, and raysys get NAME one of them.`,
		Args: func(cmd *cobra.Command, _ []string) error {
			return cli.Usagef("%s takes what to do: there are pause, resume, run, delete", cmd.CommandPath())
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	for _, v := range []struct{ verb, short, done string }{
		{"pause", "Have a schedule fire no more until it is resumed", "is paused"},
		{"resume", "End the pause of a schedule; the times in it are not made up for", "goes on"},
		{"run", "Have a schedule fire now, beside its times, in a pause too", "fires now"},
		{"delete", "Remove a schedule; what runs goes on", "is deleted"},
	} {
		cmd.AddCommand(scheduleVerb(on, v.verb, v.short, v.done))
	}
	return cmd
}

func scheduleVerb(on cluster, verb, short, done string) *cobra.Command {
	cmd := &cobra.Command{Use: verb + " NAME", Short: short, Args: oneArgument("the name of one schedule: raysys list schedules shows them")}
	at := whereFlags(cmd.Flags())
	timeout := timeoutFlag(cmd.Flags(), 10*time.Second)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return limited(cmd.Context(), *timeout, func(ctx context.Context) error {
			return withCluster(ctx, on, *at, func(c client.Cluster) error {
				err := c.Schedule(ctx, verb, args[0])
				switch {
				case errors.Is(err, raysys.ErrBadOption):
					return cli.Usagef("schedule %s: %w", verb, err)
				case errors.Is(err, raysys.ErrNotFound):
					return fmt.Errorf("schedule %s: %w: %w: run raysys list schedules", verb, client.ErrNotFound, err)
				case err != nil:
					return fmt.Errorf("schedule %s %s: %w: run raysys doctor", verb, args[0], err)
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "schedule %q %s\n", args[0], done)
				return nil
			})
		})
	}
	return cmd
}

// Schedules implements client.Cluster.
func (o *observer) Schedules(ctx context.Context, prefix string, limit int) (inspect.Schedules, error) {
	return o.node.Schedules(ctx, prefix, limit)
}

// Schedule implements client.Cluster.
func (o *observer) Schedule(ctx context.Context, verb, name string) error {
	return o.node.Schedule(ctx, verb, name)
}
