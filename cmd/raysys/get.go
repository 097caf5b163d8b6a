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
)

// oneArgument refuses anything but one argument that is not empty.
func oneArgument(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return cli.Usagef("%s takes %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

func getCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get ID | KIND/KEY | NAME",
		Short: "Say all that is known of a task, a value, a grain, a job, a placement group or a schedule",
		Long: `Ask all nodes what they know of a task or a value, by its id or its first digits; of a grain, by its KIND/KEY; or of a detached task,
an object, a placement group or a schedule, by its name.

Of a task: where it waits or runs, for how long, behind what and for which resources, what keeps each node from taking it, which attempt
it is; or where it was placed and why, as far as that is remembered. Of a value: where it is, how it was made, of what, and why it is lost
or cannot be made again. Of a grain: its mailbox, its turn, with the stacks of one that is past its deadline, and its State as it is
stored, as JSON. Of what failed: the last failure that a node remembers, with the stack of a panic. A text that fits several things shows each.`,
		Args: oneArgument("the id of a task or a value, or how it begins; the KIND/KEY of a grain; or a name: raysys list shows what there is"),
	}
	at := whereFlags(cmd.Flags())
	urlFlag(cmd.Flags(), at)
	form := cli.OutputFlag(cmd.Flags())
	timeout := timeoutFlag(cmd.Flags(), 10*time.Second)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return limited(cmd.Context(), *timeout, func(ctx context.Context) error {
			return withReader(ctx, on, *at, func(c client.Reader) error {
				found, err := c.Get(ctx, args[0])
				if err != nil {
					return fmt.Errorf("%w: run raysys list", err)
				}
				if *form == cli.JSON {
					return printable.WriteJSON(cmd.OutOrStdout(), found)
				}
				shown := cli.Printable(found)
				for i, t := range found.Things {
					if t.Failure != nil {
						shown.Things[i].Failure.Stack = strings.Join(printable.Lines(t.Failure.Stack), "\n")
					}
				}
				return client.FoundText(cmd.OutOrStdout(), shown, time.Now())
			})
		})
	}
	return cmd
}

func cancelCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel NAME | ID",
		Short: "End a job, a task, or a placement group with what runs in it",
		Long: `End a detached task or a placement group by its name, or a task or a placement group by its id or the first digits of that. A task is
cancelled, with all that it has submitted. What waits or runs in a placement group is cancelled, and the command returns once that has
returned and the room is free; a removal that is not over within --timeout goes on. A text that fits several things ends none of them.`,
		Args: oneArgument("the name or the id of one job, task or placement group: raysys list tasks and raysys list groups show them"),
	}
	at := whereFlags(cmd.Flags())
	form := cli.OutputFlag(cmd.Flags())
	timeout := timeoutFlag(cmd.Flags(), time.Minute)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return limited(cmd.Context(), *timeout, func(ctx context.Context) error {
			return withCluster(ctx, on, *at, func(c client.Cluster) error {
				t, err := c.Cancel(ctx, args[0])
				switch {
				case errors.Is(err, raysys.ErrBadOption):
					return cli.Usagef("cancel %s: %w", args[0], err)
				case err != nil:
					return fmt.Errorf("cancel %s: %w: run raysys list", args[0], err)
				case *form == cli.JSON:
					return printable.WriteJSON(cmd.OutOrStdout(), t)
				}
				t = cli.Printable(t)
				fmt.Fprintf(cmd.ErrOrStderr(), "%s is cancelled\n", client.ThingName(&t))
				return nil
			})
		})
	}
	return cmd
}

func outboxCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use: "outbox", Short: "Drop messages of a durable grain that do not arrive",
		Args: func(cmd *cobra.Command, _ []string) error {
			return cli.Usagef("%s takes what to do: there is drop", cmd.CommandPath())
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	drop := &cobra.Command{
		Use:   "drop KIND/KEY --to RECEIVER",
		Short: "Remove the messages of a grain to a receiver for good",
		Long: `Remove the messages of a durable grain to a receiver that is gone for good. raysys get KIND/KEY shows the
receivers. A message that is on its way may still arrive. The node of the grain logs who asked.`,
		Args: oneArgument("the KIND/KEY of one grain: raysys list grains shows them"),
	}
	at := whereFlags(drop.Flags())
	to := drop.Flags().String("to", "", "the receiver, as raysys get KIND/KEY shows it")
	timeout := timeoutFlag(drop.Flags(), 10*time.Second)
	drop.RunE = func(cmd *cobra.Command, args []string) error {
		if *to == "" {
			return cli.Usagef("%s takes --to RECEIVER: raysys get %s shows them", cmd.CommandPath(), args[0])
		}
		return limited(cmd.Context(), *timeout, func(ctx context.Context) error {
			return withCluster(ctx, on, *at, func(c client.Cluster) error {
				n, err := c.DropMessages(ctx, args[0], *to)
				if errors.Is(err, raysys.ErrUnreachable) {
					err = fmt.Errorf("%w: %w", client.ErrUnreachable, err)
				}
				if err != nil {
					return fmt.Errorf("outbox drop: %w: run raysys get %s", notFound(err), args[0])
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "%d messages of %s to %s are dropped; one on its way may still arrive\n",
					n, printable.Escape(args[0]), printable.Escape(*to))
				return nil
			})
		})
	}
	cmd.AddCommand(drop)
	return cmd
}

