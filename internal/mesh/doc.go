// Package mesh is the connections of a node to the other members of its cluster, and how nodes ask each other over them.
//
//		                member.View ──▶ alive?
//		                                  │
//		Connect(key) ── peer is there ────┼──▶ Peer ── Send ──▶ link ──▶ Frames[kind]     no answer
//		     │                            │      └─── Call ──▶ link ──▶ Calls[kind](Reply)  one answer
//		     └─ dial ── refused: again; silent: relay through a third ── Opened ─▶ Up ... Down
//
//	  - [Mesh] has at most one [Peer] for each node: the incarnation that connected last. It dials nodes on request, admits
//	    members whose key is that of their record, dials again after a break, and replaces a relayed connection when it can.
//	  - [Peer] is one incarnation of another node while the connection to it holds.
//	  - [Calls] is what a node has asked one peer and is not answered yet: one slot table for all kinds of calls.
//	  - [Reply] is the way back of one call; its handler uses it once.
//	  - [Key] names an incarnation, [Times] follow from the lease.
//
// The end of a connection settles everything on it, in this order: scopes and turns end, calls without an answer end,
// Config.Down is called. What done of a call gets, exactly once, for each way a call can end:
//
//	the peer answered                        a reader of the answer         the call was done
//	the peer refused                         its error                      what the error says
//	nothing was sent                         raysys.ErrNotDelivered         the peer has not done it, and will not
//	the connection ended before the answer   raysys.ErrOutcomeUnknown       the peer may have done it, or may do it yet
//
// So the caller decides: what may be done twice is asked again, what may not ends with the error. A connection that
// has lost a frame is ended within 5 s, so a call ends even where its frame or its answer was lost.
//
// Invariants:
//
//	peers[node].Key().Node == node; a caller of Connect is called back once, also when the Runner ends
//	a Key that is not Alive is never dialled nor admitted; Gone closes its connection
//	handlers run on the connection's reader and do not block; frames of one class are handled in the order they were sent
//	an answer to a call of class Control travels in Control, any other in Replies (rule C6)
package mesh
