// Package waitcycles finds turns that wait for each other over nodes, and has a call of the cycle give way (rule C5; ADR 0018).
//
//		a turn has waited for a while ──▶ Probe ── look, twice ──▶ stuck? ── the victim's node: refuse it, or let it in
//		                                            │  ▲
//		                        the node that computes what the turn waits for, and on
//
//	 1. A turn has waited for a while, or a call came back to its grain: this node lists what the turn waits for, as far
//	    as it knows. For work that another node computes it asks that node what the work waits for there, and so on.
//	 2. When the turn could go on by any of these waits, the search ends. Else all of them are listed again. A wait has
//	    an id of its own, so a wait in both lists was there all the time between: the cycle is real, and stays.
//	 3. The node where a call of the cycle is queued is asked to refuse the call, or to let it in where it is reentrant.
//	    All nodes that search one cycle choose the same call. Then the search begins anew, since a turn may be in several
//	    cycles.
//
// A node that does not answer, and a search that is too large, count as work that can go on: nothing is refused by guess.
package waitcycles
