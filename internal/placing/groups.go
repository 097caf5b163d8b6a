package placing

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
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/wheel"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
)

// GroupsConfig is the node whose placement groups Groups are.
type GroupsConfig struct {
	Name      raysys.NodeID
	Waits     bool // all groups of this node wait for resources that no node has
	Self      func() core.NodeKey
	Alive     func(core.NodeKey) bool
	Open      func() (*registry.Registry, error)
	Runner    *runner.Runner
	Wheel     *wheel.Wheel
	Pool      *goroutines.Pool
	Decisions Decisions
	Placer    *Placer // nil without a cluster
}

// Groups joins placement groups to the rest of a node: programs ask by the client, leaders of shards ask the bundles.
type Groups struct {
	GroupsConfig
	Client  *groupengine.Client
	Bundles *groupengine.Node  // from Engines on
	tasks   *taskengine.Engine // from Engines on
	looking atomic.Bool        // an alarm will call lookAtSilent
	turn    atomic.Uint64      // of the bundles, for work that may be in any
	room    bundleRooms
}

// NewGroups makes the placement groups of a node.
func NewGroups(c GroupsConfig) *Groups {
	g := &Groups{GroupsConfig: c}
	if c.Placer != nil {
		c.Placer.groups = g
	}
	g.Client = &groupengine.Client{
		Shards: func() (groupengine.Shards, error) { return g.Open() },
		Self:   g.Self, Member: g.awaitMember, Runner: g.Runner, Waits: g.Waits, Changed: func() { g.tasks.RetryBundles() },
	}
	return g
}

// Engines gives the node's engines, which are made with methods of Groups and its Placer.
func (g *Groups) Engines(tasks *taskengine.Engine, grains *grainengine.Engine) {
	g.tasks = tasks
	g.Bundles = groupengine.NewNode(g.Self, tasks.Line(), g.Wheel.Now)
	g.Bundles.MakeRoom = grains.MakeRoom
	if pl := g.Placer; pl != nil {
		pl.tasks, pl.grains = tasks, grains
	}
}

// Ask has a node do something with its bundles.
func (g *Groups) Ask(at core.NodeKey, a groupengine.Ask, done func(error)) {
	if at == g.Self() {
		g.do(a, done)
		return
	}
	refs.Connect(g.Placer.Mesh, at, func(p *refs.Session, err error) {
		if err != nil {
			done(err)
			return
		}
		mesh.Ask(&p.Questions, wire.Requests, wire.KindBundles, a.Append, func(*wire.Reader) (struct{}, error) { return struct{}{}, nil }, func(_ struct{}, err error) { done(err) })
	})
}

// Serve takes the question of a leader.
func (g *Groups) Serve(r *wire.Reader, to mesh.Reply) error {
	a, err := groupengine.ReadAsk(r)
	if err == nil {
		g.do(a, to.Done)
	}
	return err
}

// do does what a leader asks for on a goroutine of its own: it may have tasks begin, or wait for room that tasks have.
func (g *Groups) do(a groupengine.Ask, done func(error)) {
	g.Pool.Go(goroutines.Func(func() {
		g.Bundles.Do(a, done)
		if pl := g.Placer; pl != nil {
			pl.LoadChanged()
		}
		if (a.Verb == groupengine.Prepare || a.Verb == groupengine.Gather) && g.looking.CompareAndSwap(false, true) {
			g.Runner.After(groupengine.Patience, g.lookAtSilent)
		}
	}))
}

// lookAtSilent asks the leaders about the bundles of which this node has heard nothing, and ends what is gathered for one that asks no more.
func (g *Groups) lookAtSilent() {
	g.looking.Store(false)
	if g.Runner.Err() != nil {
		return
	}
	for _, key := range g.Bundles.Silent() {
		g.check(key, func() {})
	}
	if gathers := g.Bundles.EndOverdue(); (gathers || g.Bundles.Len() > 0) && g.looking.CompareAndSwap(false, true) {
		g.Runner.After(groupengine.Patience, g.lookAtSilent)
	}
}

// check compares the bundles of a group with its record.
func (g *Groups) check(key string, done func()) {
	reg, err := g.Open()
	if err != nil {
		done()
		return
	}
	reg.Group(groupengine.Question{Op: groupengine.Check, Key: key}, func(e groupengine.Entry, err error) {
		defer done()
		switch {
		case err != nil: // the next look asks again
		case e.Exists:
			g.Bundles.Compare(key, &e.Record)
		default:
			g.Bundles.Compare(key, nil)
		}
	})
}

