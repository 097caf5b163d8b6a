package protoactor

import "github.com/asynkron/protoactor-go/cluster"

// Waiting counts the requests that wait for answers of other nodes.
func Waiting(c *cluster.Cluster) (n int) {
	nodes.Range(func(_, v any) bool {
		if p := v.(*node); p.cluster == c {
			p.requests.mu.Lock()
			defer p.requests.mu.Unlock()
			n = len(p.requests.open)
		}
		return true
	})
	return n
}
