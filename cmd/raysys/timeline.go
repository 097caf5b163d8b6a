package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/inspect"
)

func timelineCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "timeline [flags] FILE",
		Short: "Record what runs on all nodes, for a trace viewer",
		Long: `Have all nodes record the tasks and calls that begin from now on, and write them to FILE as a trace, which https://ui.perfetto.dev and
chrome://tracing open: a process for each node, a row for each CPU slot and for each kind of grain, and arrows from what submitted a task
or call to it. With FILE - it goes to standard output. A node records 20,000 of them a second at most, and of more one of so many; what
is left out is said here and in the file. A cluster has one recording at a time: who asks meanwhile gets that.`,
		Example: "  raysys timeline --for 5s trace.json\n  raysys timeline --function main.square --url http://127.0.0.1:8265/ trace.json",
		Args:    oneArgument("the name of the file, or - for standard output"),
	}
	flags := cmd.Flags()
	at := whereFlags(flags)
	urlFlag(flags, at)
	var q inspect.TimelineQuery
	flags.DurationVar(&q.For, "for", 10*time.Second, "how long the nodes record, 100ms to 1m")
	flags.StringVar(&q.Function, "function", "", "tasks of this function alone, or calls of this KIND.METHOD of grains")
	timeout := timeoutFlag(flags, 90*time.Second)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return limited(cmd.Context(), *timeout, func(ctx context.Context) error {
			return withReader(ctx, on, *at, func(c client.Reader) error {
				all, err := recordTimeline(ctx, c, q, args[0], cmd.OutOrStdout())
				switch {
				case errors.Is(err, raysys.ErrBadOption):
					return cli.Usage(err)
				case errors.Is(err, raysys.ErrNotFound):
					return fmt.Errorf("%w: %w", client.ErrNotFound, err)
				case err != nil:
					return fmt.Errorf("record a timeline: %w", err)
				}
				all = cli.Printable(all)
				talk := cmd.ErrOrStderr()
				fmt.Fprintf(talk, "%s of %v: https://ui.perfetto.dev opens the file\n", client.Some(all.Events, "task or call", "tasks and calls"), all.For)
				if all.LeftOut > 0 {
					fmt.Fprintf(talk, "%d of %d that began are left out: nodes record 20,000 a second at most\n", all.LeftOut, all.Begun)
				}
				for _, s := range all.Silent {
					fmt.Fprintf(talk, "%s\n", s)
				}
				return nil
			})
		})
	}
	return cmd
}

// recordTimeline writes a file of that name once all is there.
func recordTimeline(ctx context.Context, c client.Reader, q inspect.TimelineQuery, name string, stdout io.Writer) (all inspect.Timeline, err error) {
	err = toFile(name, stdout, func(w io.Writer) (err error) {
		all, err = c.Timeline(ctx, q, w)
		return err
	})
	return all, err
}

// toFile has f write a file of that name, and what it had stays where that fails. "-" is standard output. What is no
// file, such as /dev/null or a pipe, is written to: a rename would take its place.
func toFile(name string, stdout io.Writer, write func(io.Writer) error) error {
	if name == "-" {
		return write(stdout)
	}
	if i, err := os.Stat(name); err == nil && !i.Mode().IsRegular() {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".raysys-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = write(f)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	return err
}

// Timeline implements client.Cluster.
func (o *observer) Timeline(ctx context.Context, q inspect.TimelineQuery, w io.Writer) (inspect.Timeline, error) {
	return o.node.Timeline(ctx, q, w)
}
