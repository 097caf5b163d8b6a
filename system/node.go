package system

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/detour"
	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/node"
	"github.com/raysys/raysys/internal/nodedevices"
	"github.com/raysys/raysys/internal/nodelog"
	"github.com/raysys/raysys/internal/objects"
	"github.com/raysys/raysys/internal/operate"
	"github.com/raysys/raysys/internal/placing"
	"github.com/raysys/raysys/internal/pressure"
	"github.com/raysys/raysys/internal/tally"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wheel"
	"github.com/raysys/raysys/internal/worklog"
)

// Node runs tasks and grains in this process.
type Node struct {
	cfg     Config
	log     *zap.Logger
	actors  *actor.ActorSystem
	wheel   *wheel.Wheel
	pool    *goroutines.Pool
	tasks   *taskengine.Engine
	grains  *grainengine.Engine
	job     *core.Job
	top     *core.Turn // above every driver; cancelled by Close
	roots   atomic.Uint64
	cluster *node.Cluster    // nil without a cluster
	objects *objects.Objects // from Start on
	drawn   bool             // its name was left out
	solo    *node.Solo       // nil with one
	groups  *placing.Groups
	// decisions of placement that are remembered.
	decisions operate.Decisions
	operator  *operate.Operator
	pace      node.Pace
	drain     node.Drain
	watch     sync.WaitGroup // of the goroutine that watches devices
	health    nodedevices.Health
	memory    *pressure.Watch // nil where nobody looks after it
	lines     *worklog.Lines
	page      server
	unseen    *nodelog.Failures
	panics    *nodelog.Failures

	mu     sync.Mutex // guards the rest, except end
	state  nodeState
	began  time.Time     // when Start was called
	cause  error         // why the node ended
	floor  []byte        // see Config.HeapFloor
	ending chan struct{} // closed when the node ends: Close has begun, or it was fenced
	end    sync.Once     // closes ending
	closed chan struct{} // closed when Close has finished
}

// keptGoroutines is how many idle goroutines a node keeps for mailboxes that get a message: enough for what runs at
// the same time on a machine of this age, at 2 to 8 KiB each.
const keptGoroutines = 64

// deadLetterPause is how long the goroutine lives that the first dead letter starts. It may outlive the node by that.
const deadLetterPause = 50 * time.Millisecond

// newActors makes the actor system, which logs to the node's logger.
func newActors(log *zap.Logger) *actor.ActorSystem {
	s := actor.NewActorSystem(actor.WithDeadLetterThrottleInterval(deadLetterPause), actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return nodelog.Actors(log)
	}))
	s.ProcessRegistry.Address += ":0" // a cluster of proto.Actor takes host and port apart; later the address is read by actors, and a node that joins has another
	return s
}

type nodeState uint8

const (
	stateNew nodeState = iota
	stateStarting
	stateStarted
	stateClosing
)

