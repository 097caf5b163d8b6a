package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/internal/lineage"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/node"
	"github.com/raysys/raysys/internal/objects"
	"github.com/raysys/raysys/internal/pressure"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/worklog"
	"github.com/raysys/raysys/placement/devices"
)

// Config is the node that an Operator answers for, as far as it is there before the node starts.
type Config struct {
	Name      raysys.NodeID
	Namespace string
	Version   string // of raysys
	Resources raysys.Resources
	Grace     time.Duration   // of its drain
	Devices   devices.Source  // nil where there is none
	Pressure  *pressure.Watch // nil where none looks
	Job       *core.Job
	Tasks     *taskengine.Engine
	Grains    *grainengine.Engine
	Groups    *groupengine.Client
	Decisions *Decisions
	Now       func() int64
	Node      Node
	Lines     *worklog.Lines
	Runner    *runner.Runner // that of the cluster, or of the node without one
	Log       *zap.Logger
	Context   func(context.Context) context.Context // a driver's
	Listed    any                                   // what functions of package listed are given: the *system.Node
}

// Node is what an operator asks of the node.
type Node interface {
	Cluster() *Cluster // nil without one
	Started() time.Time
	Objects() *objects.Objects // nil before Start
	LedGroups() []registry.LedGroup
	Registry() (*registry.Registry, error)
	AskDrain(how node.DrainRequest) error // says why the node does not leave, or cannot come back
	Kept() bool                           // its program is started again after a restart
	CancelDrain() error
	AwaitDrain(tell func(inspect.Drained)) error
	Holding() []string // of a node that drains: what keeps it
	WhyNoHost() string // "" of a host

	// ExplainBundle adds why work waits in its placement group, ExplainTask and ExplainGrain which nodes may take it.
	ExplainBundle(*core.Options, *raysys.Waiting)
	ExplainTask(*taskengine.Waiting)
	ExplainGrain(*grainengine.Waiting)
}

// Cluster is the node's part in its cluster. What a node makes when it joins is nil before.
type Cluster struct {
	Name     string
	Started  time.Time // when the node joined
	Log      *zap.Logger
	Runner   *runner.Runner
	Mesh     *mesh.Mesh
	Refs     *refs.References
	Network  link.Transport
	Member   *member.Member
	Registry *registry.Registry
	Lineage  *lineage.Lineage // nil where that is not durable
	Store    *node.StoreTimes
	Balance  func() *inspect.GrainBalance // nil where grains do not move
	Expires  func() (own, ca time.Time)   // of the TLS certificates of node and authority; nil without TLS
}

// Operator answers what operators ask of a node, and asks other nodes for one.
type Operator struct {
	Config
	trying    atomic.Bool  // see ownWays
	watch     atomic.Int32 // see watchDrivers
	Hearing   Hearing
	recording recording
	reports   sync.Map // by core.NodeKey: a <-chan *inspect.Drained that DrainNode asked for and AwaitDrained takes
}

// New makes the operator of a node.
func New(c Config) *Operator {
	o := &Operator{Config: c}
	o.Hearing.o = o
	return o
}

func (o *Operator) clusterName() string {
	if c := o.Node.Cluster(); c != nil {
		return c.Name
	}
	return ""
}

// RoleOf is what a node does in its cluster: worker, driver or both.
func RoleOf(i member.Info) string {
	switch {
	case i.Role != member.Driver:
		return "worker"
	case i.Serves:
		return "both"
	}
	return "driver"
}

