package system

import (
	"context"
	"io"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/node"
	"github.com/raysys/raysys/internal/nodelog"
	"github.com/raysys/raysys/internal/objects"
	"github.com/raysys/raysys/internal/operate"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/worklog"
)

// Status asks every node of the cluster for its status, for up to 3 s or as long as ctx lasts. A node that does not
// answer is listed with what its record says. Without a cluster it is the status of this node, and of no shards.
func (n *Node) Status(ctx context.Context) (inspect.Status, error) {
	return n.operator.Status(ctx)
}

// Memory asks every node, or the one called name, for the contents of its object store, for up to 3 s or as long as ctx
// lasts. Each node lists its largest objects, at most limit. The error matches ErrNoSuchNode when the cluster has no
// node of that name. A node without a cluster answers for itself.
func (n *Node) Memory(ctx context.Context, name raysys.NodeID, limit int) (inspect.Memory, error) {
	return n.operator.Memory(ctx, name, limit)
}

// Groups asks the leaders of shards for their placement groups, for up to 3 s or as long as ctx lasts, and lists the oldest, at most
// limit; of each node not more than 1,000, or 10,000 bundles. With an id it lists the groups of that name, and those whose id begins so.
func (n *Node) Groups(ctx context.Context, id string, limit int) (inspect.Groups, error) {
	return n.operator.Groups(ctx, id, limit)
}

// RemoveGroup removes the placement group with the name, or the one whose id begins so, as groups.Group.Remove does. The error matches
// raysys.ErrNotFound where there is none, and names some where there are several.
func (n *Node) RemoveGroup(ctx context.Context, id string) (inspect.GroupStatus, error) {
	return n.operator.RemoveGroup(ctx, id)
}

// Streams asks all nodes for the parts of subscriptions that they deliver, for up to 3 s or as long as ctx lasts.
func (n *Node) Streams(ctx context.Context) (inspect.Streams, error) {
	return n.operator.Streams(ctx)
}

// Schedules asks the leaders of shards for the schedules of all programs whose names begin with a prefix, for up to 3 s or as long as ctx lasts, and
// lists the soonest, at most limit, and 1,000. What they say of a schedule beside its name package schedule reads: the program imports it.
func (n *Node) Schedules(ctx context.Context, prefix string, limit int) (inspect.Schedules, error) {
	return operate.Schedules(ctx, n.operator, prefix, limit)
}

// Schedule does what an operator asks for of the schedule with a name, of any program: "pause", "resume", "run" or "delete". The error matches
// raysys.ErrNotFound where there is none, and raysys.ErrBadOption where programs of several namespaces have one. The program imports package schedule.
func (n *Node) Schedule(ctx context.Context, verb, name string) error {
	return operate.Schedule(ctx, n.operator, verb, name)
}

// Tasks asks all nodes for tasks that wait or run, for up to 3 s or as long as ctx lasts. The error says what there is where q asks for a
// state that is none, or for a function that no node has; that one matches raysys.ErrNotFound.
func (n *Node) Tasks(ctx context.Context, q inspect.TaskQuery) (inspect.Tasks, error) {
	return operate.Tasks(ctx, n.operator, q)
}

// Grains asks all nodes for the grains that they have in memory, for up to 3 s or as long as ctx lasts. The error matches
// raysys.ErrNotFound where no node has the kind that q asks for.
func (n *Node) Grains(ctx context.Context, q inspect.GrainQuery) (inspect.Grains, error) {
	return operate.Grains(ctx, n.operator, q)
}

// Waits asks all nodes for the tasks and the turns of grains that wait for other work, at most limit of them, and follows each wait to the
// work at its end. A limit of 0 stands for 100.
func (n *Node) Waits(ctx context.Context, limit int) (inspect.Waits, error) {
	return operate.Waits(ctx, n.operator, limit)
}

// Functions asks all nodes what they have counted of each function and method since they started, and what runs and waits of it, and lists
// the limit with the most runs; 0 stands for 100.
func (n *Node) Functions(ctx context.Context, limit int) (inspect.Functions, error) {
	return operate.Functions(ctx, n.operator, limit)
}

// Failures asks all nodes what failed there, folded by function and by text without digits, and lists the limit latest; 0 stands for 100.
func (n *Node) Failures(ctx context.Context, limit int) (inspect.Failures, error) {
	return operate.Failures(ctx, n.operator, limit)
}

