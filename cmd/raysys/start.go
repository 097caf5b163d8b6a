package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/backoff"
	"github.com/raysys/raysys/internal/printable"
)

// jobLook is the pause between two looks at a job that is waited for. Its last lines are on their way for less.
const jobLook = time.Second

func startCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "start FUNCTION [JSON]",
		Short: "Start a task as a named one, which outlives the terminal",
		Long: `Have a worker submit a task of its program as raysys.Detached(NAME): it outlives this command and that
worker, and with Consul on disk a stop of all nodes. JSON is the argument, as encoding/json reads it into the
function's own type, a list where the function takes several; "-" reads it from the standard input. A field that the
type does not have is refused; null leaves a field as it is, and of equal names the last counts. Where the same task,
with the same argument, goes on under the name, the command joins it; another one under the name is an error.

--wait shows the lines that the task writes with raysys.Logger, and its result, and exits with 0, or with 1 where it
fails. An interrupt leaves the task alone. raysys get NAME shows it, and raysys cancel NAME ends it.`,
		Example: "  raysys start main.report '{\"Day\": \"2026-11-29\"}' --name report-29 --wait",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 || args[0] == "" {
				return cli.Usagef("%s takes the name of a function, and its argument as one word of JSON: "+
					"raysys list functions shows them", cmd.CommandPath())
			}
			return nil
		},
	}
	at, form := whereFlags(cmd.Flags()), cli.OutputFlag(cmd.Flags())
	var q inspect.StartQuery
	cmd.Flags().StringVar(&q.Name, "name", "", "name of the task, 512 bytes at most (default: FUNCTION-abcd)")
	cli.NoVariable(cmd.Flags(), "name") // RAYSYS_NAME is that of a node
	cmd.Flags().StringVar(&q.Namespace, "namespace", "", "namespace of the program, where several have the function")
	wait := cmd.Flags().Bool("wait", false, "wait for its end, and show its lines")
	cli.NoVariable(cmd.Flags(), "wait") // RAYSYS_WAIT is how long raysys restart waits
	timeout := timeoutFlag(cmd.Flags(), 30*time.Second)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if q.Function = args[0]; len(args) > 1 {
			q.Argument = []byte(args[1])
		}
		if len(args) > 1 && args[1] == "-" {
			var err error
			if q.Argument, err = io.ReadAll(cmd.InOrStdin()); err != nil {
				return fmt.Errorf("read the argument: %w", err)
			}
		}
		return withCluster(cmd.Context(), on, *at, func(c client.Cluster) error {
			var s inspect.Started
			err := limited(cmd.Context(), *timeout, func(ctx context.Context) (err error) {
				s, err = c.Start(ctx, q)
				return err
			})
			switch {
			case errors.Is(err, raysys.ErrBadOption):
				return cli.Usagef("start %s: %w", q.Function, err)
			case errors.Is(err, raysys.ErrNotFound):
				return fmt.Errorf("start %s: %w: run raysys list functions", q.Function, err)
			case err != nil:
				return fmt.Errorf("%w: run raysys doctor", err)
			case *form == cli.JSON:
				err = printable.WriteJSON(cmd.OutOrStdout(), s)
			default:
				shown := cli.Printable(s)
				did := fmt.Sprintf("started by %s", shown.Node)
				if s.Joined {
					did = "joined: the same goes on already"
				}
				fmt.Fprintln(cmd.ErrOrStderr(), did)
				_, err = fmt.Fprintln(cmd.OutOrStdout(), shown.Name)
			}
			if err != nil || !*wait {
				return err
			}
			return awaitJob(cmd, c, s, *form == cli.JSON)
		})
	}
	return cmd
}

// awaitJob shows the lines of a job, and returns when it has settled: with its failure.
func awaitJob(cmd *cobra.Command, c client.Cluster, s inspect.Started, asJSON bool) error {
	following, stop := context.WithCancel(cmd.Context())
	var showing sync.WaitGroup
	defer showing.Wait()
	defer stop()
	show := shownLine(cmd.ErrOrStderr(), asJSON)
	showing.Go(func() {
		_, _ = c.Logs(following, inspect.LogQuery{Function: s.Function, Limit: 100}, func(l inspect.LogLine) {
			if l.ID == s.ID {
				show(l)
			}
		})
	})
	for settled := false; ; {
		found, err := c.Get(cmd.Context(), s.Name) // while nodes are away it is asked again
		i := slices.IndexFunc(found.Things, func(t inspect.Thing) bool {
			own := t.Kind == inspect.ThingJob && t.Namespace == s.Namespace
			return own && t.Value != nil && t.Value.State != "pending"
		})
		switch {
		case i < 0 && errors.Is(err, raysys.ErrNotFound) && len(found.Silent) == 0:
			return fmt.Errorf("%s was forgotten: %w", s.Name, err)
		case i >= 0 && settled:
			return tellEnd(cmd, &found.Things[i])
		}
		if settled = i >= 0; !backoff.Wait(cmd.Context(), jobLook) {
			return fmt.Errorf("%w: raysys get %s shows what becomes of it: while it goes on the same raysys start "+
				"--name %[2]s joins it, and raysys cancel %[2]s ends it", context.Cause(cmd.Context()), s.Name)
		}
	}
}

// tellEnd says what came of a job.
func tellEnd(cmd *cobra.Command, t *inspect.Thing) error {
	switch {
	case t.Value.State == "failed":
		return fmt.Errorf("%s failed: %s", t.Name, t.Value.Error)
	case t.Outcome == nil || t.Outcome.JSON == nil:
		fmt.Fprintln(cmd.ErrOrStderr(), "it has ended: raysys get shows what is known of its result")
		return nil
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", t.Outcome.JSON)
	return err
}
