package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/raysys-lab/internal/simulate"
)

func simulateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Play the scheduling of a large cluster",
		Long: `Play a cluster of up to thousands of nodes as discrete events in this process: the rules that place and forward tasks are those of
real nodes; queues, links, reports of load and deaths are models. A seed repeats a run exactly.

The figures are in simulated time: the makespan beside the least there is, how long tasks waited, and what nodes sent each other.
docs/scale.md lists the models, and how far they are from real nodes.`,
		Args: cli.NoArgs,
	}
	form := cli.OutputFlag(cmd.Flags())
	c := simulateFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := c.Check(); err != nil {
			return cli.Usagef("%s: %w", cmd.CommandPath(), err)
		}
		from := time.Now()
		r, err := simulate.Run(cmd.Context(), *c)
		if err != nil {
			return fmt.Errorf("simulate: %w", err)
		}
		if *form == cli.JSON {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%d events in %v\n", r.Events, time.Since(from).Round(time.Millisecond))
		return writeSimulated(cmd.OutOrStdout(), c, &r)
	}
	return cmd
}

func simulateFlags(flags *pflag.FlagSet) *simulate.Config {
	c := new(simulate.Config)
	flags.IntVar(&c.Nodes, "nodes", 1000, "workers")
	flags.IntVar(&c.CPUs, "cpus", 8, "of each worker")
	flags.IntVar(&c.Submitters, "submitters", 0, "workers that have tasks of their own (default: one driver, without a CPU, has all)")
	flags.IntVar(&c.GPUEvery, "gpu-every", 0, "each so manieth worker has GPUs (default: none has)")
	flags.IntVar(&c.GPUs, "gpus", 8, "of each worker that has some")
	flags.IntVar(&c.Tasks, "tasks", 1_000_000, "tasks in all")
	flags.DurationVar(&c.Mean, "mean", 100*time.Millisecond, "of the times of the tasks, which are exponential")
	flags.BoolVar(&c.Fixed, "fixed", false, "all tasks take --mean")
	flags.Float64Var(&c.Rate, "rate", 0, "tasks submitted a second (default: all at the start)")
	flags.Float64Var(&c.GPUShare, "gpu-share", 0, "of the tasks, 0 to 1: they ask for a GPU and no CPU")
	flags.IntVar(&c.Deaths, "deaths", 0, "workers that die")
	flags.DurationVar(&c.Detect, "detect", time.Second, "from a death until the lost tasks are sent elsewhere")
	flags.DurationVar(&c.Latency, "latency", 100*time.Microsecond, "of a message")
	flags.DurationVar(&c.Report, "report", 0, "how often a node tells all its load (default: as nodes do)")
	flags.Uint64Var(&c.Seed, "seed", 1, "of the times of tasks and of the deaths")
	return c
}

func writeSimulated(out io.Writer, c *simulate.Config, r *simulate.Result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(w, name+"\t"+format+"\n", args...) }
	ms := func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
	row("makespan", "%v, %.2f of the least there is (%v)", ms(r.Makespan), float64(r.Makespan)/float64(r.Ideal), ms(r.Ideal))
	row("waits", "p50 %v, p99 %v, longest %v", ms(r.WaitP50), ms(r.WaitP99), ms(r.WaitMax))
	row("forwarded", "%d, %.2f for a task; %d came back", r.Forwarded, float64(r.Forwarded)/float64(r.Done), r.GivenBack)
	row("placed", "%d", r.Placed)
	row("ran again", "%d after %d deaths", r.Rerun, c.Deaths)
	row("messages", "%d, %.0f a second at a node", r.Messages, rate(r.Messages, c, r))
	row("reports of load", "%d, %.0f a second at a node", r.Reports, rate(r.Reports, c, r))
	return w.Flush()
}

// rate is how many of n messages a node gets in a second of the run.
func rate(n int64, c *simulate.Config, r *simulate.Result) float64 {
	return float64(n) / float64(c.Nodes) / max(r.Makespan, 1).Seconds()
}
