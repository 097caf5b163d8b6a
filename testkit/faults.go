package testkit

import (
	"context"
	"time"

	"github.com/raysys/raysys/store/embedded"
)

// Kill ends node i as SIGKILL would: its connections are reset and redials refused, it reaches neither store nor nodes
// any more, and nothing graceful happens that others could see. What it runs is cancelled in the background, because a
// process cannot end a part of itself. Nothing happens when it is down already.
func (c *Cluster) Kill(i int) { c.host(i).kill() }

// Restart starts node i, as a new incarnation; one that runs is killed first. It returns when the node has joined.
func (c *Cluster) Restart(i int) {
	c.k.t.Helper()
	h := c.host(i)
	h.kill()
	ctx, cancel := context.WithTimeout(context.Background(), joinLimit)
	defer cancel()
	l, err := h.start(ctx, h.kills())
	if err != nil {
		c.k.t.Fatalf("testkit: restart node %s: %v", h.name, err)
	}
	h.follow(l)
}

// Pause stops node i as SIGSTOP would, as far as others see it: nothing goes out of it and nothing in, to and from the
// store included, and connections stay open. What it does by itself goes on, which testkit.Processes does not let it.
func (c *Cluster) Pause(i int) { c.host(i).pause(true) }

// Resume ends Pause: frames that were held arrive now.
func (c *Cluster) Resume(i int) { c.host(i).pause(false) }

// Cut stops everything between nodes i and j; both keep their connection to the store, and neither gets an error.
func (c *Cluster) Cut(i, j int) { c.net.Cut(c.host(i).name, c.host(j).name) }

// CutOneWay stops everything from node i to node j.
func (c *Cluster) CutOneWay(i, j int) { c.net.CutOneWay(c.host(i).name, c.host(j).name) }

// Split cuts every node of one side from every node of the other. Nodes of neither side, such as the test's own, which is
// 0, keep their connections.
func (c *Cluster) Split(one, other []int) {
	for _, i := range one {
		for _, j := range other {
			c.Cut(i, j)
		}
	}
}

// Mend ends what Cut and CutOneWay began between two nodes.
func (c *Cluster) Mend(i, j int) { c.net.Heal(c.host(i).name, c.host(j).name) }

// Reset breaks the connections between two nodes, which make new ones.
func (c *Cluster) Reset(i, j int) { c.net.Reset(c.host(i).name, c.host(j).name) }

// Delay makes everything between two nodes take latency and up to jitter more.
func (c *Cluster) Delay(i, j int, latency, jitter time.Duration) {
	c.net.Delay(c.host(i).name, c.host(j).name, latency, jitter)
}

// Heal ends every fault that lasts: cuts, delays, pauses, slow disks, rules about frames, and the store's. Killed nodes stay dead, and
// clocks stay where they are.
func (c *Cluster) Heal() {
	c.chaos.Clear()
	for _, h := range c.hosts {
		h.pause(false)
		h.disk.by.Store(0)
	}
	c.net.HealAll()
	c.StoreUp()
	c.StoreSlow(0)
}

// ClockJump sets node i's time of day forward by d, or back, as an operator does, or a machine that slept: the lease is
// measured by the larger of the two clocks. It lasts as long as this life of the node.
func (c *Cluster) ClockJump(i int, d time.Duration) {
	if l := c.host(i).current(); l != nil {
		l.clock.jumped.Add(int64(d))
	}
}

// StoreDown takes the store away: from all nodes, which is what the end of Consul is (its sessions wait meanwhile), or from
// the named ones alone, whose sessions end with their TTL.
func (c *Cluster) StoreDown(nodes ...int) {
	if len(nodes) == 0 {
		c.clock.freeze()
	}
	c.setDown(nodes, true)
}

// StoreUp ends StoreDown, for all nodes or for the named ones.
func (c *Cluster) StoreUp(nodes ...int) {
	c.setDown(nodes, false)
	if len(nodes) == 0 {
		c.clock.thaw()
	}
}

func (c *Cluster) setDown(nodes []int, down bool) {
	if len(nodes) == 0 {
		for i := range c.hosts {
			nodes = append(nodes, i)
		}
	}
	for _, i := range nodes {
		h := c.host(i)
		c.mu.Lock()
		c.down[i] = down
		c.mu.Unlock()
		for _, l := range h.lives() {
			l.kv.Down(down)
		}
	}
}

// StoreSlow makes each call of the nodes to the store, but for watches, wait for d first.
func (c *Cluster) StoreSlow(d time.Duration) {
	c.mu.Lock()
	c.slow = d
	c.mu.Unlock()
	for _, h := range c.hosts {
		for _, l := range h.lives() {
			l.kv.Slow(d)
		}
	}
}

// ReplaceStore puts an empty store in the place of the one there is, as a Consul in dev mode does that is started again.
// Every node ends with raysys.ErrStoreReplaced, the test's own too.
func (c *Cluster) ReplaceStore() {
	c.k.t.Helper()
	kv, err := embedded.Open(embedded.Config{Clock: c.clock})
	if err != nil {
		c.k.t.Fatalf("testkit: open another store: %v", err)
	}
	old := c.kv.Swap(kv)
	// What watches the old one hears of it as it would hear of a server that went.
	c.StoreDown()
	old.Close()
	c.StoreUp()
}

// ExpireSession ends node i's session in the store, as an eviction or a long silence does. The node is fenced when it
// notices, and joins as a new incarnation.
func (c *Cluster) ExpireSession(i int) {
	c.k.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), joinLimit)
	defer cancel()
	session, err := c.host(i).session(ctx)
	if err == nil {
		err = c.store().Destroy(ctx, session)
	}
	if err != nil {
		c.k.t.Fatalf("testkit: expire a session: %v", err)
	}
}

// Drain makes node i leave in good order: its grains move, its tasks end or go back, and then it is down. Restart brings it
// back.
func (c *Cluster) Drain(i int) {
	c.k.t.Helper()
	h := c.host(i)
	l := h.current()
	if l == nil {
		c.k.t.Fatalf("testkit: drain node %s: it is down", h.name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), joinLimit)
	defer cancel()
	if err := l.node.Drain(ctx); err != nil {
		c.k.t.Fatalf("testkit: drain node %s: %v", h.name, err)
	}
	h.close(l)
}
