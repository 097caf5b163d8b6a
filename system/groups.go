package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
)

// groups joins placement groups to the rest of a node: programs ask by the client, leaders of shards ask the bundles.
type groups struct {
	node    *Node
	runner  *runner.Runner
	self    func() core.NodeKey
	alive   func(core.NodeKey) bool
	open    func() (*registry.Registry, error)
	client  *groupengine.Client
	bundles *groupengine.Node
	looking atomic.Bool   // an alarm will call lookAtSilent
	turn    atomic.Uint64 // of the bundles, for work that may be in any
	room    bundleRooms
}

func newGroups(n *Node) *groups {
	g := &groups{node: n}
	awaitMember := func(context.Context, uint64) (core.NodeKey, bool) { return core.NodeKey{}, false } // there is no other node
	if c := n.cluster; c != nil {
		g.runner, g.self, g.alive = c.runner, c.self, c.alive
		g.open = func() (*registry.Registry, error) { return c.reg, nil }
		awaitMember = c.awaitMember
	} else {
		m := soloMembers{n.solo}
		self := core.NodeKey{Node: n.cfg.Name, Incarnation: n.solo.run}
		g.runner, g.self, g.alive, g.open = n.solo.runner, func() core.NodeKey { return self }, m.Alive, n.solo.open
	}
	g.client = &groupengine.Client{
		Shards: func() (groupengine.Shards, error) { return g.open() },
		Self:   g.self, Member: awaitMember, Runner: g.runner, Waits: n.cfg.WaitForResources, Changed: func() { n.tasks.RetryBundles() },
	}
	return g
}

// Groups implements groupengine.Runtime.
func (n *nodeRuntime) Groups() *groupengine.Client { return n.groups.client }

// ask has a node do something with its bundles.
func (g *groups) ask(at core.NodeKey, a groupengine.Ask, done func(error)) {
	if at == g.self() {
		g.do(a, done)
		return
	}
	clusterMembers{g.node.cluster}.Connect(at, func(q *mesh.Questions, err error) {
		if err != nil {
			done(err)
			return
		}
		mesh.Ask(q, wire.Requests, wire.KindBundles, a.Append, func(*wire.Reader) (struct{}, error) { return struct{}{}, nil }, func(_ struct{}, err error) { done(err) })
	})
}

// serve takes the question of a leader.
func (g *groups) serve(r *wire.Reader, to mesh.Reply) error {
	a, err := groupengine.ReadAsk(r)
	if err == nil {
		g.do(a, to.Done)
	}
	return err
}

// do does what a leader asks for on a goroutine of its own: it may have tasks begin, or wait for room that tasks have.
func (g *groups) do(a groupengine.Ask, done func(error)) {
	g.node.pool.Go(goroutines.Func(func() {
		g.bundles.Do(a, done)
		if c := g.node.cluster; c != nil {
			c.loadChanged()
		}
		if (a.Verb == groupengine.Prepare || a.Verb == groupengine.Gather) && g.looking.CompareAndSwap(false, true) {
			g.runner.After(groupengine.Patience, g.lookAtSilent)
		}
	}))
}

// lookAtSilent asks the leaders about the bundles of which this node has heard nothing, and ends what is gathered for one that asks no more.
func (g *groups) lookAtSilent() {
	g.looking.Store(false)
	if g.runner.Err() != nil {
		return
	}
	for _, key := range g.bundles.Silent() {
		g.check(key, func() {})
	}
	if gathers := g.bundles.EndOverdue(); (gathers || g.bundles.Len() > 0) && g.looking.CompareAndSwap(false, true) {
		g.runner.After(groupengine.Patience, g.lookAtSilent)
	}
}

// check compares the bundles of a group with its record.
func (g *groups) check(key string, done func()) {
	reg, err := g.open()
	if err != nil {
		done()
		return
	}
	reg.Group(groupengine.Question{Op: groupengine.Check, Key: key}, func(e groupengine.Entry, err error) {
		defer done()
		switch {
		case err != nil: // the next look asks again
		case e.Exists:
			g.bundles.Compare(key, &e.Record)
		default:
			g.bundles.Compare(key, nil)
		}
	})
}

