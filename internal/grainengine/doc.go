// Package grainengine activates the grains of one node, runs the calls to them one at a time, and sends calls to grains
// elsewhere.
//
// Package grains gives programs its handles, with the documentation; package system makes an [Engine] for each node.
//
//	Func.Call ──► call ──► activation here ──► mailbox ──► turn: the method ──► settled        submit.go, engine.go, mailbox.go
//	               │         ▲                             (an actor with a PID)               activation.go, mailbox.go, call.go
//	               │         └── a pool of them, of a stateless kind                           pool.go
//	               │
//	               └──► route: where is it? ──► Cluster.Locate ──► the grain's node            route.go
//	                       │                                         │
//	                       └──► outbound ══ KindCall ══► peer: inbound call, activation        outbound.go, inbound.go
//	                               ◄══ KindCallResult ═════════════╝                           peer.go
//
//	State.Write ──► cell ──► States.Save, under the activation's token                         state.go, cell.go, internal/staterecord
//	a durable turn ──► durable ──► States.Commit, then its reply                               durablecall.go, durable.go, open.go
//	                           ├── replies.Book: a call that was made has its reply        internal/replies
//	                           └── entries.Book: the Maps, and what the turn changed       internal/entries
//
// The nouns:
//
//   - A [Kind] is a handle of a grain kind, a [Func] one of a method. A boundKind is a kind on this node.
//   - A call is the record of one call: future, mail and the method's context in one allocation. A mail is one message in a
//     mailbox.
//   - An activation is a grain in memory: its G, its mailbox and its PID. It has one turn at a time, and a gate where
//     turns that wait let others in.
//   - A route is what a node knows of a grain that is not active here. Calls wait in it while the grain is located.
//   - The activation table of a kind has its activations here and the routes of its grains elsewhere, in stripes with a
//     lock each.
//   - An outbound call is one of this node to a grain elsewhere; an inbound call is the other end of it. Inbound calls
//     behind one whose argument is on its way wait in a line. A peer is one incarnation of another node.
//   - A rotation is the nodes that share the calls to one key of a stateless kind.
//     Where workers hold something (Holds), one with room for a worker goes before one in turn without (pool.go).
//   - A [graindir.Token] names one placement of a grain: of two activations the one with the newer token is the grain. An
//     activation has its token in its tenure.
//   - A [Later] is a call that its method may keep: it settles after the turn (later.go). An activation lists those it keeps.
//   - A cell joins a State to its activation. An [graindir.ETag] names one stored version of it.
//
// Invariants:
//
//  1. A key has an activation or a route or neither. The next activation of a key starts after the one before was taken
//     out of the table, so that two never run.
//  2. Turns of one activation lock its gate when they may interleave, so that methods never run at the same time.
//  3. Calls of one goroutine to one grain keep their order: in the mailbox, in the route, on the link, and while the
//     argument of one is on its way (rule C5).
//  4. A call runs at most once. One that was sent and not answered is repeated only where its method is Idempotent
//     (rule C8).
//  5. A named grain answers on a cluster only under a token that was confirmed, and not while the node's lease is out
//     (rule C19).
//  6. A turn of a durable grain and its reply are one commit; what is not stored is seen by later turns, and by nobody else
//     (rule C21, durable.go).
//  7. No reply of another grain with States leaves unless its turn ended in a commit, or no other node can have the grain
//     (rule C20).
package grainengine
