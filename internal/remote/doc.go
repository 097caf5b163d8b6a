// Package remote has PIDs of other nodes work like those of this one: their actors get messages, and can be watched.
//
//		Send(pid) ── Resolve ─▶ process ── frame of KindActor ──▶ Receive ── hand ─▶ the actor's mailbox
//		                           └────── a large one: its head ─▶ line ── asks ──▶ ServeBody
//
//	  - [Actors] is one node's side: it is the resolver of addresses of its actor system.
//	  - actors.go has messages as bytes, body.go what the sender keeps of a large one, line.go what waits behind its head.
//
// Invariants:
//
//	messages of one sender to one actor arrive in their order while the connection is up, large or small
//	a message that cannot arrive is a dead letter here, and a Watch of an actor that cannot be reached ends with Terminated
//	a node that is gone ends all watches of its actors
package remote