// drainLook is how often a node that drains asks where its bundles are to be.
const drainLook = 50 * time.Millisecond

// drain has the bundles placed anew on other nodes. It returns when none is left, when for lastCall none could go, or when ctx
// ends: bundles that stay lose their node when it leaves, and then wait for room.
func (g *groups) drain(ctx context.Context) (left int) {
	g.bundles.Leave(fmt.Errorf("%w: node %s drains", raysys.ErrOverloaded, g.node.cfg.Name))
	tick := time.NewTicker(drainLook)
	defer tick.Stop()
	left = g.bundles.Len()
	for moved := time.Now(); left > 0 && time.Since(moved) < lastCall; {
		for _, key := range g.bundles.Silent() {
			_, err := runner.Wait(ctx, func(done func(struct{}, error)) { g.check(key, func() { done(struct{}{}, nil) }) })
			if err != nil {
				return g.bundles.Len()
			}
		}
		if now := g.bundles.Len(); now < left {
			left, moved = now, time.Now()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return g.bundles.Len()
		}
	}
	return left
}

// place finds the node of a task that is in a group. A nil peer stands for this node.
func (g *groups) place(r taskengine.PlaceRequest) (wire.Peer, error) {
	in := r.Options.Bundle
	b, err := g.where(in, r.Options.Resources, r.Avoid, bound{as: send})
	if errors.Is(err, raysys.ErrDeviceSick) && (r.Options.Waits || g.node.cfg.WaitForResources) {
		err = noBundle{err}
	}
	if err != nil {
		return nil, err
	}
	g.node.decisions.Bundled(r.ID, r.Entry.Name, b.name, b.At.Node, in.Index == core.AnyBundle)
	switch c, k := g.node.cluster, b.At; {
	case k == g.self():
		return nil, nil
	default:
		if p := c.peer(k); p != nil {
			return p, nil
		}
		g.runner.Later(g.node.tasks.RetryBundles)
		return nil, lostMeanwhile{k}
	}
}

// whereGrain is where for a grain that is to be located; zero for a look.
func (g *groups) whereGrain(id graindir.ID, b core.Bundle, needs core.Resources) (core.NodeKey, error) {
	to := bound{as: look}
	if id != (graindir.ID{}) {
		to = bound{seenOff, id}
	}
	at, err := g.where(b, needs, nil, to)
	return at.At, err
}

// where finds the node of a bundle that has what work asks for. Of several that may be it is the next that has room, as far as is known,
// else the next: what this node submits at one moment does not wait for one bundle while another is idle. Of nodes to avoid it is none,
// where there are others. to says that the work goes there. With an error that matches raysys.ErrDeviceSick it returns one that would be, if its
// devices were well.
func (g *groups) where(in core.Bundle, needs core.Resources, avoid []raysys.NodeID, to bound) (b memberBundle, err error) {
	fits, complete, err := g.fitting(in, needs)
	if err != nil {
		return b, err
	}
	need := ledger.Of(needs)
	need.Bundle = in
	if in.Index != core.AnyBundle {
		_, err = g.well(fits, need, true)
		return fits[0], err
	}
	if fits, err = g.doing(fits, need, complete); err != nil {
		return b, err
	}
	first := fits[0]
	if fits, err = g.well(fits, need, complete); err != nil {
		return first, err
	}
	if len(avoid) > 0 {
		others := slices.DeleteFunc(slices.Clone(fits), func(b memberBundle) bool { return slices.Contains(avoid, b.At.Node) })
		if len(others) > 0 {
			fits = others
		}
	}
	next := int(g.turn.Add(1) % uint64(len(fits)))
	if b := g.withRoom(fits, next, need, to); b != nil {
		return *b, nil
	}
	return fits[next], nil
}

// memberBundle is a bundle with its name.
type memberBundle struct {
	groupengine.Bundle
	name core.Bundle
}

