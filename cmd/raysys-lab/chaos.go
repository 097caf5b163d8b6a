package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/raysys-lab/internal/chaos"
	"github.com/raysys/raysys/testkit"
)

type chaosFlags struct {
	form     *cli.Output
	seed     uint64
	rounds   int
	duration time.Duration
	length   time.Duration
	nodes    int
	faults   []string
	only     []int
	minimize bool
	// processes makes one round of --for, with processes on a real Consul.
	processes bool
	realTime  bool
}

// The bounds of chaosFlags.
const (
	chaosRounds   = 10
	maxChaosNodes = 9
	minLength     = 10 * time.Second
)

func chaosCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Look for lost work under seeded faults",
		Long:  chaosHelp(),
		Args:  cli.NoArgs,
	}
	var f chaosFlags
	f.define(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.check(cmd.Flags().Changed("only")); err != nil {
			return err
		}
		return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}

func (f *chaosFlags) define(flags *pflag.FlagSet) {
	f.form = cli.OutputFlag(flags)
	flags.Uint64Var(&f.seed, "seed", 0, "of the first round; each next one has the next (default: a random one)")
	flags.IntVar(&f.rounds, "rounds", 0, fmt.Sprintf("how many rounds (default %d, or as many as --for has room for)", chaosRounds))
	flags.DurationVar(&f.duration, "for", 0, "begin rounds for so long")
	flags.DurationVar(&f.length, "length", 3*time.Minute, "for how long faults happen in a round, in virtual time")
	flags.IntVar(&f.nodes, "nodes", 3, "how many nodes")
	flags.StringSliceVar(&f.faults, "faults", nil, "which faults, NAME[,NAME...] (default all)")
	flags.IntSliceVar(&f.only, "only", nil, "which events of the plan happen, NUMBER[,NUMBER...] (default all)")
	flags.BoolVar(&f.minimize, "minimize", false, "when a round fails, look for a smaller plan that fails")
	flags.BoolVar(&f.realTime, "real-time", false, "rounds in real time, in which stores are short of memory and disks can be slow")
	flags.BoolVar(&f.processes, "processes", false, "one round of --for in real time: a process for each node, a real Consul, SIGKILL and SIGSTOP")
}

func chaosHelp() string {
	var names []string
	for _, f := range testkit.Faults() {
		names = append(names, string(f))
	}
	return `Run a mixed program of tasks, grains, States, objects and references on a cluster in one process, in virtual time, under faults
that a seed draws, and check by models what it was told. Stop at the first round that broke a law, and say which, with the
plan of the faults and the command that repeats it. The seed repeats the plan and what each client asks, not the order in
which the scheduler runs what is ready: a round that failed may pass the next time.

Faults: ` + strings.Join(names, ", ") + `

slow-disk needs --real-time: in virtual time the object stores have room, and write nothing to a disk.

With --processes the nodes are processes, on a real Consul, and the faults are kill, pause, expire and outage. What the
processes need (goroutines, files, memory, keys) is said each minute, and must not grow.
`
}

func (f *chaosFlags) check(only bool) error {
	switch {
	case f.rounds < 0:
		return cli.Usagef("--rounds %d: give 1 or more", f.rounds)
	case f.duration < 0:
		return cli.Usagef("--for %v: give a positive duration", f.duration)
	case f.length < minLength:
		return cli.Usagef("--length %v: give %v or more", f.length, minLength)
	case f.nodes < 2 || f.nodes > maxChaosNodes:
		return cli.Usagef("--nodes %d: give 2 to %d", f.nodes, maxChaosNodes)
	case only && f.seed == 0:
		return cli.Usagef("--only without --seed: each seed has another plan")
	}
	if f.processes {
		switch {
		case f.duration < minLength:
			return cli.Usagef("--processes needs --for of %v or more", minLength)
		case f.rounds > 1 || f.minimize || f.realTime:
			return cli.Usagef("--processes is one round in real time: leave --rounds, --minimize and --real-time out")
		}
		f.rounds, f.length, f.duration = 1, f.duration, 0
	}
	known := chaos.Round{RealTime: f.realTime, Processes: f.processes}.FaultsOf()
	for _, name := range f.faults {
		if !slices.Contains(known, testkit.Fault(name)) {
			return cli.Usagef("--faults: such rounds have no fault %q: run raysys-lab chaos --help", name)
		}
	}
	if f.rounds == 0 && f.duration == 0 {
		f.rounds = chaosRounds
		if only {
			f.rounds = 1
		}
	}
	if only && f.only == nil {
		f.only = []int{}
	}
	for f.seed == 0 {
		f.seed = rand.Uint64() >> 1
	}
	return nil
}

