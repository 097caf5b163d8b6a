package placing

import (
	"container/list"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/forwarding"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/nodedevices"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wheel"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
)

// Decisions remembers where work goes. A plain task is none of it: that goes to where a CPU is free.
type Decisions interface {
	Task(id core.TaskID, function string, to placement.Decision)
	// Bundled is Task for a task in a group; any says that it might have been in any bundle of it.
	Bundled(id core.TaskID, function string, in core.Bundle, at raysys.NodeID, any bool)
	Placed(id graindir.ID, to placement.Decision)
}

// Config is the node whose work a Placer places.
type Config struct {
	Namespace  string
	Table      *raysys.Table
	Strategies map[raysys.Strategy]placement.Strategy
	Mesh       *mesh.Mesh
	Refs       *refs.References
	Runner     *runner.Runner
	Wheel      *wheel.Wheel
	Pool       *goroutines.Pool
	Decisions  Decisions
	Admit      func() (waited bool, err error) // see graindir.Cluster
	Suspended  func() error                    // why calls to named grains fail now; nil while the lease is good
}

// Placer chooses the nodes of a node's work in a cluster.
type Placer struct {
	Config
	Member   *member.Member     // from the join on
	Registry *registry.Registry // from the join on
	tasks    *taskengine.Engine // from Groups.Engines on, as is grains
	grains   *grainengine.Engine
	groups   *Groups // from NewGroups on
	view     nodeView
	Affinity affinity
	askers   roomAskers
	Homeless atomic.Int64  // stateless calls that wait for a worker
	Looks    atomic.Int32  // calls of MoveWaiting since its last look; 0: none is under way
	draws    atomic.Uint64 // random choices made here
	tell     chan struct{} // capacity 1: has TellLoad tell all
	word     chan struct{} // capacity 1: has TellLoad tell those in to
	rest     chan struct{} // capacity 1: the same, soon
	short    chan struct{} // capacity 1: has TellLoad look after what waits for resources

	mu      sync.Mutex  // guards the rest
	to      []wire.Peer // for which Tell was called
	loads   map[core.NodeKey]loadreport.Load
	reports reports
	// What SetGrainLoad was told; balances: it was.
	grainTime   time.Duration
	grainStands int
	balances    bool
	members     uint64 // grows with every change that placement depends on, but for loads
}

// New makes the placer of a node. NewGroups makes it whole, and Groups.Engines gives it the engines.
func New(c Config) *Placer {
	pl := &Placer{
		Config: c, tell: make(chan struct{}, 1), word: make(chan struct{}, 1), rest: make(chan struct{}, 1), short: make(chan struct{}, 1), loads: map[core.NodeKey]loadreport.Load{},
	}
	pl.Affinity.pl = pl
	return pl
}

// self names this node and its incarnation.
func (pl *Placer) self() core.NodeKey { return pl.Mesh.Self() }

// peer returns the connection to an incarnation, nil when there is none now.
func (pl *Placer) peer(k core.NodeKey) *refs.Session { return refs.To(pl.Mesh, k) }

// Changed notes that placement may choose another node from now on.
func (pl *Placer) Changed() {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.members++
}

// Gone forgets an incarnation that has left the cluster.
func (pl *Placer) Gone(k core.NodeKey) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	delete(pl.loads, k)
	pl.reports.remove(k)
	pl.groups.room.forget(k)
}

// Moment says how new what is known of the nodes is.
func (pl *Placer) Moment() registry.Moment {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	return registry.Moment{Members: pl.members, Reports: pl.reports.last}
}

// askForRoom is called while work waits here for what no node has free, again and again.
func (pl *Placer) askForRoom(r placement.Request) {
	pl.askers.mu.Lock()
	defer pl.askers.mu.Unlock()
	w := pl.askers.due(fmt.Sprintf("%#v", r.Needs), r.Seed, pl.Wheel.Now())
	if w == nil {
		return
	}
	var nodes []core.NodeKey
	pl.viewed(func(v *placement.View) {
		for _, id := range v.Queues(r) {
			if id != pl.self().Node { // where work in the line has idle grains go by itself
				nodes = append(nodes, core.NodeKey{Node: id, Incarnation: v.Find(id).Incarnation})
			}
		}
	})
	ask := groupengine.Ask{Verb: groupengine.MakeRoom, Bundles: []groupengine.Asked{{Needs: r.Needs}}}
	for _, k := range w.Next(nodes, w.number) {
		pl.groups.Ask(k, ask, func(error) {}) // one that cannot be asked now is asked again
	}
}

