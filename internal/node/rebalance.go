package node

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/balance"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/placing"
)

// Grains move so that the workers of a program have even shares of their work (package balance). Each worker counts and
// decides for itself:
//
//	each 5 s: CountTurns ── 1 s, in which reports come ──▶ Sharers ── Gifts, Hand ──▶ Move
//
// It gives when two windows after each other say so. The window in which grains have moved for their load counts for
// nothing.

const (
	balanceEvery = 5 * time.Second
	// reportsIn is how long after its end the others' reports of a window are here: all nodes decide by the same ones.
	reportsIn = time.Second
	// leastTurns is the number of turns in a second below which a node has no load worth a move.
	leastTurns = 100
	// movesASecond and moveShare bound what a node gives in a second: so many, or so many of its activations if that is
	// more.
	movesASecond = 100
	moveShare    = 100
	// handShare is the part of its surplus of standing grains that a node gives in a window: one in so many, and one at
	// least.
	handShare = 2
	// countShare bounds what counting costs: a count that took a millisecond is followed by one after 0.2 s at the
	// earliest.
	countShare = 200
)

// grainBalance is what a worker knows of the balance of grains.
type grainBalance struct {
	mu  sync.Mutex // guards the rest
	now inspect.GrainBalance
}

// Balance is what the node's last window came to; nil where its grains do not move.
func Balance(c *Cluster) *inspect.GrainBalance {
	if !rebalances(c) {
		return nil
	}
	c.balance.mu.Lock()
	defer c.balance.mu.Unlock()
	return new(c.balance.now)
}

// rebalances reports whether grains move away from the node.
func rebalances(c *Cluster) bool { return c.cfg.Record.Works() && c.cfg.Rebalance > 0 }

// rebalancer is the work of one node.
type rebalancer struct {
	c       *Cluster
	counted int64 // when, on the node's clock
	skip    bool  // the window that runs counts for nothing
	wants   bool  // the last window said that grains should go
	known   map[core.NodeKey]bool
	calm    int64 // the workers have been the same and well since then, on the node's clock
}

// rebalance moves grains away from this node while it has more than its share.
func rebalance(c *Cluster) {
	r := &rebalancer{c: c, skip: true, calm: c.Runner.Now()}
	took := time.Duration(0)
	for {
		next := balanceEvery - time.Duration(wall(c).UnixNano())%balanceEvery
		for next < countShare*took {
			next += balanceEvery
		}
		if !c.Runner.Pause(next) {
			return
		}
		began := time.Now()
		now := c.Runner.Now()
		turns, may := grainengine.CountTurns(c.grains, r.wants && !r.skip)
		took = time.Since(began)
		window := time.Duration(now - r.counted)
		r.counted = now
		load := time.Duration(float64(turns.Time) / window.Seconds())
		placing.SetGrainLoad(c.Placer, load, turns.Stands)
		if !c.Runner.Pause(reportsIn) {
			return
		}
		p := r.plan(window, turns, may)
		c.balance.mu.Lock()
		p.now.Moved = c.balance.now.Moved
		c.balance.now = p.now
		c.balance.mu.Unlock()
		r.skip, r.wants = p.loads, p.wants && !p.loads
		if len(p.moves) > 0 && !r.carryOut(&p) {
			return
		}
	}
}

// quiet says why no grain moves now whatever the loads are; "" when none of that is so.
func (r *rebalancer) quiet() string {
	now, known, why := r.c.Runner.Now(), map[core.NodeKey]bool{}, ""
	for _, n := range r.c.Member.View().Nodes() {
		switch {
		case !n.Info.Works():
			continue
		case n.Joining:
			why = fmt.Sprintf("%s joins", n.ID)
		case n.Info.Draining:
			why = fmt.Sprintf("%s drains", n.ID)
		case n.Suspect:
			why = fmt.Sprintf("%s is suspect", n.ID)
		}
		known[core.NodeKey{Node: n.ID, Incarnation: n.Incarnation}] = true
	}
	if why != "" || !maps.Equal(known, r.known) {
		r.calm = now
	}
	r.known = known
	left := r.c.cfg.Rebalance - time.Duration(now-r.calm)
	switch {
	case why != "":
		return why
	case len(known) < 2:
		return "no other worker"
	case left > 0:
		return fmt.Sprintf("the workers have changed: nothing moves for %v more", left.Round(time.Second))
	case r.c.Suspended() != nil:
		return "this node is suspended"
	}
	return ""
}

// plan is what a window comes to.
type plan struct {
	now   inspect.GrainBalance
	wants bool // grains should go
	moves []planned
	loads bool // some go for their load
}

// planned is a grain that goes.
type planned struct {
	*grainengine.Candidate
	to core.NodeKey
}