// Timeline has all nodes record what they run for some time, 10 s unless q says otherwise, and writes that to w: a trace in JSON, which
// Perfetto (ui.perfetto.dev) and chrome://tracing open. Nodes have one recording at a time: who asks meanwhile gets what is recorded already.
// The error matches raysys.ErrNotFound where no node has the function that q asks for.
func (n *Node) Timeline(ctx context.Context, q inspect.TimelineQuery, w io.Writer) (inspect.Timeline, error) {
	return operate.Timeline(ctx, n.operator, q, w)
}

// Get says all that the nodes know of a text: of tasks and values whose ids begin so, of the grain with that KIND/KEY, and of jobs, objects
// and placement groups with that name. The error matches raysys.ErrNotFound where that is nothing.
func (n *Node) Get(ctx context.Context, text string) (inspect.Found, error) {
	return operate.Get(ctx, n.operator, text)
}

// StoredGrains lists what is stored of the grains of a Durable kind, a page at a time: the next one begins at Next. No
// turn runs and no grain is activated. A kind of which nothing is stored has an empty page. grains.Stored reads the
// values in a program.
func (n *Node) StoredGrains(ctx context.Context, q inspect.StoredQuery) (inspect.StoredGrains, error) {
	return operate.StoredGrains(ctx, n.operator, q)
}

// Cancel ends the job, the task or the placement group with that name, with that id, or whose id begins so. The error matches
// raysys.ErrNotFound where there is none that has not ended, and raysys.ErrBadOption where text fits several, which it names.
func (n *Node) Cancel(ctx context.Context, text string) (inspect.Thing, error) {
	return operate.Cancel(ctx, n.operator, text)
}

// DropMessages removes the messages of a Durable grain, kind/key, to a receiver, which Get shows, for good, and returns
// how many. One that is on its way may still arrive. Those of a grain that is on no node the leader of its shard
// removes. The error matches raysys.ErrNotFound where there are no such messages, raysys.ErrBadOption where programs of
// several namespaces have some, and raysys.ErrUnreachable where nodes do not answer, or the store does not within 2 s.
func (n *Node) DropMessages(ctx context.Context, grain, receiver string) (int, error) {
	return operate.DropMessages(ctx, n.operator, grain, receiver)
}

// HeapProfile asks a node for what its process has on its heap, after a collection, in the format of package
// runtime/pprof. One of more than 768 KiB is an error that matches raysys.ErrTooLarge.
func (n *Node) HeapProfile(ctx context.Context, node raysys.NodeID) ([]byte, error) {
	return operate.HeapProfile(ctx, n.operator, node)
}

// Stack asks a node for the stacks of its goroutines.
func (n *Node) Stack(ctx context.Context, node raysys.NodeID) (inspect.Stacks, error) {
	return operate.Stack(ctx, n.operator, node)
}

// Ways has every node try to connect to every other node that is no driver, and returns the outcomes. A node that does
// not answer is left out; Status lists it.
func (n *Node) Ways(ctx context.Context) ([]inspect.Way, error) {
	return n.operator.Ways(ctx)
}

// Why asks all nodes what they know of the value whose id begins with prefix: the id of a task, or of an object as raysys
// memory shows it. Where no node knows one, prefix is taken for the name of a detached task. The error matches raysys.ErrNotFound when no node knows one, and names some when they know several.
func (n *Node) Why(ctx context.Context, prefix string) (raysys.Explanation, error) {
	return n.operator.Why(ctx, prefix)
}

// Explain asks all nodes where a piece of work waits and why, or where it was placed: a task by its id, or how that begins, or a
// grain by its kind/key. The error matches raysys.ErrNotFound when it waits nowhere and no decision about it is remembered, and
// names some ids when several begin so.
func (n *Node) Explain(ctx context.Context, id string) (raysys.Scheduling, error) {
	return n.operator.Explain(ctx, id)
}

// ErrDrainCancelled: an operator cancelled the drain (raysys drain --cancel). The node takes work again.
var ErrDrainCancelled = node.ErrDrainCancelled

// ErrNoSuchNode: no node of that name is in the cluster.
var ErrNoSuchNode = operate.ErrNoSuchNode

