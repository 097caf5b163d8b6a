package testkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/wire"
)

// Chaos lets faults happen to the Kit's cluster for about length, and returns when the cluster is whole again. The plan is
// drawn from the Kit's seed and logged; no faults means all of them. What the test has running meanwhile meets them; what
// it checks afterwards is its own.
//
//	testkit.Virtual(t, func(k *testkit.Kit) {
//		stop := startClients(k)
//		testkit.Chaos(k, 5*time.Minute, testkit.FaultKill, testkit.FaultPartition)
//		stop()
//		testkit.Linearizable(k.T(), h, testkit.Register())
//	}, testkit.Nodes(3))
func Chaos(k *Kit, length time.Duration, faults ...Fault) Plan {
	k.t.Helper()
	c := k.Cluster()
	p := DrawPlan(k.Seed(), c.Size(), c.ttl(), length, faults...)
	k.t.Logf("testkit: the plan of seed %d:\n%v", k.Seed(), p)
	c.Play(p)
	c.Ready()
	return p
}

// restartLimit bounds how long a node takes to join under the faults of a plan.
const restartLimit = 5 * time.Minute

// Play lets the events of p happen at their times, and ends every fault: it returns when each node that died or drained
// runs again. A plan for more nodes than there are fails the test.
func (c *Cluster) Play(p Plan) {
	c.k.t.Helper()
	type step struct {
		at time.Duration
		do func()
	}
	var steps []step
	var joining sync.WaitGroup
	for _, e := range p {
		for _, n := range e.Nodes {
			c.host(n)
		}
		begin, end := c.steps(e, &joining)
		steps = append(steps, step{e.At, func() {
			if c.acts(e) {
				c.play(e.Fault)
			}
			begin()
		}})
		if end != nil {
			steps = append(steps, step{e.At + e.For, end})
			if e.Fault == FaultPartition && e.For > c.ttl()/2 {
				steps = append(steps, step{e.At + c.ttl()/2, func() {
					for i := range c.Size() {
						c.Mend(0, i+1)
					}
				}})
			}
			if e.Fault == FaultOneWay && slices.Contains(e.Nodes, 0) && e.For > c.ttl()/2 {
				steps = append(steps, step{e.At + c.ttl()/2, end})
			}
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	began := time.Now()
	for _, s := range steps {
		<-time.After(s.at - time.Since(began))
		s.do()
	}
	c.Heal()
	joining.Wait()
}

// ttl is the lease of the nodes.
func (c *Cluster) ttl() time.Duration {
	if ttl := c.config(1).Cluster.TTL; ttl != 0 {
		return ttl
	}
	return 10 * time.Second
}

// steps are how e begins, and how it ends where it lasts. Starts of nodes go on in goroutines of joining.
func (c *Cluster) steps(e Event, joining *sync.WaitGroup) (begin, end func()) {
	node := 0
	if len(e.Nodes) > 0 {
		node = e.Nodes[0]
	}
	frames := func(a link.Action, which func(Frame) bool) (begin, end func()) {
		return func() { c.rule(a, e.Odds, which) }, func() { c.rule(a, 0, nil) }
	}
	answers := func(f Frame) bool { return f.Class == wire.Replies.String() }
	switch e.Fault {
	case FaultKill:
		return func() { c.Kill(node) }, func() { joining.Go(func() { c.rejoin(node) }) }
	case FaultDrain:
		return func() {
			joining.Go(func() {
				c.leave(node)
				<-time.After(e.For)
				c.rejoin(node)
			})
		}, nil
	case FaultPause:
		return func() { c.Pause(node) }, func() { c.Resume(node) }
	case FaultPartition:
		var others []int
		for i := range c.hosts {
			if !slices.Contains(e.Nodes, i) {
				others = append(others, i)
			}
		}
		return func() { c.Split(e.Nodes, others) }, func() {
			for _, i := range e.Nodes {
				for _, j := range others {
					c.Mend(i, j)
				}
			}
		}
	case FaultOneWay:
		return func() { c.CutOneWay(e.Nodes[0], e.Nodes[1]) }, func() { c.Mend(e.Nodes[0], e.Nodes[1]) }
	case FaultOutage:
		return func() { c.StoreDown(e.Nodes...) }, func() { c.StoreUp(e.Nodes...) }
	case FaultClock:
		return func() { c.ClockJump(node, e.By) }, nil
	case FaultExpire:
		return func() { c.expire(node) }, nil
	case FaultLose:
		return frames(link.Drop, nil)
	case FaultRepeat:
		return frames(link.Duplicate, answers)
	case FaultSwap:
		return frames(link.Reorder, answers)
	case FaultDelay:
		return func() { c.Delay(e.Nodes[0], e.Nodes[1], e.By, e.By/2) }, func() { c.Delay(e.Nodes[0], e.Nodes[1], 0, 0) }
	case FaultReset:
		return func() { c.Reset(e.Nodes[0], e.Nodes[1]) }, nil
	case FaultSlowStore:
		return func() { c.StoreSlow(e.By) }, func() { c.StoreSlow(0) }
	case FaultSlowDisk:
		return func() { c.DiskSlow(node, e.By) }, func() { c.DiskSlow(node, 0) }
	}
	c.k.t.Helper()
	c.k.t.Fatalf("testkit: there is no fault %q", e.Fault)
	return nil, nil
}

// rejoin starts node i under faults. One that was killed meanwhile is started by the event that killed it.
func (c *Cluster) rejoin(i int) {
	h := c.host(i)
	if h.current() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), restartLimit)
	defer cancel()
	switch l, err := h.start(ctx, h.kills()); {
	case err == nil:
		h.follow(l)
	case !errors.Is(err, errKilled) && !errors.Is(err, errRuns):
		c.report(h.name, fmt.Errorf("it did not join within %v: %w", restartLimit, err))
	}
}

// leave is Drain under faults, which may keep the node from handing over what it has.
func (c *Cluster) leave(i int) {
	h := c.host(i)
	l := h.current()
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), joinLimit)
	defer cancel()
	_ = l.node.Drain(ctx)
	h.end(l, func(ctx context.Context) { _ = l.node.Close(ctx) })
}

// expire is ExpireSession of a node that may have none, because it was evicted a moment ago.
func (c *Cluster) expire(i int) {
	ctx, cancel := context.WithTimeout(context.Background(), joinLimit)
	defer cancel()
	if session, err := c.host(i).session(ctx); err == nil && session != "" && c.store().Destroy(ctx, session) == nil {
		c.play(FaultExpire)
	}
}
