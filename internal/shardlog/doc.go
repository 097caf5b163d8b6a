// Package shardlog has the shards of a cluster: tables with a leader whose changes are a log in the store.
//
//	Propose ──► core: judge, pending ──► append ──► machine: committed ──► Get, done
//	                                       │
//	  store.KV:  leaders/07   log/07/000000000000002a   snap/07/manifest   snap/07/<snapshot>/00000
//
// [Shard] is a table that this process leads. [Layout] maps keys to shards. What keeps shards right:
//
//  1. The leader's key is made anew by each leader and held by its session. Its CreateIndex is the epoch, which only
//     grows.
//  2. Every write is a transaction that is refused unless that very key is still there and held: a leader that lost it
//     can change nothing any more, whether it knows or not.
//  3. A segment of the log is written if its number is free. An outcome that is unknown is read back before anything
//     else is appended or answered.
//  4. The table holds committed records only. Conditions are judged against those and, in the order of proposals, what
//     is on its way; answers wait for it.
//  5. A snapshot counts once its manifest exists, which is written last; the log that it replaces is deleted after that.
//
// Rules for the user:
//
//   - Values handed in or given out must not be changed.
//   - Propose never waits; done is called on the shard's goroutine and must not wait either.
//   - What Get returns may be a moment old, and may be of a leader that was deposed: an answer that must be right leaves
//     after a commit or a Fence.
//   - Watch LeadersPrefix to learn the leaders; close a Shard whose key went to another.
//
// A record with its conditions:
//
//	layout, err := shardlog.OpenLayout(ctx, kv, "lab", 0)
//	...
//	s, err := shardlog.Lead(ctx, shardlog.LeadConfig{KV: kv, Shard: layout.ShardOf(key), Session: session, Node: "node-1"})
//	...
//	r, err := s.Commit(ctx, shardlog.Batch{
//		Checks: []shardlog.Check{{Key: "g/counter/alice", Version: token}},
//		Puts:   []shardlog.Put{{Key: "s/counter/alice/n", Value: value}},
//	})
//	var etag = r.Version(0)
//
// The package elects no leader by itself and knows no grains: internal/registry leads the shards that it is given, and what
// the records say is its own. It renews no session: internal/member does.
package shardlog