// DrainRequested returns a channel that is closed when an operator asks this node to drain (raysys drain NODE). Main
// follows it; a program that owns its main decides itself. After a drain that was cancelled the next request closes
// another channel.
func (n *Node) DrainRequested() <-chan struct{} { return n.drain.Requested() }

// Drain makes the node ready to leave its cluster: it takes nothing new, hands over its shards, moves its grains and
// returns tasks that have not started to their owners, and waits for the running ones. Calls are not lost: they follow
// their grains. Close comes after it. An error says what was not done before ctx ended; it matches ErrDrainCancelled
// when the node stays. Objects that no other node could take are not an error: see Drained.
func (n *Node) Drain(ctx context.Context) error { return n.drain.Run(ctx, false) }

// Drained returns the outcome of the last Drain.
func (n *Node) Drained() inspect.Drained { return n.drain.Outcome() }

// Kill ends the node as the end of its process would: the node hands over nothing, does not leave its cluster, and
// tells no other node. Its session ends with its TTL, or when other nodes find that its address refuses them. Once
// nothing is sent any more, the work on the node is cancelled with cause, and Kill waits for it as Close does. It is
// for tests.
func (n *Node) Kill(ctx context.Context, cause error) error {
	if n.cluster != nil {
		n.cluster.Kill(cause)
	}
	n.stop(cause)
	return n.Close(ctx)
}

// DrainNode asks a node to drain and leave. It returns when the drain has begun, with the node's incarnation, for AwaitDrained.
// The error matches ErrNoSuchNode when the cluster has no node of that name.
func (n *Node) DrainNode(ctx context.Context, name raysys.NodeID) (incarnation uint64, err error) {
	return n.operator.DrainNode(ctx, name)
}

// RestartNode asks a node to drain and leave, and raysys node there to start its program again. Where its program is
// another file by then, that is
// what comes back: see Status. It returns when the drain has begun, with the node's incarnation, for AwaitDrained.
// Named tasks (raysys.Detached) do not
// hold the node: after two seconds they begin again on another one, unless keepJobs is true. The error matches
// ErrNoSuchNode when the cluster has no
// node of that name; it says so where the node is no worker, nothing keeps its program, or it drains already.
func (n *Node) RestartNode(ctx context.Context, name raysys.NodeID, keepJobs bool) (incarnation uint64, err error) {
	return operate.RestartNode(ctx, n.operator, name, keepJobs)
}

// StartTask has a worker submit a task as a detached one with a name, which outlives this node and that worker. It
// is by the name of its function, with
// an argument as JSON: the program of this node need not have it. Where the name is that of a task with the same
// function and argument which has not
// settled, the answer names that one. The error matches raysys.ErrNotFound where no worker has the function, and
// raysys.ErrBadOption where several
// programs have it, or the argument does not fit.
func (n *Node) StartTask(ctx context.Context, q inspect.StartQuery) (inspect.Started, error) {
	return operate.Start(ctx, n.operator, q)
}

// CancelDrain cancels a drain that DrainNode or RestartNode asked for, and returns when the node is active again.
// The error says why the node
// cannot stay; it matches ErrNoSuchNode when the node has left.
func (n *Node) CancelDrain(ctx context.Context, name raysys.NodeID) error {
	return n.operator.CancelDrain(ctx, name)
}

// AwaitDrained waits until that incarnation of a node has left the cluster, and returns the outcome of its drain: nil when the node
// did not report it, because it died, or runs a version without reports. The error matches ErrDrainCancelled when the node stays.
func (n *Node) AwaitDrained(ctx context.Context, name raysys.NodeID, incarnation uint64) (*inspect.Drained, error) {
	return n.operator.AwaitDrained(ctx, name, incarnation)
}

// Holding asks a node that drains for the names of tasks and grains that keep it.
func (n *Node) Holding(ctx context.Context, name raysys.NodeID) ([]string, error) {
	return n.operator.Holding(ctx, name)
}

// Logs asks all nodes, or one, for what raysys node has kept of what their programs wrote, for up to 3 s or as long as ctx lasts: the last
// lines, by time. With follow it goes on until ctx ends, and calls follow with each of these lines and of those that come, of nodes that join
// too; calls do not overlap. A node that does not answer, or whose output nothing keeps, is in Silent. The error matches ErrNoSuchNode when the cluster
// has no node of that name.
func (n *Node) Logs(ctx context.Context, q inspect.LogQuery, follow func(inspect.LogLine)) (inspect.Logs, error) {
	return operate.Logs(ctx, n.operator, q, follow)
}