func (r *rebalancer) plan(window time.Duration, turns grainengine.Turns, may []grainengine.Candidate) (p plan) {
	list := placing.Sharers(r.c.Placer)
	self := slices.IndexFunc(list, func(s placing.Sharer) bool { return s.NodeKey == r.c.Self() })
	p.now.Why = r.quiet()
	if self < 0 {
		p.now.Why = cmp.Or(p.now.Why, "this node's load is not reported yet")
		return p
	}
	nodes, stands := make([]balance.Node, len(list)), make([]int, len(list))
	for i, s := range list {
		nodes[i], stands[i] = balance.Node{CPUs: s.CPUs, Load: s.Load.Seconds()}, s.Stands
	}
	p.now.Load, p.now.Mean, p.now.Standing = balance.Mean(nodes[self:self+1]), balance.Mean(nodes), stands[self]
	if p.now.Why != "" || r.skip {
		return p
	}
	gifts, hand, surplus := balance.Gifts(nodes, self), balance.Hand(stands, self), 0
	if float64(turns.Count) < leastTurns*window.Seconds() {
		gifts = nil
	}
	for _, n := range hand {
		surplus += n
	}
	if p.wants = gifts != nil || surplus > 0; !p.wants || !r.wants {
		return p
	}
	o := &offers{list: list, may: may, fits: fitting(r.c, list)}
	if surplus > 0 {
		p.moves = o.byNumber(hand, (surplus+handShare-1)/handShare)
	}
	if gifts != nil {
		most := max(movesASecond, turns.Active/moveShare) * int(balanceEvery/time.Second)
		those := o.byLoad(nodes, self, gifts, window, most)
		p.moves, p.loads = append(p.moves, those...), len(those) > 0
	}
	if len(p.moves) == 0 {
		p.now.Why = "this node has more than its share, and no grain that may move and is small enough"
	}
	return p
}

// fitting returns whether a node of the list may have a candidate.
func fitting(c *Cluster, list []placing.Sharer) func(*grainengine.Candidate, int) bool {
	kinds := map[string]map[raysys.NodeID]bool{}
	return func(g *grainengine.Candidate, node int) bool {
		id := g.ID()
		if kinds[id.Kind] == nil {
			kinds[id.Kind] = placing.MayHave(c.Placer, id, g.Wanted())
		}
		return kinds[id.Kind][list[node].Node] && list[node].Takes
	}
}

// offers are the grains that may go, and the nodes of a plan.
type offers struct {
	list []placing.Sharer
	may  []grainengine.Candidate
	fits func(c *grainengine.Candidate, node int) bool
}

// byNumber chooses n standing grains, those without a turn in progress first.
func (o *offers) byNumber(hand []int, n int) (moves []planned) {
	rand.Shuffle(len(o.may), func(i, j int) { o.may[i], o.may[j] = o.may[j], o.may[i] }) // of each kind some
	for _, busy := range []bool{false, true} {
		for i := range o.may {
			g := &o.may[i]
			if !g.Stands || g.Busy != busy || len(moves) == n {
				continue
			}
			if to := slices.IndexFunc(hand, func(n int) bool { return n > 0 }); to >= 0 && o.fits(g, to) {
				hand[to]--
				moves = append(moves, planned{g, o.list[to].NodeKey})
			}
		}
	}
	return moves
}

// byLoad chooses grains by their load, which is that in a window, and at most so many.
func (o *offers) byLoad(nodes []balance.Node, self int, gifts []float64, in time.Duration, most int) (moves []planned) {
	var those []*grainengine.Candidate
	var turns []float64
	for i := range o.may {
		if g := &o.may[i]; !g.Stands {
			those, turns = append(those, g), append(turns, float64(g.Turns))
		}
	}
	grains := make([]balance.Grain, len(those))
	for i, n := range balance.Steady(turns) {
		grains[i] = balance.Grain{
			Load: n * those[i].Each.Seconds() / in.Seconds(),
			Fits: func(to int) bool { return o.fits(those[i], to) },
		}
	}
	for _, m := range balance.Choose(nodes, self, gifts, grains, most) {
		moves = append(moves, planned{those[m.Grain], o.list[m.To].NodeKey})
	}
	return moves
}

// carryOut moves what is planned, a part each second; false when the node ends meanwhile. It stops when the workers
// change.
func (r *rebalancer) carryOut(p *plan) bool {
	b := &p.now
	share := fmt.Sprintf("%.3g of each CPU, the mean %.3g, and %d grains that stand", b.Load, b.Mean, b.Standing)
	why := fmt.Sprintf("to even out the load: moved from %s, which had %s", r.c.Self().Node, share)
	moved := func(g *grainengine.Candidate) func(graindir.Place) {
		id := g.ID()
		return func(to graindir.Place) {
			r.c.parts.Decisions.Moved(id, to.Node, why)
			r.c.balance.mu.Lock()
			r.c.balance.now.Moved++
			r.c.balance.mu.Unlock()
		}
	}
	to, all := map[raysys.NodeID]int{}, 0
	for part := range slices.Chunk(p.moves, max(1, (len(p.moves)+4)/5)) {
		if all > 0 && !r.c.Runner.Pause(time.Second) {
			return false
		}
		if r.quiet() != "" {
			break
		}
		for _, m := range part {
			grainengine.Move(m.Candidate, m.to, moved(m.Candidate))
			to[m.to.Node]++
			all++
		}
	}
	r.c.Log.Info("grains move to even out the load",
		zap.Int("grains", all), zap.Any("to", to), zap.String("had", share))
	return true
}