// ExplainTask adds which conditions a task that waits has, and which nodes may take it.
func (pl *Placer) ExplainTask(w *taskengine.Waiting) {
	nodes := pl.Affinity.explain(w.Request.Options.Conditions, core.GrainName{}, &w.Waiting)
	w.Nodes = pl.fits(func(v *placement.View) placement.Request { return pl.taskRequest(w.Request, nodes, v, false) })
}

// ExplainGrain is the same for a call of a grain.
func (pl *Placer) ExplainGrain(w *grainengine.Waiting) {
	w.Want.Nodes = pl.Affinity.explain(w.Want.Conditions, core.GrainName(w.ID), &w.Waiting)
	w.Nodes = pl.fits(func(*placement.View) placement.Request { return pl.Locator().grainRequest(w.ID, w.Want) })
}

// fits says of each node whether it may take the work: of members that this node cannot reach, that.
func (pl *Placer) fits(request func(*placement.View) placement.Request) (list []raysys.NodeFit) {
	observers := map[raysys.NodeID]bool{}
	pl.viewed(func(v *placement.View) {
		list = v.Fits(request(v))
		for _, m := range pl.Member.View().Nodes() {
			k := core.NodeKey{Node: m.ID, Incarnation: m.Incarnation}
			if observers[m.ID] = m.Info.Observer; !connected(v, k) {
				list = append(list, raysys.NodeFit{Node: m.ID, Why: "not connected to " + string(pl.self().Node)})
			}
		}
	})
	return slices.DeleteFunc(list, func(f raysys.NodeFit) bool { return observers[f.Node] })
}

// reachesWorker reports whether a node that runs work is connected.
func (pl *Placer) reachesWorker() bool {
	nodes, _ := pl.Nodes()
	for _, n := range nodes {
		if n.Worker && !n.Joining {
			return true
		}
	}
	return false
}

// TellLoad sends the load to all peers when it has changed: now and then (forwarding.ReportEvery), at once when the
// task engine calls LoadChanged, and soon after it calls RestChanged. It sends it to one peer at once when the task
// engine calls Tell. While work waits for resources it looks where there is room for that.
func (pl *Placer) TellLoad() {
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	var last loadreport.Load
	lastRooms, lastAt := "", time.Time{}
	rest, pause := pl.rest, (<-chan time.Time)(nil)
	short, look := pl.short, (<-chan time.Time)(nil)
	for {
		select {
		case <-tick.C:
			pl.Refs.Tick()
			pl.tasks.Tick()
			pl.forgetSent()
			pl.MoveWaiting()
			if every := forwarding.ReportEvery(len(pl.Mesh.Connected()) + 1); time.Since(lastAt) < every-loadEvery/2 {
				continue
			}
		case <-pl.word:
			tellSome(pl)
			continue
		case <-pl.tell:
		case <-rest:
			rest, pause = nil, time.After(restEvery)
		case <-pause:
			rest, pause = pl.rest, nil
			continue
		case <-short:
			short, look = nil, time.After(lookEvery)
			continue
		case <-look:
			pl.forgetSent()
			pl.MoveWaiting()
			if look = time.After(lookEvery); pl.tasks.Line().Still() {
				short, look = pl.short, nil
			}
			continue
		case <-pl.Runner.Context().Done():
			return
		}
		peers := pl.Mesh.Connected()
		of := make([]wire.Peer, len(peers))
		for i, p := range peers {
			of[i] = refs.Of(p)
		}
		now, rooms, received, news := reportTo(pl, of)
		if now == last && !news && rooms == lastRooms {
			continue
		}
		last, lastRooms, lastAt = now, rooms, time.Now()
		for i, p := range of {
			sendLoad(p, wire.Control, now, rooms, received[i])
		}
		pl.learnLoad(pl.self(), now, nil, 0)
	}
}