// New makes a node. It validates cfg, freezes the function table and reports every bad definition, and does no I/O and
// starts nothing.
func New(cfg Config) (*Node, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("new system: %w", err)
	}
	drawn := cfg.name()
	n := &Node{cfg: cfg, drawn: drawn, log: cfg.Logger, ending: make(chan struct{}), closed: make(chan struct{})}
	sayOddNames(n)
	n.unseen = nodelog.NewFailures(n.log, zap.WarnLevel, "failure nobody looked at")
	n.panics = nodelog.NewFailures(n.log.With(zap.String("node", string(cfg.Name))), zap.ErrorLevel, "user code panicked")
	n.wheel = wheel.New()
	n.pool = goroutines.New(keptGoroutines)
	n.actors = newActors(cfg.Logger)
	n.job = &core.Job{
		ID: cfg.job(), Namespace: cfg.Namespace, Weight: cfg.Weight, Node: cfg.Name, Runtime: (*nodeRuntime)(n), Table: cfg.Table, Inspect: cfg.inspect, Unseen: n.unseen.Happened,
		Closed: n.ending,
	}
	tracing := detour.Guarded(cfg.Tracing, n.panics.Happened)
	if tracing != nil {
		n.job.Span = tracing.Parent
	}
	if cfg.Cluster != nil && cfg.Cluster.Role.hosts() {
		n.job.Panicked = n.panics.Happened
	}
	id := raysys.TaskID(n.job.ID)
	n.top = core.NewRoot(n.job, context.Background(), nil, id)
	n.job.Top = n.top
	n.memory = newMemoryWatch(n)
	counts, passes := &tally.Tally{}, detour.Of(cfg.Filters, tracing, cfg.fakes)
	tc := taskengine.Config{
		Tally: counts, Detour: passes, Resources: cfg.Resources, Devices: nodedevices.Ledger(cfg.Devices), Choose: nodedevices.BestConnected(cfg.DeviceSource), QueueTasks: cfg.QueueTasks, QueueBytes: cfg.QueueBytes, Table: cfg.Table, Actors: n.actors, Pool: n.pool,
		Node: cfg.Name, Runtime: (*nodeRuntime)(n), Lineage: cfg.Lineage != LineageOff, LineageMemory: cfg.LineageMemory, WaitForResources: cfg.WaitForResources,
		Memory: func() loadreport.Memory { return pressure.MemoryOf(n.memory) },
	}
	gc := grainengine.Config{
		Tally: counts, Detour: passes, Actors: n.actors, Pool: n.pool, Table: cfg.Table, CPUs: max(int(cfg.Resources.CPU), 1), Now: n.wheel.Now, Rough: n.wheel.Rough,
		Unseen: n.unseen.Happened, WaitForResources: cfg.WaitForResources,
		Warn: func(event, grain, detail string) {
			n.log.Warn(event, zap.String("node", string(cfg.Name)), zap.String("grain", grain), zap.String("detail", detail))
		},
		// Hooks still run while the node closes, so they are not below top.
		Hooks: core.NewRoot(n.job, context.Background(), nil, id.Child(1<<62)),
	}
	if cfg.Cluster != nil {
		n.job.Leave = new(core.Leave)
		n.cluster = node.New(cfg.member(), partsOf(n))
		pl := n.cluster.Placer
		tc.NoCPU, tc.Place, tc.Changed, tc.RestChanged, tc.Tell = !cfg.Cluster.Role.hosts(), pl.PlaceTask, pl.LoadChanged, pl.RestChanged, pl.Tell
		gc.Conditions = pl.Affinity.Resolve
		tc.Bandwidth = n.pace.Bandwidth
		gc.Cluster, gc.States, gc.Hosts = pl.Locator(), states{n}, cfg.Cluster.Role.hosts()
	} else {
		n.solo = node.NewSolo(node.SoloConfig{
			Name: cfg.Name, Namespace: cfg.Namespace, Data: cfg.Data, Resources: cfg.Resources, Devices: cfg.Devices, Clock: (*nodeRuntime)(n), Actors: n.actors, Log: n.log, Take: func(list []due.Item) error { return takeDue(n, list) },
		})
		n.job.Run, n.job.Tasks = n.solo.Run, taskengine.NewNames(n.job)
		gc.States = states{n}
	}
	gc.Retainer = retainer{n}
	n.groups = newGroups(n)
	tc.PlaceInBundle, tc.RoomInGroup, gc.Bundle = n.groups.Place, n.groups.Elsewhere, n.groups.WhereGrain
	gc.RoomInGroup = n.groups.GrainElsewhere
	tc.MakeRoom = func(tasks int) { n.grains.MakeRoom(slices.Repeat([]ledger.Need{{CPU: ledger.Unit}}, tasks), false) }
	n.tasks = taskengine.NewEngine(tc)
	gc.Line = n.tasks.Line()
	n.grains = grainengine.NewEngine(gc)
	n.groups.Engines(n.tasks, n.grains)
	n.health = nodedevices.Health{Log: n.log, Changed: n.sickChanged, Short: n.grains.Short}
	n.lines = newLines(n)
	n.operator = newOperator(n)
	if n.cluster != nil {
		n.cluster.Engines(n.tasks, n.grains, n.groups, n.operator)
	} else {
		n.solo.Engines(n.tasks, n.groups)
	}
	gc.Line.OnShort(func() {
		n.grains.Short()
		if n.cluster != nil {
			n.cluster.Placer.WaitsShort()
		}
	})
	return n, nil
}

