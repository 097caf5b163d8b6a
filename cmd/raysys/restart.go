package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/backoff"
	"github.com/raysys/raysys/internal/printable"
)

func restartCommand(on cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restart NODE... | --all",
		Short: "Restart workers one after the other, with the program that lies at their --app now",
		Long: `Drain one worker after the other, and have raysys node there start its program again at once: put the new
file at --app before, by a rename. The next worker follows when the one before is active, has been up for --settle,
and every shard has a leader. At the first that is not so after --wait the command ends with 1, shows the builds, and
leaves the other workers alone. To go back, put the old file there, and restart the workers that have the new build.

After the first worker the functions of both builds are compared, since a call goes only among nodes with the same
version of its function. If the new build lacks some, or has them with other types, the command shows them, with the
drivers and named tasks that need the old ones, and ends unless --mixed is given. Workers with named tasks come last:
such a task begins again on another worker, after two seconds.`,
		Example: "  mv app.new bin/app && raysys restart --all\n  raysys restart n1 n2 --settle 30s",
	}
	at, form, r := whereFlags(cmd.Flags()), cli.OutputFlag(cmd.Flags()), roll{}
	all := cmd.Flags().Bool("all", false, "restart all workers")
	cmd.Flags().DurationVar(&r.settle, "settle", 5*time.Second, "how long a worker is up before the next is drained")
	cmd.Flags().DurationVar(&r.wait, "wait", time.Minute, "how long a worker may take from its drain until it is back")
	cmd.Flags().BoolVar(&r.mixed, "mixed", false, "go on though functions of the two builds differ")
	cmd.Flags().BoolVar(&r.keepJobs, "keep-jobs", false,
		"wait for named tasks, for as long as --grace of their nodes allows, in place of having them begin again")
	cmd.ValidArgsFunction = nodeNames(on, at)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *all == (len(args) > 0) || r.settle < 0 || r.wait <= 0 {
			return cli.Usagef("restart takes the names of workers, or --all, and times that can be meant: " +
				"run raysys status to see workers")
		}
		r.out, r.talk, r.asJSON = cmd.OutOrStdout(), cmd.ErrOrStderr(), *form == cli.JSON
		return withCluster(cmd.Context(), on, *at, func(c client.Cluster) error {
			r.Cluster = c
			return r.run(cmd.Context(), args)
		})
	}
	return cmd
}

// roll restarts workers, one after the other.
type roll struct {
	client.Cluster
	left, workers   []raysys.NodeID // to be restarted, and those of the cluster when it began
	settle, wait    time.Duration
	mixed, keepJobs bool
	out, talk       io.Writer
	asJSON          bool
}

// restarted is what came of one worker.
type restarted struct {
	client.Drain
	Was   string        `json:"was"` // its build
	Build string        `json:"build"`
	Up    time.Duration `json:"up_ns"` // from the end of its drain until it was active
}

const (
	rollLook   = 300 * time.Millisecond // the pause between two looks at a worker that comes back
	afterGrace = 30 * time.Second       // how much longer than its drain the end of a process may take
)

func (r *roll) run(ctx context.Context, names []string) error {
	s, err := r.begin(ctx, names)
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	for first := true; len(r.left) > 0 && err == nil; first = false {
		s, err = r.restartNext(ctx, s, first)
	}
	r.show(ctx)
	if err != nil {
		return fmt.Errorf("restart: %w; not restarted: %v; to go back, put the old file at --app, "+
			"and restart the workers with the new build", err, r.left)
	}
	return nil
}

