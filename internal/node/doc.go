// Package node is a node's part in its cluster: it joins and leaves, and keeps what the parts of the node know of the others right.
//
//		Join ── store, layout ─▶ registry ── objects ── mesh listens ── member ─▶ duties: dial, lead shards, clean up after the gone
//		Drain.Run ── bundles, grains, tasks, objects, shards ─▶ Leave ── mesh ends, the lease is given back
//		the lease is lost ─▶ fence: the node's work ends, and all that the cluster runs
//
//	  - [Cluster] joins the parts of a node (a [Parts], and what Engines gives) to the mesh's tables of frames and questions
//	    (cluster.go), follows the view of the members (join.go), becomes a host (host.go) and leads shards (shards.go).
//	  - [Drain] moves all of a node's work away, on its program's request or an operator's.
//	  - [Solo] stands in for a cluster: shards on the embedded store.
//	  - [Pace] is how fast objects come, for placement.
//
// Invariants:
//
//	a shard is handed over only to a node that this one has a session with
//	shards are given up before the lease  ⇒  other nodes lead them when this one is gone
//	a node that was killed sends nothing, and hands over nothing
package node