// partsOf are what a node's part in its cluster is given of the node.
func partsOf(n *Node) node.Parts {
	return node.Parts{
		Log: n.log, Job: n.job, Clock: (*nodeRuntime)(n), Actors: n.actors, Wheel: n.wheel, Pool: n.pool, Decisions: &n.decisions, Drain: &n.drain,
		Objects: n.openObjects, Stop: n.stop, Ended: n.Err, Take: func(list []due.Item) error { return takeDue(n, list) },
		Up: func(p *mesh.Peer) {
			if in := n.cfg.Cluster; in.Role.drives() && !in.Observer && roleOf(n.cluster.Mesh.Info(p.Key())).hosts() {
				n.operator.Hearing.From(p)
			}
		},
	}
}

// newGroups makes the node's placement groups.
func newGroups(n *Node) *placing.Groups {
	c := placing.GroupsConfig{Name: n.cfg.Name, Waits: n.cfg.WaitForResources, Wheel: n.wheel, Pool: n.pool, Decisions: &n.decisions}
	if in := n.cluster; in != nil {
		c.Self, c.Alive, c.Open = in.Self, in.Mesh.Alive, n.registry
		c.Runner, c.Placer = in.Runner, in.Placer
	} else {
		self := core.NodeKey{Node: n.cfg.Name, Incarnation: n.solo.Run}
		c.Self, c.Alive, c.Open = func() core.NodeKey { return self }, n.solo.Alive, n.registry
		c.Runner = n.solo.Runner
	}
	return placing.NewGroups(c)
}

// Start brings the node up. With a cluster the node joins it, and Start returns once it is a member. While the store
// cannot be reached Start tries again and logs that now and then, until ctx ends or Cluster.JoinTimeout is over:
// ErrNotJoined. The functions given to OnStart run last; when one fails Start closes the node, which cannot be started again.
func (n *Node) Start(ctx context.Context) error {
	if err := n.join(ctx); err != nil {
		return err
	}
	if err := n.runOnStart(); err != nil {
		return fmt.Errorf("start node: %w", errors.Join(err, n.Close(ctx)))
	}
	return nil
}

// join is Start without what OnStart was given.
func (n *Node) join(ctx context.Context) error {
	if err := n.begin(ctx); err != nil {
		return err
	}
	err := n.page.open(n)
	switch {
	case err != nil:
	case n.cluster != nil:
		err = n.cluster.Join(ctx)
	default:
		var o *objects.Objects
		if o, err = n.openObjects(); err == nil {
			o.Recover()
			n.solo.LeadAll()
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state != stateStarting {
		n.page.close()
		return fmt.Errorf("start node: %w", raysys.ErrClosed)
	}
	if err != nil {
		n.state = stateNew
		n.page.close()
		return fmt.Errorf("start node: %w", err)
	}
	n.state = stateStarted
	if n.cfg.DeviceSource != nil {
		n.watch.Go(func() { n.health.Follow(n.ending, n.cfg.DeviceSource) })
	}
	if n.memory != nil {
		n.watch.Go(func() { n.memory.Follow(n.ending) })
	}
	n.floor = make([]byte, n.cfg.HeapFloor)
	n.log.Info("node started", zap.String("node", string(n.cfg.Name)), zap.Stringer("job", n.job.ID),
		zap.String("namespace", n.cfg.Namespace), zap.Stringer("resources", n.cfg.Resources))
	return nil
}

// begin moves the node from new to starting, or says why it cannot.
func (n *Node) begin(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("start node: %w", context.Cause(ctx))
	case n.state == stateStarting, n.state == stateStarted:
		return errors.New("start node: it is started")
	case n.state == stateClosing:
		return fmt.Errorf("start node: %w: make another with New", raysys.ErrClosed)
	}
	n.state, n.began = stateStarting, time.Now()
	return nil
}

// sickChanged has what waits for a device look again. In a cluster what waits in the line does at each tick.
func (n *Node) sickChanged(uuid string, sick bool) {
	n.tasks.Line().SetSick(uuid, sick)
	if n.cluster == nil {
		n.tasks.Line().Move()
		n.grains.MoveCalls()
	}
	n.tasks.RetryBundles()
}

// Context returns a context under which tasks and grains can be used: a driver's. It carries the values and the end
// of ctx, so the handlers of a server pass their request's context and get its cancellation. It ends with the node too:
// context.Cause then matches what Err returns. Each call is a driver of its own, with its own sequence of task ids.
func (n *Node) Context(ctx context.Context) context.Context {
	n.mu.Lock()
	started := n.state >= stateStarted
	n.mu.Unlock()
	if !started {
		ended, cancel := context.WithCancelCause(ctx)
		cancel(fmt.Errorf("%w: the node is not started: call Start before Context", raysys.ErrClosed))
		ctx = ended
	} else {
		operate.Drives(n.operator)
	}
	return core.NewContext(core.NewRoot(n.job, ctx, n.top, raysys.TaskID(n.job.ID).Child(n.roots.Add(1))))
}

// NodeOf returns the node of a context: the driver's node, or the one on which a task or a grain's turn runs. Nil
// without one.
func NodeOf(ctx context.Context) *Node {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return nil
	}
	n, _ := t.Job().Runtime.(*nodeRuntime)
	return (*Node)(n)
}

