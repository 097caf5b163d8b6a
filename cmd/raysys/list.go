package main

import (
	"bytes"
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
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/printable"
	"github.com/raysys/raysys/system"
)

// list is one thing that raysys list shows.
type list struct {
	name, short, long string
	flags             func(*pflag.FlagSet) asks // declares those of its own, and returns what asks with them
	nodes             bool                      // it has --node
	watch             bool                      // it has --watch
}

type asks func(ctx context.Context, c client.Reader, node raysys.NodeID) (answered, error)

// answered is what came of it.
type answered struct {
	table  func(io.Writer) error // for people
	as     any                   // encoded as JSON
	silent []string              // nodes that do not answer, and why
}

func listCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what a cluster has, by kind: tasks, grains, objects and more",
		Long: `List what a cluster has, by kind. Each node is asked for what it has at this moment; of one that does not answer the list says so.
Filters act on the nodes, before --limit. An answer has at most 1 MiB, and says how many there are.`,
		Args: func(cmd *cobra.Command, args []string) error {
			var names string
			for _, l := range lists {
				names += ", " + l.name
			}
			return cli.Usagef("%s takes what to list: there are %s, states", cmd.CommandPath(), names[2:])
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	for _, l := range lists {
		cmd.AddCommand(l.command(on))
	}
	cmd.AddCommand(statesCommand(on))
	return cmd
}

func (l *list) command(on cluster) *cobra.Command {
	cmd := &cobra.Command{Use: l.name, Short: l.short, Long: l.long, Args: cli.NoArgs}
	at := whereFlags(cmd.Flags())
	urlFlag(cmd.Flags(), at)
	form := cli.OutputFlag(cmd.Flags())
	timeout := timeoutFlag(cmd.Flags(), 10*time.Second)
	node := new(string)
	if l.nodes {
		node = cmd.Flags().String("node", "", "what is on this node, and no other")
		if err := cmd.RegisterFlagCompletionFunc("node", nodeNames(on, at)); err != nil {
			panic(err) // the flag is there
		}
	}
	watch := new(bool)
	if l.watch {
		watch = cmd.Flags().Bool("watch", false, "ask again every 2 s until it is interrupted, each time for up to --timeout")
	}
	ask := l.flags(cmd.Flags())
	look := func(ctx context.Context, w io.Writer, c client.Reader) error {
		a, err := ask(ctx, c, raysys.NodeID(*node))
		switch {
		case errors.Is(err, raysys.ErrBadOption):
			return cli.Usagef("list %s: %w", l.name, err)
		case errors.Is(err, system.ErrNoSuchNode):
			return fmt.Errorf("list %s: %w: no node named %s is in the cluster: run raysys status", l.name, client.ErrNotFound, *node)
		case errors.Is(err, client.ErrNotFound):
			return fmt.Errorf("list %s: %w", l.name, err)
		case err != nil:
			return fmt.Errorf("list %s: %w: run raysys doctor", l.name, err)
		case *form == cli.JSON:
			err = printable.WriteJSON(w, a.as)
		default:
			err = a.table(w)
		}
		if err == nil && *node != "" && len(a.silent) > 0 {
			err = fmt.Errorf("%w: node %s: run raysys doctor", client.ErrUnreachable, a.silent[0])
		}
		return err
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *node != "" {
			if err := checkName("--node", *node); err != nil {
				return err
			}
		}
		if limit, err := cmd.Flags().GetInt("limit"); err == nil && limit < 0 {
			return cli.Usagef("--limit %d: give 0 or more", limit)
		}
		w := cmd.OutOrStdout()
		if *watch {
			return withReader(cmd.Context(), on, *at, func(c client.Reader) error {
				return watched(cmd.Context(), w, *form == cli.Table && readByPerson(w), func(w io.Writer) error {
					return limited(cmd.Context(), *timeout, func(ctx context.Context) error { return look(ctx, w, c) })
				})
			})
		}
		return limited(cmd.Context(), *timeout, func(ctx context.Context) error {
			return withReader(ctx, on, *at, func(c client.Reader) error { return look(ctx, w, c) })
		})
	}
	return cmd
}

// watchPause is how long watched waits between two looks.
const watchPause = 2 * time.Second

