package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/cmd/raysys/internal/doctor"
)

func timeoutFlag(flags *pflag.FlagSet, d time.Duration) *time.Duration {
	return flags.Duration("timeout", d, "how long the command may take")
}

// limited runs f with the time that is given, and says when that was why it failed.
func limited(ctx context.Context, d time.Duration, f func(ctx context.Context) error) error {
	if d <= 0 {
		return cli.Usagef("--timeout %v: give a positive duration", d)
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := f(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.Is(err, client.ErrUnreachable) && !errors.Is(err, client.ErrTimedOut) {
		err = fmt.Errorf("%w after %v: %w", client.ErrTimedOut, d, err)
	}
	return err
}

// withCluster connects, runs f and lets go again.
func withCluster(ctx context.Context, on cluster, at client.Where, f func(client.Cluster) error) error {
	if err := checkWhere(&at); err != nil {
		return err
	}
	c, err := on.connect(ctx, at)
	if err != nil {
		return fmt.Errorf("%w: run raysys doctor", err)
	}
	return errors.Join(f(c), c.Close())
}

// withReader is withCluster for commands that read alone.
func withReader(ctx context.Context, on cluster, at client.Where, f func(client.Reader) error) error {
	if at.URL == "" {
		return withCluster(ctx, on, at, func(c client.Cluster) error { return f(c) })
	}
	c, err := client.OpenPage(at)
	if err != nil {
		return cli.Usage(err)
	}
	return errors.Join(f(c), c.Close())
}

func statusCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show nodes, shards and grains",
		Args:  cli.NoArgs,
	}
	at := whereFlags(cmd.Flags())
	urlFlag(cmd.Flags(), at)
	form := cli.OutputFlag(cmd.Flags())
	timeout := timeoutFlag(cmd.Flags(), 10*time.Second)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return limited(cmd.Context(), *timeout, func(ctx context.Context) error {
			return withReader(ctx, on, *at, func(c client.Reader) error {
				s, err := c.Status(ctx)
				if err != nil {
					return fmt.Errorf("read status: %w: run raysys doctor", err)
				}
				client.Sort(&s)
				if *form == cli.JSON {
					err = client.JSON(cmd.OutOrStdout(), s)
				} else {
					err = client.Table(cmd.OutOrStdout(), cli.Printable(s))
				}
				if err != nil {
					return err
				}
				if err := client.Silent(s); err != nil {
					return fmt.Errorf("%w: run raysys doctor", err)
				}
				return nil
			})
		})
	}
	return cmd
}

// oneNode refuses anything but the name of a node.
func oneNode(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return cli.Usagef("%s takes the name of one node: run raysys status to see them", cmd.CommandPath())
	}
	return checkName("NODE", args[0])
}

func drainCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drain NODE",
		Short: "Empty a node and let it go",
		Long: `Empty a node: it takes nothing new, its tasks end, its grains move to others. Then it leaves the cluster and its
program exits with 0, so that raysys node there ends too. A drain that is not over within --timeout goes on: the error
names tasks and grains that keep the node. With --cancel a drain is taken back, and the node takes work again.

What could not be moved is not waited for: objects of which no other node could take a copy are lost, and counted in the answer.`,
		Args: oneNode,
	}
	at := whereFlags(cmd.Flags())
	cmd.ValidArgsFunction = nodeNames(on, at)
	timeout := timeoutFlag(cmd.Flags(), 5*time.Minute)
	form := cli.OutputFlag(cmd.Flags())
	noWait := cmd.Flags().Bool("no-wait", false, "return when the drain has begun")
	back := cmd.Flags().Bool("cancel", false, "take the drain of the node back")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *back && *noWait {
			return cli.Usagef("--cancel and --no-wait: give one of them")
		}
		return limited(cmd.Context(), *timeout, func(ctx context.Context) error {
			return withCluster(ctx, on, *at, func(c client.Cluster) error {
				node, talk := raysys.NodeID(args[0]), cmd.ErrOrStderr()
				if *back {
					if err := c.CancelDrain(ctx, node); err != nil {
						return fmt.Errorf("cancel the drain of %s: %w: run raysys status", node, err)
					}
					fmt.Fprintf(talk, "%s stays\n", node)
					return nil
				}
				d, err := c.Drain(ctx, node, !*noWait, func() { fmt.Fprintf(talk, "draining %s\n", node) })
				if err != nil {
					return fmt.Errorf("drain %s: %w: run raysys status", node, err)
				}
				if *noWait {
					return nil
				}
				return tellDrain(cmd.OutOrStdout(), talk, d, *form)
			})
		})
	}
	return cmd
}

// tellDrain says what came of a drain, and fails when that is not known.
func tellDrain(out, talk io.Writer, d client.Drain, form cli.Output) error {
	if form == cli.JSON {
		if err := client.DrainJSON(out, d); err != nil {
			return err
		}
	}
	d = cli.Printable(d)
	if form != cli.JSON {
		if err := client.DrainTable(out, d); err != nil {
			return err
		}
	}
	if !d.Told {
		return fmt.Errorf("drain %s: it is gone, and did not say how its drain ended: it may have died: run raysys status", d.Node)
	}
	if d.Error != "" {
		fmt.Fprintf(talk, "not all was done in time: %s\n", d.Error)
	}
	if d.Lost > 0 {
		fmt.Fprintf(talk, "%s lost: no other node has a copy\n", client.Some(d.Lost, "object that others need is", "objects that others need are"))
	}
	fmt.Fprintf(talk, "%s has left\n", d.Node)
	return nil
}

func doctorCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what keeps a cluster from working",
		Long: `Check in order what a cluster needs: Consul, its ACL, its connections, the clock, the limits of the operating system,
the ports between nodes in both directions, their versions. Each finding comes with what to do. Run it on the host of a
node, as the node's user and with its variables. The exit code is 1 when something failed, 3 when Consul does not answer.`,
		Args: cli.NoArgs,
	}
	at := whereFlags(cmd.Flags())
	form := cli.OutputFlag(cmd.Flags())
	timeout := timeoutFlag(cmd.Flags(), 30*time.Second)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkWhere(at); err != nil {
			return err
		}
		return limited(cmd.Context(), *timeout, func(ctx context.Context) error {
			d, done, err := on.examine(*at)
			if err != nil {
				return err
			}
			findings := d.Examine(ctx)
			if err := done(); err != nil && ctx.Err() == nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "leave the cluster:", err)
			}
			if *form == cli.JSON {
				err = doctor.JSON(cmd.OutOrStdout(), findings)
			} else {
				err = doctor.Table(cmd.OutOrStdout(), cli.Printable(findings))
			}
			if err != nil {
				return err
			}
			failed := doctor.Worst(findings)
			switch {
			case len(failed) == 0:
				return nil
			case failed[0].Check == "consul":
				return fmt.Errorf("%w: %s", client.ErrUnreachable, failed[0].Fix)
			}
			return fmt.Errorf("%d of %d checks failed, first %s: %s", len(failed), len(findings), failed[0].Check, failed[0].Fix)
		})
	}
	return cmd
}
