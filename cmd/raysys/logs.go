package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/printable"
	"github.com/raysys/raysys/internal/worklog"
	"github.com/raysys/raysys/system"
)

func logsCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logs [flags]",
		Short: "Show what the programs of nodes wrote",
		Long: `Show the last lines that the programs of nodes wrote, by time: their log, lines of raysys.Logger, and plain output. raysys node keeps
them, with what it says of the program itself, so that the last words of a process that died are there once it is started again.
--driver and --function show lines of raysys.Logger alone. -f goes on with lines that come, until it is interrupted.`,
		Example: "  raysys logs --node node-1 -n 20\n  raysys logs -f --function main.square",
		Args:    cli.NoArgs,
	}
	flags := cmd.Flags()
	at := whereFlags(flags)
	urlFlag(flags, at)
	form := cli.OutputFlag(flags)
	timeout := timeoutFlag(flags, 10*time.Second)
	var q inspect.LogQuery
	node := flags.String("node", "", "lines of this node alone")
	flags.StringVar(&q.Driver, "driver", "", "lines that the work of this driver wrote, by the name of its node")
	flags.StringVar(&q.Function, "function", "", "lines that this function wrote: a task's, KIND/KEY.METHOD of a grain, or a kind of grains")
	flags.IntVarP(&q.Limit, "lines", "n", 100, "how many lines of each node, the last")
	follow := flags.BoolP("follow", "f", false, "go on with lines that come")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if q.Limit < 0 {
			return cli.Usagef("--lines %d: give 0 or more", q.Limit)
		}
		if *node != "" {
			if err := checkName("--node", *node); err != nil {
				return err
			}
			q.Node = raysys.NodeID(*node)
		}
		show := shownLine(cmd.OutOrStdout(), *form == cli.JSON)
		if *follow {
			return withReader(cmd.Context(), on, *at, func(c client.Reader) error {
				_, err := c.Logs(cmd.Context(), q, show)
				return logsError(q, err)
			})
		}
		return limited(cmd.Context(), *timeout, func(ctx context.Context) error {
			return withReader(ctx, on, *at, func(c client.Reader) error {
				all, err := c.Logs(ctx, q, nil)
				if err != nil {
					return logsError(q, err)
				}
				if *form == cli.JSON {
					return printable.WriteJSON(cmd.OutOrStdout(), all)
				}
				for _, l := range all.Lines {
					show(l)
				}
				return logsFoot(cmd.ErrOrStderr(), q, cli.Printable(all))
			})
		})
	}
	return cmd
}

// shownLine writes lines for people, or as JSON, one a line.
func shownLine(w io.Writer, asJSON bool) func(inspect.LogLine) {
	if asJSON {
		return func(l inspect.LogLine) { _ = printable.WriteJSON(w, l) } // a reader that is gone ends the command by a signal
	}
	v := worklog.View{Time: true, Colour: readByPerson(w)}
	return func(l inspect.LogLine) {
		var out []byte
		for line := range strings.SplitSeq(string(v.Append(nil, &l)), "\n") {
			out = fmt.Appendf(out, "%s | %s\n", printable.Escape(string(l.Node)), line)
		}
		_, _ = w.Write(out)
	}
}

// logsFoot says what is missing.
func logsFoot(w io.Writer, q inspect.LogQuery, all inspect.Logs) error {
	for _, s := range all.Silent {
		fmt.Fprintf(w, "%s\n", s)
	}
	if n := len(all.Lines); n < all.Matched {
		fmt.Fprintf(w, "%d of %d lines: -n shows more, at most 1 MiB of each node\n", n, all.Matched)
	}
	if all.Matched > 0 || q.Driver == "" && q.Function == "" {
		return nil
	}
	what := strings.TrimSpace(fmt.Sprintf("%s %s", q.Function, q.Driver))
	if len(all.Drivers) == 0 {
		return fmt.Errorf("%w: no work wrote a line with raysys.Logger: none of %s", client.ErrNotFound, what)
	}
	return fmt.Errorf("%w: no line of %s: there are some of the functions %s, and of the drivers %s", client.ErrNotFound, what, strings.Join(all.Functions, ", "), strings.Join(all.Drivers, ", "))
}

func logsError(q inspect.LogQuery, err error) error {
	switch {
	case errors.Is(err, system.ErrNoSuchNode):
		return fmt.Errorf("%w: no node named %s is in the cluster: run raysys status", client.ErrNotFound, q.Node)
	case err != nil:
		return fmt.Errorf("read logs: %w: run raysys doctor", err)
	}
	return nil
}

// Logs implements client.Cluster.
func (o *observer) Logs(ctx context.Context, q inspect.LogQuery, follow func(inspect.LogLine)) (inspect.Logs, error) {
	return o.node.Logs(ctx, q, follow)
}
