// Package placing chooses the nodes of a node's work: of its tasks, of calls of stateless kinds, of grains that it sees off, and of
// what is in placement groups. Package placement has the rules; here is what this node knows of the others when it asks them.
//
//		peers ── KindLoad ──▶ OnLoad ─▶ loads, reports ─┐
//		                                                ├─▶ view ── placement.Place ──▶ PlaceTask, Locator, Elsewhere
//		what this node has sent since, or seen off ─────┘             ▲
//		conditions ── affinity ── asks leaders of shards ─────────────┘
//		TellLoad ── KindLoad ──▶ peers
//
//	  - [Placer] is one node's side. Its view of the nodes is kept while members and connections stay, and corrected by each report.
//	  - [Locator] is how the grain engine finds grains: it asks the registry, or chooses any worker for a kind without state.
//	  - [Groups] has the work of placement groups go to their bundles, and answers leaders of shards about the bundles here. A node
//	    without a cluster has Groups and no Placer.
//
// Invariants:
//
//	sent and not yet in a report  ⇒  taken from what is free there: many decisions are made between two reports
//	work waits here for room      ⇒  nodes are looked at each 10 ms, and nodes with idle grains are asked to make room
//	a node is not connected       ⇒  it is sent no work; a worker among them makes "no node" an answer for now only
package placing