// watched looks until ctx ends, which is no error. What it shows replaces what was there, where the screen is to be redrawn.
func watched(ctx context.Context, w io.Writer, redraw bool, look func(io.Writer) error) error {
	tick := time.NewTicker(watchPause)
	defer tick.Stop()
	for {
		var b bytes.Buffer
		if redraw {
			b.WriteString("\x1b[H\x1b[2J") // to the corner, and clear
		}
		err := look(&b)
		if ctx.Err() != nil {
			return nil
		}
		if _, bad := w.Write(b.Bytes()); err != nil || bad != nil {
			return errors.Join(err, bad)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func limitFlag(flags *pflag.FlagSet, what string) *int {
	return flags.Int("limit", 100, "how many to list, "+what)
}

var lists = []list{{
	name: "tasks", short: "Show tasks that wait or run, the longest first", nodes: true,
	long: `Show the tasks of all programs that wait or run, also those in the queues of drivers: those that have waited, or run, longest come first.
A task waits before it has begun, runs, or is blocked: its function waits for other work.`,
	flags: func(flags *pflag.FlagSet) asks {
		var q inspect.TaskQuery
		flags.StringVar(&q.State, "state", "", "waiting, running or blocked; none: all")
		flags.StringVar(&q.Function, "function", "", "tasks of this function alone")
		flags.BoolVar(&q.Detached, "detached", false, "detached tasks alone")
		limit := limitFlag(flags, "those that have waited or run longest")
		return func(ctx context.Context, c client.Reader, node raysys.NodeID) (answered, error) {
			q.Node, q.Limit = node, orNone(*limit)
			t, err := c.Tasks(ctx, q)
			return answered{func(w io.Writer) error { return client.TasksTable(w, cli.Printable(t)) }, t, t.Silent}, err
		}
	},
}, {
	name: "grains", short: "Show grains in memory, the fullest mailbox first", nodes: true,
	long: `Show the grains of all programs that are in memory, those with the fullest mailboxes first: how many messages wait, which method or hook
runs and for how long at least, and why nothing waits for that any more.`,
	flags: func(flags *pflag.FlagSet) asks {
		var q inspect.GrainQuery
		flags.StringVar(&q.Kind, "kind", "", "grains of this kind alone")
		flags.StringVar(&q.Key, "key", "", "grains whose keys begin so")
		limit := limitFlag(flags, "those with the fullest mailboxes")
		return func(ctx context.Context, c client.Reader, node raysys.NodeID) (answered, error) {
			q.Node, q.Limit = node, orNone(*limit)
			g, err := c.Grains(ctx, q)
			return answered{func(w io.Writer) error { return client.GrainsTable(w, cli.Printable(g)) }, g, g.Silent}, err
		}
	},
}, {
	name: "objects", short: "Show which objects are held, where, by whom and why", nodes: true,
	long: `Show the object stores of all nodes, or of one, and their largest objects: values above 64 KiB. For each: in which forms it
is there (the Go value, bytes in memory, a segment that other processes can map, a file), what brought it there, and what
keeps it: names, references of other nodes, replicas, references and uses of the node itself. What a process holds of its
own objects only its garbage collector knows.`,
	flags: func(flags *pflag.FlagSet) asks {
		limit := flags.Int("limit", 20, "how many to list, the largest")
		return func(ctx context.Context, c client.Reader, node raysys.NodeID) (answered, error) {
			m, err := c.Memory(ctx, node, *limit)
			m.Bound(*limit)
			return answered{func(w io.Writer) error { return client.MemoryTable(w, cli.Printable(m), time.Now()) }, client.WithoutNull(m), m.Silent()}, err
		}
	},
}, {
	name: "groups", short: "Show placement groups, the oldest first",
	long: `Show the placement groups of all programs, the oldest first: name and id, what they go with, strategy, state, bundles with their
nodes, and since when they are there. A group waits while one of its bundles has no node; it gathers while nodes keep for it what
becomes free; it is held once all bundles have nodes; and it is going until what runs in it has returned.
raysys cancel removes one.`,
	flags: func(flags *pflag.FlagSet) asks {
		limit := limitFlag(flags, "the oldest")
		return func(ctx context.Context, c client.Reader, _ raysys.NodeID) (answered, error) {
			g, err := c.Groups(ctx, *limit)
			return answered{func(w io.Writer) error { return client.GroupsTable(w, cli.Printable(g), time.Now()) }, g, g.Silent}, err
		}
	},
}, {
	name: "functions", short: "Show how often functions ran, how fast, and what of them runs and waits", watch: true,
	long: `Show each function and each method of all programs, those with the most runs first: how often it ran since the nodes started, how
many of these runs failed, what half and 99 in a hundred of them took less than, and how much of it runs and waits now. --watch shows that again
and again, from the second time on with the runs in a second since the time before.`,
	flags: func(flags *pflag.FlagSet) asks {
		limit := limitFlag(flags, "those with the most runs")
		var before inspect.Functions
		return func(ctx context.Context, c client.Reader, _ raysys.NodeID) (answered, error) {
			f, err := c.Functions(ctx, orNone(*limit))
			f, before = f.Since(before), f
			return answered{func(w io.Writer) error { return client.FunctionsTable(w, cli.Printable(f)) }, f, f.Silent}, err
		}
	},
}, {
	name: "failures", short: "Show what failed, the latest first",
	long: `Show what failed on the nodes that are there, the latest first: failures of one function whose texts differ in digits alone are one
line, with how many there were, since when, and the last of them. -o json has the stacks of panics.`,
	flags: func(flags *pflag.FlagSet) asks {
		limit := limitFlag(flags, "the latest")
		return func(ctx context.Context, c client.Reader, _ raysys.NodeID) (answered, error) {
			f, err := c.Failures(ctx, orNone(*limit))
			return answered{func(w io.Writer) error { return client.FailuresTable(w, cli.Printable(f), time.Now()) }, f, f.Silent}, err
		}
	},
}, {
	name: "streams", short: "Show how far the subscriptions of streams are",
	long: `Show each subscription of all programs: the stream, the kind of grain to which its events go, its parts and the nodes that deliver
them, the lag (events that are stored and were not taken), grains whose handler fails, events parked since the parts began to be delivered where
they are, and events taken in a second, of the last ten. A line says how many were dropped, for whom. -o json has each part.`,
	flags: func(*pflag.FlagSet) asks {
		return func(ctx context.Context, c client.Reader, _ raysys.NodeID) (answered, error) {
			s, err := c.Streams(ctx)
			return answered{func(w io.Writer) error { return client.StreamsTable(w, cli.Printable(s)) }, s, s.Silent}, err
		}
	},
}, {
	name: "schedules", short: "Show the schedules of all programs, the soonest first",
	long: `Show the schedules of all programs, first what a node has in hand, then the soonest: when they are due, what they do, when they fire next and fired
last, how many times each has missed and why ("12: 9 overlap, 3 late"), and why one stays though it is due. -o json has more, and so has raysys get NAME.
raysys schedule pauses, resumes, runs and deletes them.`,
	flags: func(flags *pflag.FlagSet) asks {
		prefix := flags.String("prefix", "", "those whose names begin so")
		limit := flags.Int("limit", 1000, "how many to list, the soonest; 1000 at most")
		return func(ctx context.Context, c client.Reader, _ raysys.NodeID) (answered, error) {
			s, err := c.Schedules(ctx, *prefix, *limit)
			return answered{func(w io.Writer) error { return client.SchedulesTable(w, cli.Printable(s), time.Now()) }, s, s.Silent}, err
		}
	},
}, {
	name: "waits", short: "Show who waits for what, down to the work at the end",
	long: `Show the tasks and the turns of grains that wait for other work, those that have done so longest first, and below each what it waits
for, on whatever node that is, down to work that waits for no other: which runs, or has not begun.`,
	flags: func(flags *pflag.FlagSet) asks {
		limit := limitFlag(flags, "those that have waited longest")
		return func(ctx context.Context, c client.Reader, _ raysys.NodeID) (answered, error) {
			s, err := c.Waits(ctx, orNone(*limit))
			return answered{func(w io.Writer) error { return client.WaitsTable(w, cli.Printable(s)) }, s, s.Silent}, err
		}
	},
}}

func statesCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use: "states KIND", Short: "Show what is stored of the grains of a durable kind",
		Long: `Show what is stored of the grains of a durable kind, program by program and shard by shard: key, turns,
States and their bytes, entries of Maps, keys of calls, and messages to others that have not arrived. No turn runs and
no grain is activated. With --values also what the States and Maps say, as a node that has the kind reads it: a value of
more than 384 KiB is cut, and a grain with one that may hold references has none. -o json has a line for each grain: an
export.`,
		Example: "  raysys list states bank.purse --prefix eu/ --values -o json >purses.jsonl",
		Args:    oneArgument("the name of one durable kind: raysys list grains shows those of grains in memory"),
	}
	at := whereFlags(cmd.Flags())
	urlFlag(cmd.Flags(), at)
	form := cli.OutputFlag(cmd.Flags())
	timeout := timeoutFlag(cmd.Flags(), 10*time.Second)
	var q inspect.StoredQuery
	cmd.Flags().StringVar(&q.Prefix, "prefix", "", "those whose keys begin so")
	cmd.Flags().BoolVar(&q.Values, "values", false, "with the values of States and Maps")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q.Kind = args[0]
		return withReader(cmd.Context(), on, *at, func(c client.Reader) error {
			if err := listStates(cmd.Context(), cmd.OutOrStdout(), c, q, *form == cli.JSON, *timeout); err != nil {
				return fmt.Errorf("list states: %w", err)
			}
			return nil
		})
	}
	return cmd
}