// spaces are the namespaces of the programs of the cluster, this node's first, and silent the nodes that cannot be reached, with why. Each member is
// reached as for a question: a connection says which namespace its peer has.
func (o *Operator) spaces(ctx context.Context) (spaces, silent []string) {
	spaces = []string{o.Namespace}
	c := o.Node.Cluster()
	if c == nil {
		return spaces, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, spacesPatience, fmt.Errorf("no answer within %v", spacesPatience))
	defer cancel()
	type answer struct {
		peer *mesh.Peer
		err  error
	}
	asked := map[string]chan answer{}
	for _, m := range o.Members() {
		k, one := mesh.KeyOf(m), make(chan answer, 1)
		if k == o.Self() {
			continue
		}
		asked[string(k.Node)] = one
		c.Mesh.Connect(k, func(p *mesh.Peer, err error) { one <- answer{p, err} })
	}
	for node, one := range asked {
		var a answer
		select {
		case a = <-one:
		case <-ctx.Done():
			select {
			case a = <-one:
			default:
				a.err = context.Cause(ctx)
			}
		}
		if a.err != nil {
			silent = append(silent, fmt.Sprintf("%s: %v", node, a.err))
		} else if !slices.Contains(spaces, a.peer.Namespace()) {
			spaces = append(spaces, a.peer.Namespace())
		}
	}
	slices.Sort(silent)
	return spaces, silent
}

// ExplainWork is raysys.Explain.
func (o *Operator) ExplainWork(ctx context.Context, c *core.Future) (raysys.Scheduling, error) {
	id, name := c.ID().String(), c.Work().Name()
	if g, ok := grainengine.GrainOf(c); ok {
		id = g.String()
	}
	s, err := o.Explain(ctx, id)
	if err != nil && !c.Pending() && !c.Settled() && !c.Away() {
		return raysys.Scheduling{ID: id, Name: name, Waits: []raysys.Waiting{{Node: o.Name, Stage: core.StageRunning, For: "nothing: it runs here"}}}, nil
	}
	return s, err
}

// Explain asks all nodes where a piece of work waits and why, or where it was placed: a task by its id, or how that begins, or a
// grain by its kind/key. The error matches raysys.ErrNotFound when it waits nowhere and no decision about it is remembered, and
// names some ids when several begin so.
func (o *Operator) Explain(ctx context.Context, id string) (raysys.Scheduling, error) {
	all, silent := schedulings(ctx, o, id)
	switch len(all) {
	case 0:
		err := fmt.Errorf("%w: %s waits nowhere, and is not in the last %d decisions that each node remembers: it runs where it was submitted, has ended, or never was",
			raysys.ErrNotFound, id, keptDecisions)
		if len(silent) > 0 {
			err = fmt.Errorf("%w (no answer: %s)", err, strings.Join(silent, "; "))
		}
		return raysys.Scheduling{}, err
	case 1:
		for _, s := range all {
			return *s, nil
		}
	}
	ids := slices.Sorted(maps.Keys(all))
	return raysys.Scheduling{}, fmt.Errorf("%d tasks have ids that begin with %s: give more of one of %s", len(ids), id, strings.Join(ids[:min(len(ids), 8)], ", "))
}

// Groups asks the leaders of shards for their placement groups, for up to 3 s or as long as ctx lasts, and lists the oldest, at most
// limit; of each node not more than 1,000, or 10,000 bundles. With an id it lists the groups of that name, and those whose id begins so.
func (o *Operator) Groups(ctx context.Context, id string, limit int) (inspect.Groups, error) {
	all := inspect.Groups{Groups: []inspect.GroupStatus{}}
	leaders := o.Members()
	if c := o.Node.Cluster(); c != nil {
		all.Cluster = c.Name
		view, leads := c.Member.View(), map[raysys.NodeID]bool{}
		for i := range c.Registry.Layout().Shards {
			if l, ok := view.Leader(i); ok {
				leads[l.Node] = true
			}
		}
		leaders = slices.DeleteFunc(leaders, func(m member.Node) bool { return !leads[m.ID] })
	}
	for k, led := range askMembers[ledGroups](ctx, o, leaders, "groups", groupQuery{exact(id), limit}) {
		if led.err != nil {
			all.Silent = append(all.Silent, fmt.Sprintf("%s: %v", k.Node, led.err))
		}
		all.Count += led.answer.Count
		all.Groups = append(all.Groups, led.answer.Groups...)
	}
	slices.Sort(all.Silent)
	slices.SortFunc(all.Groups, func(a, b inspect.GroupStatus) int { return cmp.Or(a.Made.Compare(b.Made), strings.Compare(a.ID, b.ID)) })
	all.Groups = bounded(all.Groups[:min(max(limit, 0), len(all.Groups))])
	return all, nil
}