// Tell has TellLoad send the load to one peer at once.
func (pl *Placer) Tell(p wire.Peer) {
	pl.mu.Lock()
	if !slices.Contains(pl.to, p) {
		pl.to = append(pl.to, p)
	}
	pl.mu.Unlock()
	select {
	case pl.word <- struct{}{}:
	default:
	}
}

// tellSome sends the load to those for which Tell was called. It goes with the answers, behind those that give tasks
// back: a node that hears of room first, and then that a task comes back, leaves this one alone.
func tellSome(pl *Placer) {
	pl.mu.Lock()
	of := pl.to
	pl.to = nil
	pl.mu.Unlock()
	now, rooms, received, _ := reportTo(pl, of)
	for i, p := range of {
		sendLoad(p, wire.Replies, now, rooms, received[i])
	}
}

func sendLoad(p wire.Peer, c wire.Class, l loadreport.Load, rooms string, received loadreport.Received) {
	frame := loadreport.Append(nil, l, rooms, received)
	if p.Send(c, wire.KindLoad, frame) == nil { // a peer that is gone needs no load
		p.Flush()
	}
}

// LoadChanged has TellLoad send the load to all at once.
func (pl *Placer) LoadChanged() {
	select {
	case pl.tell <- struct{}{}:
	default:
	}
}

// RestChanged has TellLoad send the load soon.
func (pl *Placer) RestChanged() {
	select {
	case pl.rest <- struct{}{}:
	default:
	}
}

// WaitsShort is called when work waits for resources: TellLoad looks after it.
func (pl *Placer) WaitsShort() {
	select {
	case pl.short <- struct{}{}:
	default:
	}
}

// OnLoad handles KindLoad.
func (pl *Placer) OnLoad(p *refs.Session, frame []byte) error {
	r := wire.NewReader(frame)
	l, said, received, err := loadreport.Read(&r)
	if err != nil {
		return err
	}
	rooms, err := loadreport.ReadRooms(said)
	if err != nil {
		return err
	}
	nameModels(rooms, pl.Mesh.Info(p.Key()).Devices)
	if pl.groups.room.report(p.Key(), rooms, pl.tasks.CountedRoaming(p, received.Roaming), pl.Wheel.Now()) {
		pl.tasks.RetryBundles()
	}
	pl.learnLoad(p.Key(), l, p, received.Tasks)
	pl.tasks.PeerLoad(p, l)
	return nil
}

// learnLoad takes in what node k reports: p, which counts so many tasks of this node, or this node itself.
func (pl *Placer) learnLoad(k core.NodeKey, l loadreport.Load, p *refs.Session, received uint64) {
	pl.view.mu.Lock() // what is counted is taken from what is free by one change
	pl.mu.Lock()
	was := pl.loads[k]
	news, freer := was.Rest != l.Rest, l.Free > was.Free || l.Memory != was.Memory
	pl.loads[k] = l
	pl.reports.add(k)
	pl.mu.Unlock()
	counted := p != nil && pl.tasks.Counted(p, received)
	forgot := false
	if news {
		delete(pl.view.sent, k)
	} else {
		forgot = pl.view.forget(k, pl.Wheel.Now())
	}
	if news || freer || counted || forgot || pl.tasks.Line().Waits.Load() != 0 {
		pl.enterReport(k, &l)
	}
	pl.view.mu.Unlock()
	if k != pl.self() {
		pl.MoveWaiting()
	}
}

// startsNone reports whether a node has said that it starts no grain.
func startsNone(pl *Placer, k core.NodeKey) bool {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	return pl.loads[k].Memory == loadreport.Full
}

// Locator returns how the grain engine finds grains.
func (pl *Placer) Locator() Locator { return Locator{pl} }

