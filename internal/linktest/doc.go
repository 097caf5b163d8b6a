// Package linktest is the network that tests use in place of TCP: connections in memory between the named nodes of one
// process, with the faults of a real network, and rules about single frames.
//
//	node a ── Transport("a") ──┐                      ┌── Transport("b") ── node b
//	                           ├── Network ── faults ─┤
//	                           │   two pipe.Half each │
//
// A [Network] connects; faults (Cut, Pause, Delay, Kill, Sever, ...) hold back, delay or break what it carries. A byte
// stream loses no frame, so [Chaos] decides frame by frame, before a frame is written (link.Config.Chaos). Both repeat
// under one seed, and work in a testing/synctest bubble, where delays take no time.
package linktest