// begin refuses what cannot be meant.
func (r *roll) begin(ctx context.Context, names []string) (s client.Status, err error) {
	if s, err = r.Status(ctx); err != nil {
		return s, fmt.Errorf("read status: %w: run raysys doctor", err)
	}
	client.Sort(&s)
	for _, n := range s.Nodes {
		if n.Role == "worker" {
			r.workers = append(r.workers, n.Name)
		}
	}
	if r.left = slices.Clone(r.workers); len(names) > 0 {
		r.left = nil
	}
	for _, name := range names {
		if !slices.Contains(r.left, raysys.NodeID(name)) {
			r.left = append(r.left, raysys.NodeID(name))
		}
	}
	for _, name := range r.left {
		switch n := nodeOf(s, name); {
		case n == nil:
			return s, fmt.Errorf("%w: no node %s is in the cluster: run raysys status", client.ErrNotFound, name)
		case n.Role != "worker":
			return s, fmt.Errorf("%s is a %s: only workers are restarted", name, n.Role)
		case n.Grace == 0 && n.State == inspect.NodeActive:
			return s, fmt.Errorf("nothing would start %s again: no raysys node keeps it (on Windows none can), "+
				"or its version knows no restart", name)
		}
	}
	switch len(r.workers) {
	case 0:
		return s, fmt.Errorf("%w: the cluster has no worker: run raysys status", client.ErrNotFound)
	case 1:
		fmt.Fprintf(r.talk, "%s is the only worker: what is asked of it waits until it is back\n", r.left[0])
	}
	return s, r.ready(s)
}

// ready returns an error where a worker is away, as the next would be too, or a shard has no leader.
func (r *roll) ready(s client.Status) error {
	for _, name := range r.workers {
		state := "away"
		if n := nodeOf(s, name); n != nil {
			state = n.State
		}
		if state != inspect.NodeActive {
			return fmt.Errorf("worker %s is %s: wait until all are up: run raysys status", name, state)
		}
	}
	if i := slices.IndexFunc(s.Shards, func(sh client.Shard) bool { return sh.Node == "" }); i >= 0 {
		return fmt.Errorf("shard %d has no leader: run raysys doctor", s.Shards[i].Shard)
	}
	return nil
}

// restartNext restarts a worker, one without named tasks where there is one.
func (r *roll) restartNext(ctx context.Context, s client.Status, first bool) (client.Status, error) {
	list, err := r.Tasks(ctx, inspect.TaskQuery{Detached: true, Limit: 10_000})
	if err != nil {
		return s, err
	}
	jobs := func(need func(t *inspect.Task) bool) (names []string) {
		for _, t := range list.Tasks { // the stage "store" is that of one which has joined another elsewhere
			if name := printable.Escape(t.Name); name != "" && t.Stage != "store" && need(&t) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	of := func(node raysys.NodeID) []string {
		return jobs(func(t *inspect.Task) bool { return t.Node == node || t.Of == node })
	}
	i := max(slices.IndexFunc(r.left, func(n raysys.NodeID) bool { return of(n) == nil }), 0)
	node := nodeOf(s, r.left[i])
	if node == nil {
		return s, fmt.Errorf("%s is in the cluster no more", r.left[i])
	}
	r.left = slices.Delete(r.left, i, i+1)
	fmt.Fprintf(r.talk, "%s drains, for up to %v\n", node.Name, node.Grace)
	if names := of(node.Name); names != nil && !r.keepJobs {
		fmt.Fprintf(r.talk, "%s: begins again on another worker: %s\n", node.Name, strings.Join(names, ", "))
	}
	one := restarted{Was: node.Build}
	if one.Drain, err = r.drain(ctx, node); err == nil {
		s, err = r.back(ctx, node, &one)
	}
	if err == nil {
		err = r.tell(one)
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", node.Name, err)
	}
	s.Mixed = slices.DeleteFunc(s.Mixed, func(m inspect.Mixed) bool { return !r.misses(m, node.Name) })
	if !first || len(s.Mixed) == 0 {
		return s, nil
	}
	err = client.MixedTable(r.talk, s)
	for _, m := range s.Mixed {
		if need := jobs(func(t *inspect.Task) bool { return "task "+t.Function == m.Function }); need != nil {
			fmt.Fprintf(r.talk, "named tasks that need the old %s: %s\n", m.Function, strings.Join(need, ", "))
		}
	}
	if !r.mixed && len(r.left) > 0 {
		err = errors.New("functions of the two builds differ: give --mixed to go on")
	}
	return s, err
}

// misses reports whether a node lacks the function as another worker has it, or as any node has it after the last one.
func (r *roll) misses(m inspect.Mixed, node raysys.NodeID) bool {
	now, known := m.VersionOn(node)
	for v, nodes := range m.Versions {
		worker := slices.ContainsFunc(nodes, func(n raysys.NodeID) bool { return slices.Contains(r.workers, n) })
		if known && v != "" && v != now && (worker || len(r.left) == 0) {
			return true
		}
	}
	return false
}

// drain asks a worker to restart, and returns when it has left.
func (r *roll) drain(ctx context.Context, n *client.Node) (client.Drain, error) {
	incarnation, err := r.Restart(ctx, n.Name, r.keepJobs)
	if err != nil {
		return client.Drain{Node: n.Name}, err
	}
	limit := n.Grace + afterGrace
	patient, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("for %v", limit))
	defer stop()
	d, err := r.Left(patient, n.Name, incarnation)
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("%w: it drains, and starts again after that, unless raysys drain --cancel %s takes that back",
			context.Cause(ctx), n.Name)
	}
	return d, err
}