// Nodes lists the nodes for placement as they are at a moment. The list is the caller's.
func (pl *Placer) Nodes() ([]placement.Node, registry.Moment) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	view := pl.Member.View()
	list := make([]placement.Node, 0, len(view.Nodes()))
	for _, n := range view.Nodes() {
		k := core.NodeKey{Node: n.ID, Incarnation: n.Incarnation}
		pn := placement.Node{
			ID: n.ID, Incarnation: n.Incarnation, Total: n.Info.Resources, Free: n.Info.Resources, Labels: n.Info.Labels,
			Devices: nodedevices.Placement(n.Info.Devices), Worker: n.Info.Works(), Suspect: n.Suspect, Joining: n.Joining, Draining: n.Info.Draining,
		}
		if l, ok := pl.loads[k]; ok {
			EnterLoad(&pn, &l, 0)
		}
		if k == pl.self() {
			table := pl.Table
			pn.Namespace = pl.Namespace
			pn.Runs = func(f string) bool { return has(table, f) }
		} else if p := pl.Mesh.Peer(k); p != nil {
			pn.Namespace = p.Namespace()
			pn.Runs = p.Can
		} else {
			continue // a node that is not connected cannot be sent work
		}
		list = append(list, pn)
	}
	return list, registry.Moment{Members: pl.members, Reports: pl.reports.last}
}

// Since is Since of registry.Members, of this node's cluster.
func (pl *Placer) Since(at registry.Moment, reported func(core.NodeKey)) registry.Moment {
	pl.mu.Lock()
	keys := pl.reports.since(at.Reports)
	now := registry.Moment{Members: pl.members, Reports: pl.reports.last}
	pl.mu.Unlock()
	for _, k := range keys {
		reported(k)
	}
	return now
}

// Reported is Reported of registry.Members.
func (pl *Placer) Reported(n *placement.Node) {
	pl.mu.Lock()
	l, known := pl.loads[core.NodeKey{Node: n.ID, Incarnation: n.Incarnation}]
	pl.mu.Unlock()
	if !known {
		l.Free = n.Total.CPU
	}
	EnterLoad(n, &l, 0)
}

// Expecting reports whether a worker of the cluster is not connected to this node, or not yet.
func (pl *Placer) Expecting() bool {
	return slices.ContainsFunc(pl.Member.View().Nodes(), func(n member.Node) bool {
		k := core.NodeKey{Node: n.ID, Incarnation: n.Incarnation}
		return n.Info.Works() && k != pl.self() && pl.Mesh.Peer(k) == nil
	})
}

// PlaceTask chooses the node for a task that not every node can take, or whose values are on other nodes. A nil peer
// stands for this node.
func (pl *Placer) PlaceTask(r taskengine.PlaceRequest) (wire.Peer, error) {
	var view *placement.View
	var nodes []core.NodeCondition
	if list := r.Options.Conditions; len(list) > 0 {
		var known bool
		var err error
		if nodes, known, err = pl.Affinity.Resolve(list, core.GrainName{}, r.Since, nil); err != nil {
			return nil, err
		}
		if !known {
			return nil, notKnown{}
		}
	}
	as := send
	switch {
	case r.Needs != nil:
		as = seenOff
	case r.Move:
		as = look
	}
	var request placement.Request
	ask := func(now bool) (placement.Decision, error) {
		return pl.place(as, graindir.ID{}, func(v *placement.View) placement.Request {
			view, request = v, pl.taskRequest(r, nodes, v, now)
			return request
		})
	}
	// What holds a device goes where one is free; of two nodes drawn at random neither may have one.
	first := r.Move || len(r.Inputs) == 0 && balanced(r.Options) && len(nodes) == 0 && holdsMore(new(raysys.Resources(r.Options.Resources)))
	d, err := ask(first)
	if first && !r.Move && errors.Is(err, placement.ErrNoNode) {
		d, err = ask(false)
	}
	if err != nil {
		if r.Move && errors.Is(err, placement.ErrNoNode) {
			pl.askForRoom(request)
		}
		if asksOfGrain(r.Options.Conditions) { // nothing tells that it is elsewhere now
			pl.Affinity.tellWaiters()
		}
		if joining(pl.Member.View(), view) || !pl.reachesWorker() { // which nodes there are stays in a view
			err = notYet{err}
		}
		return nil, err
	}
	if !r.Move {
		pl.Decisions.Task(r.ID, r.Entry.Name, d)
	}
	k := core.NodeKey{Node: d.Node, Incarnation: d.Incarnation}
	if k == pl.self() {
		return nil, nil
	}
	if p := pl.peer(k); p != nil {
		return p, nil
	}
	return nil, lostMeanwhile{k}
}