// RemoveGroup removes the placement group with the name, or the one whose id begins so, as groups.Group.Remove does. The error matches
// raysys.ErrNotFound where there is none, and names some where there are several.
func (o *Operator) RemoveGroup(ctx context.Context, id string) (inspect.GroupStatus, error) {
	found, err := o.Groups(ctx, id, 2)
	switch {
	case err != nil:
		return inspect.GroupStatus{}, err
	case len(found.Groups) == 0:
		err := fmt.Errorf("%w: no placement group has the name or the id %s", raysys.ErrNotFound, id)
		if len(found.Silent) > 0 {
			err = fmt.Errorf("%w, as far as nodes answer: %s", err, strings.Join(found.Silent, "; "))
		}
		return inspect.GroupStatus{}, err
	case found.Count > 1:
		return inspect.GroupStatus{}, fmt.Errorf("%d placement groups have the name %s, or an id that begins so, such as %s and %s: give the id of one", found.Count, id, found.Groups[0].ID, found.Groups[1].ID)
	}
	g := found.Groups[0]
	var whole core.TaskID
	if _, err := fmt.Sscanf(g.ID, "%16x%16x", &whole.Hi, &whole.Lo); err != nil {
		return g, fmt.Errorf("the id %q of a placement group cannot be read: %w", g.ID, err)
	}
	return g, o.Config.Groups.Remove(ctx, nil, groupengine.KeyOf(g.Namespace, g.Name, whole))
}

