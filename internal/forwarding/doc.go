// Package forwarding decides where the tasks go that wait while the CPUs of their node are taken. It is pure: the task engine
// and the simulator use it, each with what it knows of its peers.
//
//	Peer ── Room ──► idle, all ──► Offer ──┐
//	                                       ├── the highest Score ──► the peer, and how many tasks it is sent
//	Peer ── Room ──► idle, all ──► Offer ──┘
//
// Its nouns:
//
//   - A Peer is what a node knows of another: the load that it last reported, and what this node has there.
//   - Room is how many tasks a peer may be sent: idle of them begin at once, all of them soon.
//   - An Offer is how many of them it is sent next, and whether it goes before other peers.
//
// Invariants:
//
//	0 <= idle <= all <= MaxFlights - Inflight
//	all <= CPUs + what the CPUs do in 10 ms       for a node that has CPUs: what waits longer stays where an idle node gets it
package forwarding