// maxAligned bounds what listStates has in memory of a table, a page aside.
const maxAligned = 100

// listStates writes all pages, each of which has the time of a command.
func listStates(
	ctx context.Context, w io.Writer, c client.Reader, q inspect.StoredQuery, lines bool, timeout time.Duration,
) error {
	count := 0
	var rows inspect.StoredGrains // whose columns are aligned together: most pages are of few grains
	table := func() error {
		if len(rows.Grains) == 0 {
			return nil
		}
		err := client.StatesTable(w, cli.Printable(rows), count == len(rows.Grains))
		rows.Grains = nil
		return err
	}
	for more := true; more; more = q.From != "" {
		err := limited(ctx, timeout, func(ctx context.Context) error {
			p, err := c.StoredGrains(ctx, q)
			if err != nil {
				return fmt.Errorf("%w: run raysys doctor", err)
			}
			q.From = p.Next
			if lines {
				for i := range p.Grains {
					err = errors.Join(err, printable.WriteJSON(w, &p.Grains[i]))
				}
			} else {
				rows.Grains = append(rows.Grains, p.Grains...)
			}
			count += len(p.Grains)
			return err
		})
		if err != nil || len(rows.Grains) >= maxAligned || q.From == "" {
			err = errors.Join(table(), err)
		}
		if err != nil {
			return err
		}
	}
	if count > 0 {
		return nil
	}
	return limited(ctx, timeout, func(ctx context.Context) error {
		_, err := c.Grains(ctx, inspect.GrainQuery{Kind: q.Kind, Limit: -1})
		switch {
		case errors.Is(err, client.ErrNotFound):
			return fmt.Errorf("nothing is stored of kind %s, and %w", q.Kind, err)
		case err != nil:
			return fmt.Errorf("%w: run raysys doctor", err)
		}
		return fmt.Errorf("%w: nothing is stored of a grain of kind %s whose key begins with %q; of a kind that is "+
			"not durable only raysys get KIND/KEY shows what is stored", client.ErrNotFound, q.Kind, q.Prefix)
	})
}