// newLines makes the node's part of what work writes.
func newLines(n *Node) *worklog.Lines {
	c := n.cfg.lines
	c.Node, c.Log = n.cfg.Name, nodelog.Slog(n.log)
	if n.cluster != nil {
		c.Run, c.Done, c.Drivers = n.cluster.Runner.Run, n.cluster.Runner.Context().Done(), func() map[uint64]raysys.NodeID { return driversOf(n.cluster) }
		c.Own = func() uint64 { return n.cluster.Self().Incarnation }
	}
	return worklog.New(c)
}

// driversOf are the members that drive, by their incarnation.
func driversOf(c *node.Cluster) map[uint64]raysys.NodeID {
	all := map[uint64]raysys.NodeID{}
	for _, m := range c.Member.View().Nodes() {
		if roleOf(m.Info).drives() && !m.Info.Observer {
			all[m.Incarnation] = m.ID
		}
	}
	return all
}

// operated implements operate.Node for a Node.
type operated Node

// newOperator makes the node's operator.
func newOperator(n *Node) *operate.Operator {
	var r *runner.Runner
	if n.cluster != nil {
		r = n.cluster.Runner
	} else {
		r = n.solo.Runner
	}
	return operate.New(operate.Config{
		Name: n.cfg.Name, Namespace: n.cfg.Namespace, Version: Version(), Resources: n.cfg.Resources, Devices: n.cfg.DeviceSource, Job: n.job,
		Grace: n.cfg.Grace, Context: n.Context, Pressure: n.memory,
		Tasks: n.tasks, Grains: n.grains, Groups: n.groups.Client, Decisions: &n.decisions, Now: n.wheel.Now, Node: (*operated)(n), Listed: n, Lines: n.lines, Runner: r, Log: n.log,
	})
}

// Cluster implements operate.Node.
func (n *operated) Cluster() *operate.Cluster {
	c := n.cluster
	if c == nil {
		return nil
	}
	in := &operate.Cluster{
		Name: n.cfg.Cluster.Name, Started: c.Info.Started, Log: c.Log, Runner: c.Runner, Mesh: c.Mesh, Refs: c.Refs, Network: c.Network, Member: c.Member,
		Registry: c.Registry, Lineage: c.Lineage, Store: c.Store,
	}
	in.Balance = func() *inspect.GrainBalance { return node.Balance(c) }
	if c.TLS != nil {
		in.Expires = func() (own, ca time.Time) { return c.TLS.TLS.Credentials().Ends() }
	}
	return in
}

// Started implements operate.Node.
func (n *operated) Started() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.began
}

func (n *operated) Objects() *objects.Objects { return n.objects }

// LedGroups implements operate.Node. A node without a cluster that has not opened its store has none.
func (n *operated) LedGroups() []registry.LedGroup {
	if c := n.cluster; c != nil {
		return c.Registry.Groups()
	}
	if reg := n.solo.Registry(); reg != nil {
		return reg.Groups()
	}
	return nil
}

func (n *operated) Registry() (*registry.Registry, error) { return (*Node)(n).registry() }
func (n *operated) AskDrain(how node.DrainRequest) error  { return n.drain.Ask(how) }
func (n *operated) Kept() bool                            { return n.drain.Kept() }
func (n *operated) CancelDrain() error                    { return n.drain.Cancel() }
func (n *operated) Holding() []string                     { return n.drain.Holding() }
func (n *operated) WhyNoHost() string                     { return n.cluster.WhyNoHost() }

// AwaitDrain implements operate.Node.
func (n *operated) AwaitDrain(tell func(inspect.Drained)) error { return n.drain.Await(tell) }

// ExplainBundle implements operate.Node.
func (n *operated) ExplainBundle(o *core.Options, w *raysys.Waiting) { n.groups.Explain(o, w) }

// ExplainTask implements operate.Node.
func (n *operated) ExplainTask(w *taskengine.Waiting) {
	if c := n.cluster; c != nil {
		c.Placer.ExplainTask(w)
	}
}

// ExplainGrain implements operate.Node.
func (n *operated) ExplainGrain(w *grainengine.Waiting) {
	if c := n.cluster; c != nil {
		c.Placer.ExplainGrain(w)
	}
}