// back waits until a worker is there again and stays, and every shard has a leader.
func (r *roll) back(ctx context.Context, was *client.Node, one *restarted) (s client.Status, why error) {
	left := time.Now()
	for incarnation := uint64(0); ; {
		s, why = r.Status(ctx)
		n := nodeOf(s, was.Name)
		switch {
		case why != nil:
		case n == nil || n.Incarnation == was.Incarnation:
			why = errors.New("it is not in the cluster: the log of raysys node there says why")
		case n.State != inspect.NodeActive || n.Error != "":
			why = fmt.Errorf("it is %s %s", n.State, n.Error)
		default:
			if n.Incarnation != incarnation {
				incarnation, one.Up, one.Build = n.Incarnation, time.Since(left), n.Build
			}
			if why = r.ready(s); why == nil && n.Up >= r.settle {
				return s, nil
			}
			why = cmp.Or(why, fmt.Errorf("it has been up for %v only", n.Up.Round(time.Millisecond)))
		}
		switch {
		case time.Since(left) > r.wait+r.settle:
			return s, fmt.Errorf("it is not back within %v: %w", r.wait, why)
		case !backoff.Wait(ctx, rollLook):
			return s, fmt.Errorf("%w: it has left, and raysys node starts it again", context.Cause(ctx))
		}
	}
}

// tell says what came of a worker.
func (r *roll) tell(one restarted) error {
	if r.asJSON {
		return printable.WriteJSON(r.out, one)
	}
	why := cmp.Or(one.Error, one.Why)
	if !one.Told {
		why = "it did not say how its drain ended"
	}
	if why != "" {
		why = fmt.Sprintf("  (%s: %s)", client.Some(one.Lost, "object lost", "objects lost"), printable.Escape(why))
	}
	_, err := fmt.Fprintf(r.out, "%s  %s -> %s  drained %.1fs  up %.1fs%s\n",
		one.Node, one.Was, one.Build, one.Took.Seconds(), one.Up.Seconds(), why)
	return err
}

// show says how the cluster is left.
func (r *roll) show(ctx context.Context) {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveLimit)
	defer cancel()
	s, _ := r.Status(late) // what is known of it
	client.Sort(&s)
	for _, n := range s.Nodes {
		if n.Role == "worker" {
			sum := 0
			for _, count := range n.Grains {
				sum += count
			}
			grains := client.Some(sum, "grain", "grains")
			fmt.Fprintf(r.talk, "%s  %s  %s  %s\n", n.Name, cmp.Or(n.Build, "-"), n.State, grains)
		}
	}
}

// nodeOf returns the last incarnation of a node, nil where there is none.
func nodeOf(s client.Status, name raysys.NodeID) (n *client.Node) {
	for i := range s.Nodes {
		if m := &s.Nodes[i]; m.Name == name && (n == nil || n.Incarnation < m.Incarnation) {
			n = m
		}
	}
	return n
}
