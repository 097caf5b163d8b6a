// Package transfer moves objects between nodes: the node that wants one pulls it, chunk by chunk and from several
// nodes at once, into its store.
//
// An [Engine] has two sides. A flight is an object that this node receives; all callers that want the object share
// it. It has a feed per source, which is a conversation with one node. A stream is the other end of a feed.
//
//	receiver                                         source
//	flight ─┬─ feed ── Pull ──────────────────────▶  stream      does it have the object, and which version?
//	        │       ◀────────────────────── Pulled ─             its version;
//	        │                                                    or: ask these nodes; or: map it yourself
//	        │       ── Ask 0..7 ──────────────────▶              as many as the window has room for
//	        │       ◀──────────────── Chunk 0, 1, … ─            each with its sum; bodies go straight into the store's memory
//	        │       ── Ask 8, 9 ──────────────────▶
//	        │       ── PullEnd ───────────────────▶
//	        └─ feed …
//
// What holds:
//
//  1. A flight receives one [objectstore.Version] (rule C22): the first answer decides, and a source of another version
//     is struck off. The owner drew the version's nonce, and computed the sum of each chunk before it sent that first.
//     The sum goes with the chunk from node to node; each receiver compares the bytes with it and keeps it. A chunk
//     that is wrong strikes its source off and is asked for elsewhere.
//  2. A source that dies, that lacks the object, or that gives nothing for a while loses its chunks to the others; what
//     has arrived stays. A link that broke is made again and goes on with the missing chunks.
//  3. A node that still receives an object serves it too. A source that gives a large object to [Config.Fanout]
//     receivers sends the next ones to them, so that the copies make a tree. A receiver whose parent fails comes back
//     to the source and says so.
//  4. Nodes do not wait in a circle: a node that still receives serves only receivers that were sent to it, and names
//     other nodes to the rest; a receiver leaves a parent that stands still for the source.
//  5. Everything is bounded: chunks on the way to this node by the window of each feed; to a peer one at a
//     time is on its way, which a source counts by its sessions.
//  6. Nothing polls. Timers say only that something has not happened for too long.
//
// A flight whose sources have all gone ends as lost even if another version exists: the next Fetch gets that. A value
// that the program changes is noticed where a chunk was sent before, as known sums are compared whenever it is
// encoded again; a part of it that was not sent yet has no sum to be compared with.
//
// In short:
//
//	e, err := transfer.New(transfer.Config{Self: key, Store: store, Link: links})
//	o, err := e.Fetch(ctx, objectstore.Version{ID: id}, transfer.From(owner), objectstore.Heap)
//	...
//	o.Unpin()
//
// It does not know which nodes have an object, nor what becomes of it: [Sources] answers the first, the store's user
// decides the second. It does not make connections or take frames from them: [Link] and Handle join it to those.
package transfer