// Close cancels running work, refuses new work, deactivates the grains (OnDeactivate runs), and waits until all of that
// is done or ctx ends; in the latter case the error says what still runs. Futures that are still open fail with
// ErrClosed. Further calls wait for the first.
func (n *Node) Close(ctx context.Context) error {
	n.mu.Lock()
	if n.state == stateClosing {
		n.mu.Unlock()
		select {
		case <-n.closed:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("close: %w", context.Cause(ctx))
		}
	}
	n.state = stateClosing
	n.floor = nil
	n.mu.Unlock()
	defer close(n.closed)
	n.operator.Hearing.Last(ctx)
	n.stop(raysys.ErrClosed)
	err := errors.Join(n.tasks.Close(ctx), n.grains.Close(ctx))
	if n.cluster != nil {
		err = errors.Join(err, n.cluster.Leave(ctx))
	} else {
		err = errors.Join(err, n.solo.Close())
		if n.objects != nil {
			err = errors.Join(err, n.objects.Close())
		}
	}
	n.watch.Wait()
	n.wheel.Stop()
	n.pool.Close()
	n.actors.Shutdown()
	n.lines.Close()
	n.page.close()
	n.unseen.Close()
	n.panics.Close()
	n.log.Info("node closed", zap.String("node", string(n.cfg.Name)), zap.Error(err))
	return err
}

// stop cancels running work. Close still has to be called.
func (n *Node) stop(cause error) {
	n.end.Do(func() {
		n.mu.Lock()
		n.cause = cause
		n.mu.Unlock()
		n.top.Cancel(cause)
		close(n.ending)
	})
}

// Done returns a channel that is closed when the node ends: Close was called, or the node was fenced.
func (n *Node) Done() <-chan struct{} { return n.ending }

// Err says why the node ended: raysys.ErrClosed, raysys.ErrFenced (the node was silent for longer than its lease; make
// another with New, which joins as a new incarnation), raysys.ErrStoreReplaced. Nil while it runs.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cause
}

// Name returns the node's id.
func (n *Node) Name() raysys.NodeID { return n.cfg.Name }

// Job returns the id of the run.
func (n *Node) Job() raysys.JobID { return n.job.ID }

// Cluster returns the name of the node's cluster, "" without one.
func (n *Node) Cluster() string {
	if n.cluster == nil {
		return ""
	}
	return n.cfg.Cluster.Name
}

// Persistent reports whether the States and names that the node stores outlive its process: it is in a cluster, or has Config.Data.
func (n *Node) Persistent() bool { return n.cluster != nil || n.cfg.Data != "" }

// Namespace returns the namespace of the node's functions and grains.
func (n *Node) Namespace() string { return n.cfg.Namespace }

// Resources returns what the node offers.
func (n *Node) Resources() raysys.Resources { return n.tasks.Resources() }

// Actors returns the node's actor system, in which every worker and every activation has its PID.
func (n *Node) Actors() *actor.ActorSystem { return n.actors }

// Log returns the node's logger, for packages that come with a node.
func (n *Node) Log() *slog.Logger { return nodelog.Slog(n.log) }

// Terminal reports whether f is a terminal.
func Terminal(f *os.File) bool { return nodelog.IsTerminal(f) }
