// Package objects joins a node's object store to its futures and to the other nodes: where a large value is kept, which
// nodes have copies of it, and when each of them may go.
//
//	future ◀─ value, source ─▶ objectstore.Store ◀── transfer.Engine ══ chunks ══▶ the engines of other nodes
//	   ▲                              ▲                     ▲
//	refs ── Describe, NewSource ──▶ Objects ── whereabouts ─┘
//	                                  │  ▲
//	 registry.Directory ◀── changes ──┘  └── operations (wire.KindKeep): copy, free, export, retain, collect
//
// Its nouns:
//
//   - [Objects] is all of one node. It implements core.Objects and core.Names, refs.Objects and graindir.Retainer.
//   - An object is the value of a future of its owner, in the owner's store. Its id is made of the submission and the
//     owner.
//   - A copy is here for the references that stand for it, and goes with the last of them or when memory is short. A
//     replica is a copy that is kept for its owner; see [raysys.Replicas].
//   - A source brings an absent value back: storedSource from this node's store, objectSource from any node that has
//     it.
//   - An object is kept, as the store's primary, while there are reasons: names, retentions, an owner that asked for a
//     replica.
//   - A retention keeps an object while a State's record lists it.
//   - An object that was put with raysys.OnDisk has a file on each node that keeps it for its name. Its next incarnation
//     offers the file again (Recover), and a node that lost one makes another (restoreFile).
//   - A node that dies takes its copies along; the owner, or of a name its caretaker, has others made (recopy.go).
//   - An evacuation copies an object that others need to a node that stays, when its own drains.
//
// An object is fetched in these steps:
//
//  1. The program calls Get. Its future names a future of another node; refs asks the owner for the outcome
//     (KindAwait).
//  2. The owner answers that it is an object: id, owner, size and the references inside (Describe puts the value into
//     the store).
//  3. The asker makes an objectSource (NewSource), which counts as a need; the future is ready and absent.
//  4. For the first reader core makes a second future, which asks the source for the value (Fetch, or View for one that
//     is mapped), on a goroutine of the runner.
//  5. transfer.Engine.Fetch finds it in this node's store, or asks whereabouts for nodes, one after the other: the
//     owner; the lenders of the reference; then the nodes that the leader of the object's shard names
//     (registry.Directory.Find).
//  6. The engine pulls from some of them at once: Pull, Ask, Chunk (package transfer has that protocol). The link reads
//     each chunk's body into the place in the store that Land has named.
//  7. The copy is listed in the directory by an update, resent until the leader acknowledges it.
//  8. The codec decodes the bytes into the value, the source calls done, the second future gives its value to the
//     first, and readers that wait for either have it.
//  9. When the last objectSource of the object is collected, the copy leaves the store, and the directory at the next
//     tick.
//
// When neither the owner nor a lender can be asked in step 1, refs calls FindCopies: the id follows from the submission
// and the owner, so the directory is asked for copies at once. When there is none the value is lost, and the future has it
// made again (core.Future.Rebuild): by its own recipe, or by asking the node that submitted the task (internal/refs/recovery.go).
//
// The states of the value, with both futures:
//
//	pending ── 2, 3 ──▶ absent ── 4: the first reader ──▶ fetching ── 8 ──▶ here
//	                      ▲                                   │              │
//	                      ├──────── the fetch failed ─────────┘              │
//	                      └──────── memory is short: evicted ────────────────┘
//
//	state      the reference's future    its source                    the second future
//	pending    not settled               refs.RemoteSource             none
//	absent     ready, without the value  objectSource, or storedSource none
//	fetching   ready, without the value  the same                      pending; readers wait for it
//	here       ready, with the value     the same                      settled, and no longer referred to
//
// A fetch that failed with raysys.ErrObjectLost stays: every later reader gets that error. After another error the next
// reader begins a fetch anew.
//
// What keeps the bytes of an object on a node:
//
//	reason                            from                          until
//	a future here has the value       Keep, or ensure               the future is released or collected; borrowers pin it (refs)
//	needs[id] > 0                     NewSource                     the last objectSource is collected; memory may evict it before
//	keys[key of a name]               Publish, or copy with a key   the record of the name stands for another object, or for none
//	keys[key of a State]              retain                        the next version of the State does not list it; 2 min unwritten
//	forOwner                          copy                          free by the owner, its end in good order, or 10 min after its death
//	copying > 0                       copy                          the request is answered
//
// Invariants:
//
//	kept.byID[id] exists with a reason left  ⇒  the object is a primary: it is spilled, and not evicted
//	a reason ends, or one is entered         ⇒  under kept.mu, as is the release: no reason is entered between the last and the release
//	the directory names this node for id     ⇐  listed[id]; a copy that goes is removed from the record, late rather than never
//	the owner is dead                        ⇒  its copies stay for 10 min, and the directory finds them
//	a node is alive and did not deny         ⇒  a fetch ends with raysys.ErrUnreachable and never with raysys.ErrObjectLost
//	the collector's goroutine                ⇒  frees memory at once; sets no alarm and sends nothing before the next tick
package objects