// Memory asks every node, or the one called name, for the contents of its object store, for up to 3 s or as long as ctx
// lasts. Each node lists its largest objects, at most limit. The error matches ErrNoSuchNode when the cluster has no
// node of that name. A node without a cluster answers for itself.
func (o *Operator) Memory(ctx context.Context, name raysys.NodeID, limit int) (inspect.Memory, error) {
	members := slices.DeleteFunc(o.Members(), func(m member.Node) bool { return name != "" && m.ID != name })
	c := o.Node.Cluster()
	switch {
	case c == nil && (o.Node.Objects() == nil || len(members) == 0):
		return inspect.Memory{}, fmt.Errorf("memory of %s: %w: this is %s, in no cluster", name, ErrNoSuchNode, o.Name)
	case len(members) == 0:
		return inspect.Memory{}, fmt.Errorf("memory of %s: %w: raysys status lists the nodes", name, ErrNoSuchNode)
	}
	all := inspect.Memory{}
	if c != nil {
		all.Cluster = c.Name
	}
	answers := askMembers[inspect.NodeMemory](ctx, o, members, "memory", limit)
	for _, m := range members {
		a := answers[mesh.KeyOf(m)]
		one := a.answer
		if a.err != nil {
			one = inspect.NodeMemory{Error: a.err.Error()}
		}
		one.Name, one.Incarnation = m.ID, m.Incarnation
		all.Nodes = append(all.Nodes, one)
	}
	slices.SortFunc(all.Nodes, func(a, b inspect.NodeMemory) int {
		return cmp.Or(strings.Compare(string(a.Name), string(b.Name)), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	return all, nil
}

// Status asks every node of the cluster for its status, for up to 3 s or as long as ctx lasts. A node that does not
// answer is listed with what its record says. Without a cluster it is the status of this node, and of no shards.
func (o *Operator) Status(ctx context.Context) (inspect.Status, error) {
	st := inspect.Status{}
	if c := o.Node.Cluster(); c != nil {
		st.Cluster, st.ID, st.Format, st.Shards = c.Name, c.Registry.Layout().ID, c.Registry.Layout().Format, c.shards()
	}
	members := o.Members()
	answers := askMembers[report](ctx, o, members, "status", struct{}{})
	for _, m := range members {
		s := Known(m)
		switch k := mesh.KeyOf(m); {
		case answers[k].err != nil && m.Joining:
			s.Error = fmt.Sprintf("%s cannot reach it: %v", o.Name, answers[k].err)
		case answers[k].err != nil:
			s.State, s.Error = inspect.NodeUnknown, answers[k].err.Error()
		default:
			s = with(s, answers[k].answer)
		}
		st.Nodes = append(st.Nodes, s)
		st.Demand = append(st.Demand, s.Demand...)
		st.Groups = append(st.Groups, s.Groups...)
	}
	st.Demand, st.Groups, st.Mixed = summed(st.Demand), summedGroups(st.Groups), mixedAmong(o, members)
	slices.SortFunc(st.Nodes, func(a, b inspect.NodeStatus) int {
		return cmp.Or(strings.Compare(string(a.Name), string(b.Name)), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	return st, nil
}

// Streams asks all nodes for the parts of subscriptions that they deliver, for up to 3 s or as long as ctx lasts.
func (o *Operator) Streams(ctx context.Context) (all inspect.Streams, err error) {
	all = inspect.Streams{Cluster: o.clusterName(), Parts: []inspect.StreamPart{}}
	all.Silent, err = ask(ctx, o, "", "streams", struct{}{}, func(_ core.NodeKey, parts []inspect.StreamPart) { all.Parts = append(all.Parts, parts...) })
	slices.SortFunc(all.Parts, func(a, b inspect.StreamPart) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Stream, b.Stream), strings.Compare(a.To, b.To), cmp.Compare(a.Part, b.Part))
	})
	return all, err
}

// Ways has every node try to connect to every other node that is no driver, and returns the outcomes. A node that does
// not answer is left out; Status lists it.
func (o *Operator) Ways(ctx context.Context) ([]inspect.Way, error) {
	if o.Node.Cluster() == nil {
		return nil, fmt.Errorf("ways between nodes: %w", errInNoCluster)
	}
	var ways []inspect.Way
	_, _ = ask(ctx, o, "", "ways", struct{}{}, func(_ core.NodeKey, own []inspect.Way) { ways = append(ways, own...) })
	if ctx.Err() != nil {
		return ways, fmt.Errorf("ways between nodes: %w", context.Cause(ctx))
	}
	return ways, nil
}

// ownWays tries the ways from this node. It leaves out drivers, which other nodes may be unable to dial: drivers dial
// themselves.
func ownWays(o *Operator, _ context.Context, _ struct{}) ([]inspect.Way, error) {
	if !o.trying.CompareAndSwap(false, true) { // one question at a time bounds the connections
		return nil, errors.New("it is trying its ways for another request: ask again")
	}
	defer o.trying.Store(false)
	var to []member.Node
	c := o.Node.Cluster()
	for _, m := range c.Member.View().Nodes() {
		if m.Info.Works() && mesh.KeyOf(m) != o.Self() {
			to = append(to, m)
		}
	}
	ways := make([]inspect.Way, len(to))
	free := make(chan struct{}, dialedAtOnce)
	var wg sync.WaitGroup
	for i, m := range to {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			ways[i] = inspect.Way{From: o.Self().Node, To: m.ID}
			if err := c.canDial(m); err != nil {
				ways[i].Error = err.Error()
			}
		})
	}
	wg.Wait()
	return ways, nil
}

// WhyValue is core.WhyRuntime: this node says what it knows, and the node that submitted the task how the value is made.
func (o *Operator) WhyValue(ctx context.Context, c *core.Future) (core.Explanation, error) {
	e, at, id := o.explainHeld(ctx, c)
	if at == (core.NodeKey{}) {
		return e, nil
	}
	return o.askSubmitter(ctx, e, at, id)
}

// explainHeld says what this node knows of a value, and which node to ask for more: it has the task, or owns the value, under an id.
func (o *Operator) explainHeld(ctx context.Context, c *core.Future) (e core.Explanation, at core.NodeKey, under string) {
	e = core.Explain(c, core.ExplainDepth)
	if store := o.Node.Objects(); store != nil {
		store.Explain(ctx, c, &e)
	}
	in := o.Node.Cluster()
	if in == nil {
		return e, at, ""
	}
	at = refs.SubmitterOf(c)
	e.Submitter = cmp.Or(at.Node, e.Submitter)
	run, id := refs.RecordedAs(c)
	switch lost := at == (core.NodeKey{}) || !in.Mesh.Alive(at); {
	case lost && run != 0 && in.Lineage != nil && c.Recipe() == nil:
		at = in.Lineage.ExplainRecorded(ctx, registry.TaskKey{Run: run, ID: id}, &e)
		return e, at, id.String()
	case at == (core.NodeKey{}):
		return e, at, ""
	case lost:
		if e.NoRecipe = fmt.Sprintf("its submitter %s is dead", at.Node); e.State != "lost" && e.Error == "" {
			e.NoRecipe += ", so it cannot be made again once its copies are gone"
		}
		return e, core.NodeKey{}, ""
	}
	return e, at, e.ID
}

// askSubmitter adds what the node that has the task of a value knows of it.
func (o *Operator) askSubmitter(ctx context.Context, e core.Explanation, at core.NodeKey, id string) (core.Explanation, error) {
	members := slices.DeleteFunc(slices.Clone(o.Node.Cluster().Member.View().Nodes()), func(m member.Node) bool { return mesh.KeyOf(m) != at })
	for _, a := range askMembers[[]core.Explanation](ctx, o, members, "why", id) {
		if a.err != nil {
			return e, fmt.Errorf("ask node %s, which has the task: %w", at.Node, a.err)
		}
		for _, of := range a.answer {
			if of.ID != id {
				continue
			}
			if by := e.Submitter; e.Adopter != "" {
				of.Submitter = cmp.Or(by, of.Submitter)
			}
			e = merged(e, of)
		}
	}
	return e, nil
}

// Why asks all nodes what they know of the value whose id begins with prefix: the id of a task, or of an object as raysys
// memory shows it. Where no node knows one, prefix is taken for the name of a detached task. The error matches raysys.ErrNotFound when no node knows one, and names some when they know several.
func (o *Operator) Why(ctx context.Context, prefix string) (raysys.Explanation, error) {
	byID, silent := explanations(ctx, o, prefix)
	switch len(byID) {
	case 0:
		spaces, _ := o.spaces(ctx) // who does not answer has been noted
		if named, err := namedTasks(ctx, o, prefix, spaces); len(named) > 0 || err != nil {
			return explanation(&append(named, namedTask{})[0].Explanation), err
		}
		if len(silent) > 0 {
			return raysys.Explanation{}, fmt.Errorf("%w: no node that answers knows %s (no answer: %s)", raysys.ErrNotFound, prefix, strings.Join(silent, "; "))
		}
		return raysys.Explanation{}, fmt.Errorf("%w: no node knows a value whose id begins with %s: it may be small, or released", raysys.ErrNotFound, prefix)
	case 1:
		for _, e := range byID {
			return explanation(&e), nil
		}
	}
	ids := slices.Sorted(maps.Keys(byID))
	return raysys.Explanation{}, fmt.Errorf("%d values have ids that begin with %s: give more of one of %s", len(ids), prefix, strings.Join(ids[:min(len(ids), 8)], ", "))
}

const (
	// dialedAtOnce bounds the connections that a node tries at the same time for Ways.
	dialedAtOnce = 16
	// wayPatience bounds the attempt to open one connection: a host that drops packets must not use up the time of the
	// others.
	wayPatience = 2 * time.Second
)

// canDial opens a connection to the node and closes it, without sending anything: the connection in use stays.
func (c *Cluster) canDial(m member.Node) error {
	ctx, cancel := context.WithTimeoutCause(c.Runner.Context(), wayPatience, fmt.Errorf("no answer within %v", wayPatience))
	defer cancel()
	conn, err := c.Network.Dial(ctx, m.Address)
	switch {
	case err == nil:
		return conn.Close()
	case errors.Is(err, link.ErrRefused):
		return fmt.Errorf("%s refuses connections", m.Address)
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", m.Address, context.Cause(ctx))
	}
	return err
}
