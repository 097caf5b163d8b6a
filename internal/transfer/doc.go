// Package transfer moves objects between nodes: the node that wants one pulls it, chunk by chunk and from several
// nodes at once, into its store.
//
// An [Engine] has two sides. A flight is an object that this node receives; all callers that want the object share
// it. It has a feed per source, which is a conversation with one node. A stream is the other end of a feed.
//
//	receiver                                         source
//	flight ─┬─ feed ── Pull ──────────────────────▶  stream      does it have the object, and which version?
//	        │       ◀────────────────────── Pulled ─             its manifest, or its size and a mark: sums come with chunks;
//	        │                                                    or: ask these nodes; or: map it yourself
//	        │       ── Ask 0..7 ──────────────────▶              as many as the window has room for
//	        │       ◀──────────────── Chunk 0, 1, … ─            bodies, read straight into the store's memory
//	        │       ── Ask 8, 9 ──────────────────▶
//	        │       ── PullEnd ───────────────────▶
//	        └─ feed …
//
// What holds:
//
//  1. A flight receives one [objectstore.Version] (rule C22): the first answer decides, and a source of another version is
//     struck off. Each chunk is compared with its sum in the manifest, or with the one that it came with, and the sums with
//     that of the version where it is known. A chunk that is wrong strikes its source off and is asked for elsewhere.
//  2. A source that dies, that lacks the object, or that gives nothing for a while loses its chunks to the others; what
//     has arrived stays. A link that broke is made again and goes on with the missing chunks.
//  3. A node that still receives an object serves it too. A source that gives a large object to [Config.Fanout] receivers
//     sends the next ones to them, so that the copies make a tree. A receiver whose parent fails comes back to the source
//     and says so.
//  4. Nodes do not wait in a circle: a node that still receives serves only receivers that were sent to it, and names other
//     nodes to the rest; a receiver leaves a parent that stands still for the source.
//  5. Everything is bounded: chunks on the way to this node by the window of each feed, those on the way from it by
//     [Config.Outstanding] per peer, which a source counts by its sessions.
//  6. Nothing polls. Timers say only that something has not happened for too long.
//
// A value without sums would have to be read whole before its manifest is there. Instead each chunk is sent with its
// sum beside it ([Config.SumsFrom]), to receivers that support that; receivers of earlier versions, and those that
// want a version by its sum, get the manifest. Its version has no name meanwhile, so bytes of two are kept apart by a
// mark:
//
//   - The node that begins to sum a value draws a random mark for it, keeps the sum of each chunk from the first
//     time that it is sent, and never sends another for it. So sums with one mark are of one version. Receivers pass
//     the mark on with them, while they receive and after that.
//   - A flight without a manifest takes chunks only from sources of its own mark. A source that names another mark is
//     asked for its whole manifest.
//   - A whole manifest of the same attempt and size is adopted when it agrees with the sums that came so far, and decides
//     from then on: also a chunk that is on its way has to agree with it. One that does not agree is another version.
//   - A node that adopted a manifest without its mark, or with another, does not know that the chunks to come are those of
//     its mark. It gives none of them under it: the receivers that it has begin their conversations anew.
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