// StoredGrains implements client.Cluster.
func (o *observer) StoredGrains(ctx context.Context, q inspect.StoredQuery) (inspect.StoredGrains, error) {
	return o.node.StoredGrains(ctx, q)
}

// orNone is a limit as package inspect has it, where 0 stands for the default.
func orNone(limit int) int {
	if limit == 0 {
		return -1
	}
	return limit
}

// Tasks implements client.Cluster.
func (o *observer) Tasks(ctx context.Context, q inspect.TaskQuery) (inspect.Tasks, error) {
	return o.node.Tasks(ctx, q)
}

// Grains implements client.Cluster.
func (o *observer) Grains(ctx context.Context, q inspect.GrainQuery) (inspect.Grains, error) {
	return o.node.Grains(ctx, q)
}

// Waits implements client.Cluster.
func (o *observer) Waits(ctx context.Context, limit int) (inspect.Waits, error) {
	return o.node.Waits(ctx, limit)
}

// Functions implements client.Cluster.
func (o *observer) Functions(ctx context.Context, limit int) (inspect.Functions, error) {
	return o.node.Functions(ctx, limit)
}

// Failures implements client.Cluster.
func (o *observer) Failures(ctx context.Context, limit int) (inspect.Failures, error) {
	return o.node.Failures(ctx, limit)
}

// Streams implements client.Cluster.
func (o *observer) Streams(ctx context.Context) (inspect.Streams, error) { return o.node.Streams(ctx) }
