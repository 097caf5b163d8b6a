package protoactor

import "github.com/asynkron/protoactor-go/cluster"

func of(c *cluster.Cluster) *node { return c.IdentityLookup.(lookup).n }

// Waiting counts the requests that wait for answers of other nodes.
func Waiting(c *cluster.Cluster) int {
	r := of(c).requests
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open)
}

// Knows reports whether the node knows where an actor is.
func Knows(c *cluster.Cluster, identity, kind string) bool {
	for _, cache := range of(c).pids.caches.Load() {
		if pid, _ := cache.Get(identity, kind); pid != nil {
			return true
		}
	}
	return false
}

// Turn has the time pass after which PIDs that were not used may be forgotten.
func Turn(c *cluster.Cluster) { of(c).pids.turn() }
