package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/raysys-lab/internal/bench"
	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/system"
)

type benchFlags struct {
	form   *cli.Output
	rows   []string
	tier   string
	rounds int
	size   string
	tasks  int
	consul string
}

func benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure every row beside its raw limit",
		Long:  benchHelp(),
		Args:  cli.NoArgs,
	}
	var f benchFlags
	f.form = cli.OutputFlag(cmd.Flags())
	cmd.Flags().StringSliceVar(&f.rows, "row", nil, "rows to measure, NAME[,NAME...] (default all)")
	cmd.Flags().StringVar(&f.tier, "tier", string(bench.InProcess), "where the two ends of an operation are: in-process or cross-process")
	cmd.Flags().IntVar(&f.rounds, "rounds", 5, "rounds per row, each with one measurement of the row and one of its raw limit")
	cmd.Flags().StringVar(&f.size, "size", "", "how much the rows of large objects move, such as 64MiB (default: what each of them says)")
	cmd.Flags().IntVar(&f.tasks, "tasks", 0, "how many tasks the row tasks_50m runs (default 50000000)")
	cmd.Flags().StringVar(&f.consul, "consul", "", "a Consul server that runs, HOST:PORT, for the tier cross-process (default: one of its own, on disk)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return runBench(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}

func benchHelp() string {
	var b strings.Builder
	b.WriteString("Measure raysys in rows. Row and raw limit are measured in turn, round by round, and the medians are shown.\n")
	for _, t := range bench.Tiers() {
		fmt.Fprintf(&b, "\nRows of --tier %s:\n", t)
		for _, r := range bench.Rows(t) {
			named := ""
			if r.Named {
				named = " (only when named with --row)"
			}
			fmt.Fprintf(&b, "  %-25s %s%s\n", r.Name, r.Operation, named)
		}
	}
	b.WriteString("\nNot yet:\n")
	for _, t := range bench.Tiers() {
		for _, p := range bench.Later(t) {
			fmt.Fprintf(&b, "  %-25s %s\n", p.Name, p.Why)
		}
	}
	return b.String()
}

// plan makes what the flags and the environment say into a Plan, whose node is that of system.Main but for its cluster:
// rows of the cross-process tier make their own.
func plan(rounds int) (bench.Plan, error) {
	if rounds < 1 {
		return bench.Plan{}, cli.Usagef("--rounds is %d: give 1 or more", rounds)
	}
	cfg, err := system.FromEnv()
	if err != nil {
		return bench.Plan{}, cli.Usage(err)
	}
	cfg.Cluster = nil
	return bench.Plan{Rounds: rounds, Node: cfg}, nil
}

// withConsul runs f with the address of a server: the one that was given, or one that lasts as long as f.
func withConsul(ctx context.Context, f benchFlags, stderr io.Writer, run func(address string) error) (err error) {
	switch {
	case bench.Tier(f.tier) != bench.CrossProcess:
		return run("")
	case os.Getenv("RAYSYS_CONSUL_PREFIX") != "":
		return cli.Usagef("RAYSYS_CONSUL_PREFIX is set, and would put the nodes of the benchmark into the cluster it belongs to: run raysys-lab bench without it")
	case f.consul != "":
		if _, _, err := net.SplitHostPort(f.consul); err != nil {
			return cli.Usagef("--consul is %q: give HOST:PORT: %w", f.consul, err)
		}
		if err := bench.ReachConsul(ctx, f.consul); err != nil {
			return err
		}
		return run(f.consul)
	}
	path, err := bench.FindConsul()
	if err != nil {
		return cli.Usage(err)
	}
	c, err := consulserver.Run(ctx, consulserver.Options{Program: path, Disk: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	fmt.Fprintf(stderr, "Consul: %s, process %d, at %s, data in %s\n", path, c.PID(), c.Address(), c.Dir())
	return run(c.Address())
}

func runBench(ctx context.Context, f benchFlags, stdout, stderr io.Writer) error {
	rows, err := bench.Select(f.rows, bench.Tier(f.tier))
	if err != nil {
		return cli.Usage(err)
	}
	p, err := plan(f.rounds)
	if err != nil {
		return err
	}
	if f.size != "" {
		if p.Size, err = system.ParseSize(f.size, 0); err != nil || p.Size <= raysys.ObjectSize {
			return cli.Usagef("--size %q: give bytes or a size such as 64MiB, above %d KiB", f.size, raysys.ObjectSize>>10)
		}
	}
	if p.Tasks = f.tasks; p.Tasks < 0 {
		return cli.Usagef("--tasks is %d: give 1 or more", p.Tasks)
	}
	return withConsul(ctx, f, stderr, func(address string) error {
		p.Consul = address
		return measure(ctx, f, rows, p, stdout, stderr)
	})
}

// measure shows what it measures.
func measure(ctx context.Context, f benchFlags, rows []bench.Row, p bench.Plan, stdout, stderr io.Writer) error {
	fmt.Fprintf(stderr, "%s/%s, %d CPUs, %s, %d rounds\n", runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), runtime.Version(), p.Rounds)

	// The table grows as rows are measured; JSON is one list and comes at the end, with a word on each row meanwhile.
	printer := bench.NewPrinter(stdout, bench.Names(rows))
	if *f.form == cli.Table {
		if err := printer.Head(); err != nil {
			return err
		}
	}
	var results []bench.Result
	var failed []string
	for _, row := range rows {
		r, err := row.Run(ctx, p)
		if ctx.Err() != nil {
			return fmt.Errorf("bench stopped in row %s: %w", row.Name, context.Cause(ctx))
		}
		if err != nil {
			fmt.Fprintln(stderr, "error:", err)
			failed = append(failed, row.Name)
			continue
		}
		results = append(results, r)
		if *f.form == cli.JSON {
			fmt.Fprintf(stderr, "measured %s\n", row.Name)
			continue
		}
		if err := printer.Row(r); err != nil {
			return err
		}
	}
	if *f.form == cli.JSON {
		if err := bench.JSON(stdout, results); err != nil {
			return err
		}
	}
	if len(f.rows) == 0 {
		for _, l := range bench.Later(bench.Tier(f.tier)) {
			fmt.Fprintln(stderr, "not yet:", l)
		}
	}
	if failed != nil {
		return fmt.Errorf("%d of %d rows failed: run raysys-lab bench --tier %s --row %s", len(failed), len(rows), f.tier, strings.Join(failed, ","))
	}
	return nil
}

// childCommand is what rows start in processes of their own.
func childCommand() *cobra.Command {
	return &cobra.Command{
		Use:    bench.ChildCommand,
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := plan(1)
			if err != nil {
				return err
			}
			err = bench.Child(cmd.Context(), p, args, cmd.InOrStdin(), cmd.OutOrStdout())
			var selection *bench.SelectionError
			if errors.As(err, &selection) {
				return cli.Usage(err)
			}
			return err
		},
	}
}
