// Package mesh is the connections of a node to the other members of its cluster, and how nodes ask each other over
// them.
//
//		                member.View ──▶ alive?
//		                                  │
//		Connect(key) ── peer is there ────┼──▶ Peer ── Send ──▶ link ──▶ Frames[kind]     no answer
//		     │                            │      └─── Ask ───▶ link ──▶ Questions[kind](Reply)  one answer
//		     └─ dial ── refused: again; silent: relay through a third ── Opened ─▶ Up ... Down
//
//	  - [Mesh] has at most one [Peer] for each node: the incarnation that connected last. It dials nodes on request, admits
//	    members whose key is that of their record, or that proved to know the cluster's secret, dials again after a break,
//	    and replaces a relayed connection when it can.
//	  - [Peer] is one incarnation of another node while the connection to it holds.
//	  - [Questions] are what a node has asked one peer and has no answer to yet: one slot table for all kinds of them.
//	  - [Session] is what package refs adds to a Peer, so that the engines see a wire.Peer.
//	  - [Reply] is the way back of one question; its handler uses it once.
//	  - [Key] names an incarnation, [Times] follow from the lease.
//
// The end of a connection settles everything on it, in this order: scopes and turns end, questions without an answer
// end, Config.Down is called. What done of a question gets, exactly once, for each way a question can end:
//
//	the peer answered                        a reader of the answer         what was asked is done
//	the peer refused                         its error                      what the error says
//	nothing was sent                         raysys.ErrNotDelivered         the peer has not done it, and will not
//	the connection ended before the answer   raysys.ErrOutcomeUnknown       the peer may have done it, or may do it yet
//
// So the caller decides: what may be done twice is asked again, what may not ends with the error. A connection that
// has lost a frame is ended within 5 s, so a question ends even where its frame or its answer was lost.
//
// Tasks and grain calls are no questions. They use the same numbering (wire.Slots) and end as in the table above, but
// have tables of their own, the flights of internal/taskengine and the sent calls of internal/grainengine, because they
// are the hot path: their frames travel in batches, the slots of a batch of results are found under one lock, and what
// a slot names is the record of the work, so that no closure is made. What follows differs too: a task runs again
// elsewhere, a grain call ends or is repeated as its method says. Each engine reads results of its own form, so that
// the two readers of batches look alike and share no code.
//
// Invariants:
//
//	peers[node].Key().Node == node; a caller of Connect is called back once, also when the Runner ends
//	a Key that is not Alive is never dialled nor admitted; Gone closes its connection
//	handlers run on the connection's reader and do not block; frames of one class are handled in the order they were sent
//	an answer to a question of class Control travels in Control, any other in Replies (rule C6)
package mesh