// fitting lists the bundles in which work may be, which have what it asks for, and are held by a node that lives. It is not empty. complete
// says that all that have it are held.
func (g *groups) fitting(in core.Bundle, needs core.Resources) (fits []memberBundle, complete bool, err error) {
	e, known, err := g.client.Look(in.Group)
	list := e.Record.Bundles
	switch index := in.Index; {
	case err != nil:
		return nil, false, err
	case !known:
		return nil, false, noBundle{fmt.Errorf("%s is looked up", groupengine.Shown(in.Group))}
	case e.Gone(in.Group) != nil:
		return nil, false, e.Gone(in.Group)
	case index >= len(list):
		return nil, false, fmt.Errorf("%w: bundle %d of %s, which has %d: they count from 0", raysys.ErrBadOption, index, groupengine.Shown(in.Group), len(list))
	}
	have := 0
	for i, b := range list {
		if in.Index != core.AnyBundle && in.Index != i || !b.Has(needs) {
			continue
		}
		have++
		if b.Held && g.alive(b.At) {
			fits = append(fits, memberBundle{b, core.Bundle{Group: in.Group, Index: i}})
		}
	}
	switch {
	case have == 0:
		return nil, false, fmt.Errorf("%w: it asks for %v, and %s", raysys.ErrNoCapacity, needs, bundlesHave(in.Index, list))
	case len(fits) == 0:
		return nil, false, noBundle{fmt.Errorf("%s has no room yet", groupengine.Shown(in.Group))}
	}
	return fits, len(fits) == have, nil
}

// bundlesHave says what a bundle has, or all of them.
func bundlesHave(index int, list []groupengine.Bundle) string {
	if index != core.AnyBundle {
		return fmt.Sprintf("its bundle has %v", list[index].Needs)
	}
	var all []string
	for _, b := range list {
		if s := fmt.Sprintf("(%v)", b.Needs); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return "its group has bundles of " + core.Listed(all, " and ")
}

// explain says what the bundle that the options name waits for.
func (g *groups) explain(o *core.Options, w *raysys.Waiting) {
	if _, err := g.where(o.Bundle, o.Resources, nil, bound{as: look}); err != nil {
		w.For = "its placement group: " + err.Error()
	}
	e, known, err := g.client.Look(o.Bundle.Group)
	if !known || err != nil || g.node.cluster == nil {
		return
	}
	for i, b := range e.Record.Bundles {
		if (o.Bundle.Index == core.AnyBundle || o.Bundle.Index == i) && !b.Held {
			w.Nodes = g.node.cluster.fits(func(*placement.View) placement.Request {
				return placement.Request{Kind: placement.Grain, Needs: b.Needs}
			})
			w.For += fmt.Sprintf(": bundle %d asks for %v", i, b.Needs)
			return
		}
	}
}

// awaitMember returns the node with an incarnation, once this node knows of all that have joined until that did; false where it has gone.
func (c *cluster) awaitMember(ctx context.Context, incarnation uint64) (core.NodeKey, bool) {
	for {
		v := c.member.View()
		if n, ok := v.Incarnation(incarnation); ok || !v.Precedes(incarnation) {
			return mesh.KeyOf(n), ok
		}
		select {
		case <-v.Changed():
			if c.member.View() == v { // no other comes
				return core.NodeKey{}, false
			}
		case <-ctx.Done():
			return core.NodeKey{}, false
		}
	}
}

// expecting reports whether a worker of the cluster is not connected to this node, or not yet.
func (c *cluster) expecting() bool {
	return slices.ContainsFunc(c.member.View().Nodes(), func(n member.Node) bool {
		k := core.NodeKey{Node: n.ID, Incarnation: n.Incarnation}
		return roleOf(n.Info).hosts() && k != c.self() && c.mesh.Peer(k) == nil
	})
}

// noBundle: the bundle has no node yet. It matches raysys.ErrOverloaded.
type noBundle struct{ error }

func (e noBundle) Unwrap() error      { return e.error }
func (noBundle) Is(target error) bool { return target == error(raysys.ErrOverloaded) }
func (noBundle) Temporary() bool      { return true }
