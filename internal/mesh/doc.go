// Package mesh is how nodes ask each other: a call and its one answer, over a connection that may end at any moment.
//
//		Call ── kind: slot, question ──▶ Serve's handler
//		 slot table                         │ at once, or later, on any goroutine
//		 done ◀── KindAnswer: slot, ok, answer ── Reply
//		                      slot, failed, error
//
//	  - [Calls] is what a node has asked one peer and is not answered yet: one slot table for all kinds of calls.
//	  - [Reply] is the way back of one call; its handler uses it once.
//	  - [Undelivered] and [Unknown] tell why there is no answer.
//
// What done of a call gets, exactly once, for each way a call can end:
//
//	the peer answered                        a reader of the answer         the call was done
//	the peer refused                         its error                      what the error says
//	nothing was sent                         raysys.ErrNotDelivered         the peer has not done it, and will not
//	the connection ended before the answer   raysys.ErrOutcomeUnknown       the peer may have done it, or may do it yet
//
// So the caller decides: what may be done twice is asked again, what may not ends with the error. A connection that has
// lost a frame is ended, so a call has an end even where its frame or its answer is what was lost.
//
// A handler runs on the connection's reader and must not block. An answer to a call of class Control travels in Control,
// any other in Replies (rule C6); a large one takes the bulk connection.
package mesh
