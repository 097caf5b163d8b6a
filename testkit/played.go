package testkit

import (
	"maps"

	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/link"
)

// Played is how often each fault of a plan took effect so far: events, but for frames that were lost, repeated or swapped,
// calls that found a slow store, and writes that found a slow disk. An event that found its node down took none.
func (c *Cluster) Played() map[Fault]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := maps.Clone(c.played)
	if list == nil {
		list = map[Fault]int{}
	}
	for f, a := range map[Fault]link.Action{FaultLose: link.Drop, FaultRepeat: link.Duplicate, FaultSwap: link.Reorder} {
		list[f] += c.chaos.Count(a)
	}
	for _, h := range c.hosts {
		list[FaultSlowDisk] += int(h.disk.slowed.Load())
	}
	maps.DeleteFunc(list, func(_ Fault, n int) bool { return n == 0 })
	return list
}

// play counts an effect of f.
func (c *Cluster) play(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.played == nil {
		c.played = map[Fault]int{}
	}
	c.played[f]++
}

// meetsStore counts a call to the store that is slow.
func (c *Cluster) meetsStore(call flaky.Call) flaky.Fault {
	c.mu.Lock()
	slow := c.slow > 0 && call.Verb != "Watch"
	c.mu.Unlock()
	if slow {
		c.play(FaultSlowStore)
	}
	return flaky.None
}

// acts is whether e takes effect as an event, by what happens to its nodes; what is counted elsewhere does not.
func (c *Cluster) acts(e Event) bool {
	switch e.Fault {
	case FaultLose, FaultRepeat, FaultSwap, FaultSlowStore, FaultSlowDisk, FaultExpire:
		return false
	case FaultPartition, FaultOutage:
		return true
	}
	return c.host(e.Nodes[0]).current() != nil
}
