// Package forwarding decides where the tasks go that wait while the CPUs of their node are taken. It is pure: the task engine
// and the simulator use it, each with what it knows of its peers.
//
//	Peer ── Room ──► idle, all ──► Offer ──┐
//	Peer ── Room ──► idle, all ──► Offer ──┼── Choose ──► the peer, and how many tasks it is sent
//	Peer ── Room ──► idle, all ──► Offer ──┘                 │
//	  ▲                                                      ▼
//	  │                                      Accepts: it takes so many, and gives the rest back
//	  │                                                      │ Add
//	  └── its load, when a CPU is free ◄── Take ── Owed ◄────┘
//
// A load says two things, and no frame of its own is needed for either: of a node whose tasks wait (Load.Queued)
// that it asks for room, and of one with a free CPU (Load.Free) that it has some. To all it is told seldom
// (ReportEvery).
//
// Its nouns:
//
//   - A Peer is what a node knows of another: the load that it last reported, and what this node has there.
//   - Room is how many tasks a peer may be sent: idle of them begin at once, all of them soon.
//   - An Offer is how many of them it is sent next, and whether it goes before other peers.
//   - Owed is the peers to which this node owes word of room.
//
// Invariants:
//
//	0 <= idle <= all <= MaxFlights - Inflight
//	all <= CPUs + what the CPUs do in 10 ms       for a node that has CPUs: what waits longer stays where an idle node gets it
package forwarding