// round is round number i.
func (f *chaosFlags) round(i int) chaos.Round {
	o := chaos.Round{Seed: f.seed + uint64(i), Nodes: f.nodes, Length: f.length, Only: f.only, RealTime: f.realTime, Processes: f.processes}
	for _, name := range f.faults {
		o.Faults = append(o.Faults, testkit.Fault(name))
	}
	return o
}

func (f *chaosFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	fmt.Fprintf(stderr, "seed %d, %d nodes\n", f.seed, f.nodes)
	all := chaos.Report{Played: map[testkit.Fault]int{}}
	if *f.form == cli.Table {
		defer func() { fmt.Fprintf(stdout, "took effect: %s\n", all.Faults()) }()
	}
	began := time.Now()
	for i := 0; f.rounds == 0 || i < f.rounds; i++ {
		if f.duration > 0 && time.Since(began) >= f.duration {
			break
		}
		rep, err := chaos.Start(ctx, self, f.round(i), stderr)
		if err != nil {
			return err
		}
		for fault, n := range rep.Played {
			all.Played[fault] += n
		}
		if err := f.show(stdout, i, rep); err != nil {
			return err
		}
		if len(rep.Violations) == 0 {
			continue
		}
		if f.minimize {
			rep, err = chaos.Minimize(rep, func(o chaos.Round) (chaos.Report, error) { return chaos.Start(ctx, self, o, stderr) }, func(events int, failed bool) {
				fmt.Fprintf(stderr, "with %d events: %s\n", events, map[bool]string{true: "fails", false: "passes"}[failed])
			})
			if err != nil {
				return err
			}
			if err := f.show(stdout, i, rep); err != nil {
				return err
			}
		}
		return fmt.Errorf("round %d broke a law: %s; repeat it with %s", i+1, rep.Violations[0].Law, replay(rep.Round))
	}
	return nil
}

// show writes one line for a round, and all that is known of one that failed.
func (f *chaosFlags) show(w io.Writer, i int, rep chaos.Report) error {
	if *f.form == cli.JSON {
		return json.NewEncoder(w).Encode(rep)
	}
	state := "ok"
	if len(rep.Violations) > 0 {
		state = "FAILED"
	}
	if rep.Last != nil {
		fmt.Fprintf(w, "after the warm-up  %v\nat last            %v\n", *rep.First, *rep.Last)
	}
	_, err := fmt.Fprintf(w, "round %d  seed %d  %s  %d faults in %v, %.1f s  %s\n", i+1, rep.Seed, state, rep.Events(), rep.Virtual.Round(time.Second), rep.Took.Seconds(), rep.Summary())
	if len(rep.Violations) == 0 || err != nil {
		return err
	}
	for _, v := range rep.Violations {
		fmt.Fprintf(w, "\nlaw: %s\n", strings.Join(slices.DeleteFunc([]string{v.Workload, v.Law}, func(s string) bool { return s == "" }), ": "))
		fmt.Fprintf(w, "%s\n", strings.TrimRight(v.Detail, "\n"))
	}
	fmt.Fprintf(w, "\nplan:\n%s\n\nrepeat: %s\n", strings.Join(rep.Plan, "\n"), replay(rep.Round))
	return nil
}

// replay is the command that runs one round again.
func replay(o chaos.Round) string {
	b := fmt.Sprintf("raysys-lab chaos --seed %d --nodes %d --rounds 1 --length %v", o.Seed, o.Nodes, o.Length)
	if o.Processes {
		b = fmt.Sprintf("raysys-lab chaos --seed %d --nodes %d --processes --for %v", o.Seed, o.Nodes, o.Length)
	}
	if o.RealTime {
		b += " --real-time"
	}
	var names, numbers []string
	for _, f := range o.Faults {
		names = append(names, string(f))
	}
	for _, n := range o.Only {
		numbers = append(numbers, strconv.Itoa(n))
	}
	if names != nil {
		b += " --faults " + strings.Join(names, ",")
	}
	if o.Only != nil {
		b += " --only " + cmp.Or(strings.Join(numbers, ","), "-1")
	}
	return b
}

// chaosRoundCommand is one round, in a process of its own.
func chaosRoundCommand() *cobra.Command {
	return &cobra.Command{
		Use:    chaos.ChildCommand,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Usage(chaos.Child(cmd.InOrStdin()))
		},
	}
}
