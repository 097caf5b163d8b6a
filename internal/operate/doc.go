// Package operate answers what operators ask of a node: the commands of raysys, and programs by the methods of system.Node.
//
//		Node.Status, Tasks, Grains, Waits, Get, Memory, Groups, Streams, Ways, Why, Explain, DrainNode ...
//		        │
//		     Operator ── askAll: every member at once ──▶ KindAdmin ──▶ Serve ── perform ──▶ engines, registry, objects, mesh
//		        │                                                                     │
//		        └── merges what has come within 3 s ◀── JSON: types of inspect ◀──────┘
//
//	  - [Operator] is one node's side. Without a cluster it answers for the one node.
//	  - [Config], [Node] and [Cluster] are what it is given of the node: it changes nothing there but the drain.
//	  - A question (ask.go) is what nodes are asked by name, with a query and an answer as JSON: lists, whose rows the node filters and bounds.
//	  - [Decisions] are the last decisions where work goes, for Explain. Who decides enters them.
//
// Invariants:
//
//	a node that does not answer in time  ⇒  the answer says so; the others' is there
//	an answer is JSON                    ⇒  nodes of versions with more fields or fewer understand each other
//	who asks for a change is logged      drain, cancel, removal of a group: with the asking node
package operate
