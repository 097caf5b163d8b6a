// Package remote has PIDs of other nodes work like those of this one: their actors get messages, and can be watched.
//
//		Send(pid) ── Resolve ─▶ process ── frame of KindActor ──▶ Receive ── offer ─▶ the actor's mailbox
//		                           │                                 └─ may block ──▶ line ── hand ─▶ the process
//		                           └────── a large one: its head ─▶ line ── asks ──▶ ServeBody
//
//	  - [Actors] is one node's side: it is the resolver of addresses of its actor system.
//	  - actors.go has messages as bytes, body.go what the sender keeps of a large one.
//	  - offer.go says which processes take a message at once, line.go has what waits: for others, or behind a large message.
//
// Invariants:
//
//	messages of one sender to one actor arrive in their order, large or small, though a connection's end may take some of them
//	the goroutine that reads a connection runs no code of the program to hand a message over, and waits for nothing
//	the messages of a node that wait in lines are bounded, in number and in bytes; beyond that their senders hear ErrOverloaded
//	a message that cannot arrive is a dead letter here, and a Watch of an actor that cannot be reached ends with Terminated
//	a node that is gone ends all watches of its actors
package remote