// taskRequest is what a task asks of its node; now: only one where it begins at once.
func (pl *Placer) taskRequest(r taskengine.PlaceRequest, nodes []core.NodeCondition, v *placement.View, now bool) placement.Request {
	out := placement.Request{
		Kind: placement.Task, Function: r.Entry.String(), Namespace: pl.Namespace, Needs: raysys.Resources(r.Options.Resources), Labels: r.Options.Labels, Conditions: registry.Conditions(nodes), Strategy: raysys.Strategy(r.Options.Strategy),
		Custom: pl.Strategies, Seed: r.ID.Lo + uint64(r.Attempt), Avoid: r.Avoid, Inputs: inputs(r.Inputs, pl.self(), v), Now: now,
	}
	if r.Move {
		out.Avoid = []raysys.NodeID{pl.self().Node}
	}
	if r.Needs != nil {
		out.Needs = raysys.Resources(*r.Needs)
	}
	return out
}

// expect corrects the load that a node reported by the tasks that this node has sent it since, and those that it has
// answered since. Many tasks are placed between two reports. Without the correction all of them would go to the node
// that was idle in the last report, and the tasks that follow from a long task would avoid the node that has just ended
// it.
func (pl *Placer) expect(n *placement.Node) {
	var l loadreport.Load
	since := 0
	if k := (core.NodeKey{Node: n.ID, Incarnation: n.Incarnation}); k == pl.self() {
		l = pl.tasks.Load()
	} else if p := pl.peer(k); p != nil {
		load, more, known := pl.tasks.LoadOf(p)
		if !known {
			load.Free = n.Total.CPU
		}
		l, since = load, more
		// Of what is free beside CPU the last report counts: a load that came with a result is from before the task gave back what it
		// held, and may come after the report that says so.
		pl.mu.Lock()
		l.Rest = pl.loads[k].Rest
		pl.mu.Unlock()
	}
	EnterLoad(n, &l, since)
	pl.takeSent(n)
}

// loadEvery is how often a node sends its load to the others, when it has changed. Results of tasks carry the load too,
// so this is for nodes that have sent it no tasks lately.
const loadEvery = 100 * time.Millisecond

// restEvery is how often it is sent before the tick, at most, since something else than CPU was taken or has become free: work may
// wait for it at another node, or is sent here by nodes that take it to be free.
const restEvery = 20 * time.Millisecond

// lookEvery is how often a node looks whether another has room for what waits in its line, while something does, beside when others
// report: it may have known of the room before the work came.
const lookEvery = 10 * time.Millisecond

// Offer is what a node with this record offers to the task engines of others: a driver offers nothing.
func Offer(i member.Info) taskengine.PeerInfo {
	if !i.Works() {
		return taskengine.PeerInfo{}
	}
	return taskengine.PeerInfo{Resources: i.Resources}
}

// has reports whether a table has what a name of its kind and its own name says, such as "task example.Add".
func has(t *raysys.Table, f string) bool {
	for _, kind := range []string{"task", "grain", "method"} {
		if len(f) > len(kind) && f[:len(kind)] == kind && f[len(kind)] == ' ' {
			return t.Lookup(kind, f[len(kind)+1:]) != nil
		}
	}
	return false
}

// reports says which nodes have reported their load since when. Each is in the list once, the latest last, so that who looks finds
// those that are news to it without a look at the others.
type reports struct {
	last  uint64 // number of the last report
	order list.List
	of    map[core.NodeKey]*list.Element
}

// report is the last one of a node.
type report struct {
	number uint64
	of     core.NodeKey
}

// add enters a report of a node.
func (r *reports) add(k core.NodeKey) {
	r.last++
	if e := r.of[k]; e != nil {
		e.Value.(*report).number = r.last
		r.order.MoveToBack(e)
		return
	}
	if r.of == nil {
		r.of = map[core.NodeKey]*list.Element{}
	}
	r.of[k] = r.order.PushBack(&report{r.last, k})
}

// remove forgets a node.
func (r *reports) remove(k core.NodeKey) {
	if e := r.of[k]; e != nil {
		r.order.Remove(e)
		delete(r.of, k)
	}
}

// since returns the nodes that have reported after the report with that number, the latest first.
func (r *reports) since(number uint64) (keys []core.NodeKey) {
	for e := r.order.Back(); e != nil && e.Value.(*report).number > number; e = e.Prev() {
		keys = append(keys, e.Value.(*report).of)
	}
	return keys
}