// drainLook is how often a node that drains asks where its bundles are to be.
const drainLook = 50 * time.Millisecond

// Drain has the bundles placed anew on other nodes. It returns when none is left, when for patience none could go, or when ctx
// ends: bundles that stay lose their node when it leaves, and then wait for room.
func (g *Groups) Drain(ctx context.Context, patience time.Duration) (left int) {
	g.Bundles.Leave(fmt.Errorf("%w: node %s drains", raysys.ErrOverloaded, g.Name))
	tick := time.NewTicker(drainLook)
	defer tick.Stop()
	left = g.Bundles.Len()
	for moved := time.Now(); left > 0 && time.Since(moved) < patience; {
		for _, key := range g.Bundles.Silent() {
			_, err := runner.Wait(ctx, func(done func(struct{}, error)) { g.check(key, func() { done(struct{}{}, nil) }) })
			if err != nil {
				return g.Bundles.Len()
			}
		}
		if now := g.Bundles.Len(); now < left {
			left, moved = now, time.Now()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return g.Bundles.Len()
		}
	}
	return left
}

// Place finds the node of a task that is in a group. A nil peer stands for this node.
func (g *Groups) Place(r taskengine.PlaceRequest) (wire.Peer, error) {
	in := r.Options.Bundle
	b, err := g.where(in, r.Options.Resources, r.Avoid, bound{as: send})
	if errors.Is(err, raysys.ErrDeviceSick) && (r.Options.Waits || g.Waits) {
		err = noBundle{err}
	}
	if err != nil {
		return nil, err
	}
	g.Decisions.Bundled(r.ID, r.Entry.Name, b.name, b.At.Node, in.Index == core.AnyBundle)
	switch k := b.At; {
	case k == g.Self():
		return nil, nil
	default:
		if p := g.Placer.peer(k); p != nil {
			return p, nil
		}
		g.Runner.Later(g.tasks.RetryBundles)
		return nil, lostMeanwhile{k}
	}
}

// WhereGrain is where for a grain that is to be located; zero for a look.
func (g *Groups) WhereGrain(id graindir.ID, b core.Bundle, needs core.Resources) (core.NodeKey, error) {
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
func (g *Groups) where(in core.Bundle, needs core.Resources, avoid []raysys.NodeID, to bound) (b memberBundle, err error) {
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
func (g *Groups) fitting(in core.Bundle, needs core.Resources) (fits []memberBundle, complete bool, err error) {
	e, known, err := g.Client.Look(in.Group)
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
		if b.Held && g.Alive(b.At) {
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

// Explain says what the bundle that the options name waits for.
func (g *Groups) Explain(o *core.Options, w *raysys.Waiting) {
	if _, err := g.where(o.Bundle, o.Resources, nil, bound{as: look}); err != nil {
		w.For = "its placement group: " + err.Error()
	}
	e, known, err := g.Client.Look(o.Bundle.Group)
	if !known || err != nil || g.Placer == nil {
		return
	}
	for i, b := range e.Record.Bundles {
		if (o.Bundle.Index == core.AnyBundle || o.Bundle.Index == i) && !b.Held {
			w.Nodes = g.Placer.fits(func(*placement.View) placement.Request {
				return placement.Request{Kind: placement.Grain, Needs: b.Needs}
			})
			w.For += fmt.Sprintf(": bundle %d asks for %v", i, b.Needs)
			return
		}
	}
}

// awaitMember returns the node with an incarnation, once this node knows of all that have joined until that did; false where it has gone.
func (g *Groups) awaitMember(ctx context.Context, incarnation uint64) (core.NodeKey, bool) {
	if g.Placer == nil { // there is no other node
		return core.NodeKey{}, false
	}
	m := g.Placer.Member
	for {
		v := m.View()
		if n, ok := v.Incarnation(incarnation); ok || !v.Precedes(incarnation) {
			return mesh.KeyOf(n), ok
		}
		select {
		case <-v.Changed():
			if m.View() == v { // no other comes
				return core.NodeKey{}, false
			}
		case <-ctx.Done():
			return core.NodeKey{}, false
		}
	}
}

// noBundle: the bundle has no node yet. It matches raysys.ErrOverloaded.
type noBundle struct{ error }

func (e noBundle) Unwrap() error      { return e.error }
func (noBundle) Is(target error) bool { return target == error(raysys.ErrOverloaded) }
func (noBundle) Temporary() bool      { return true }
