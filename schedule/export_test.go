package schedule

import (
	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/system"
)

// ShardOf is the shard of a schedule: the one whose page has it.
func ShardOf(n *system.Node, name string) int {
	store, err := due.StoreOf(n)
	if err != nil {
		return -1
	}
	for shard := range store.Shards() {
		found := make(chan bool, 1)
		store.List(due.Query{Shard: shard, Prefix: due.Name{Namespace: n.Namespace(), Name: name}.Key(), Limit: 1}, func(p due.Page, _ error) { found <- p.Count > 0 })
		if <-found {
			return shard
		}
	}
	return -1
}