// DropMessages implements client.Cluster.
func (o *observer) DropMessages(ctx context.Context, grain, receiver string) (int, error) {
	return o.node.DropMessages(ctx, grain, receiver)
}

func stackCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stack NODE",
		Short: "Show the stacks of a node's goroutines, equal ones once",
		Long: `Show the stacks of the goroutines of a node's process, the innermost function first: equal ones once, with their number, the most
frequent first. Neighbours that are raysys's own functions are one line.`,
		Args: oneNode,
	}
	at := whereFlags(cmd.Flags())
	cmd.ValidArgsFunction = nodeNames(on, at)
	form := cli.OutputFlag(cmd.Flags())
	timeout := timeoutFlag(cmd.Flags(), 10*time.Second)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return limited(cmd.Context(), *timeout, func(ctx context.Context) error {
			return withCluster(ctx, on, *at, func(c client.Cluster) error {
				s, err := c.Stack(ctx, raysys.NodeID(args[0]))
				switch {
				case errors.Is(err, raysys.ErrUnreachable):
					return fmt.Errorf("%w: stack %s: %w: run raysys doctor", client.ErrUnreachable, args[0], err)
				case err != nil:
					return fmt.Errorf("stack %s: %w: run raysys status", args[0], err)
				case *form == cli.JSON:
					return printable.WriteJSON(cmd.OutOrStdout(), s)
				}
				return client.StacksText(cmd.OutOrStdout(), cli.Printable(s))
			})
		})
	}
	return cmd
}

func profileCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile [flags] NODE FILE",
		Short: "Write what a node has on its heap to a file, for go tool pprof",
		Long: `Write to FILE what a node's process has on its Go heap after a collection, by the functions that made it,
for go tool pprof. With FILE - it goes to standard output. It needs no page on the node. A profile of more than 768 KiB
is an error: then fetch /debug/pprof/heap of its page.`,
		Example: "  raysys profile node-1 heap.pprof && go tool pprof -top heap.pprof",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				const takes = "%s takes the name of a node, and of the file, or - for standard output"
				return cli.Usagef(takes, cmd.CommandPath())
			}
			return checkName("NODE", args[0])
		},
	}
	at := whereFlags(cmd.Flags())
	cmd.ValidArgsFunction = nodeNames(on, at)
	timeout := timeoutFlag(cmd.Flags(), 10*time.Second)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return limited(cmd.Context(), *timeout, func(ctx context.Context) error {
			return withCluster(ctx, on, *at, func(c client.Cluster) error {
				err := toFile(args[1], cmd.OutOrStdout(), func(w io.Writer) error {
					profile, err := c.HeapProfile(ctx, raysys.NodeID(args[0]))
					if err == nil {
						_, err = w.Write(profile)
					}
					return err
				})
				switch {
				case errors.Is(err, raysys.ErrUnreachable):
					return fmt.Errorf("%w: profile %s: %w: run raysys doctor", client.ErrUnreachable, args[0], err)
				case err != nil:
					return fmt.Errorf("profile %s: %w", args[0], err)
				}
				return nil
			})
		})
	}
	return cmd
}

// HeapProfile implements client.Cluster.
func (o *observer) HeapProfile(ctx context.Context, node raysys.NodeID) ([]byte, error) {
	p, err := o.node.HeapProfile(ctx, node)
	return p, notFound(err)
}

// Get implements client.Cluster.
func (o *observer) Get(ctx context.Context, text string) (inspect.Found, error) {
	return o.node.Get(ctx, text)
}

// Cancel implements client.Cluster.
func (o *observer) Cancel(ctx context.Context, text string) (inspect.Thing, error) {
	return o.node.Cancel(ctx, text)
}

// Stack implements client.Cluster.
func (o *observer) Stack(ctx context.Context, node raysys.NodeID) (inspect.Stacks, error) {
	s, err := o.node.Stack(ctx, node)
	return s, notFound(err)
}

// Groups implements client.Cluster.
func (o *observer) Groups(ctx context.Context, limit int) (inspect.Groups, error) {
	return o.node.Groups(ctx, "", limit)
}
