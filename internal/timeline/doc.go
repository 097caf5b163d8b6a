// Package timeline writes what ran on the nodes of a cluster as a trace, in the JSON that Perfetto and chrome://tracing open.
//
//	tally.Recorder of each node ──► Event ──► Node ──► Write ──► a file: a process for each node
//	                                                              a row for each CPU slot, and rows for each kind of grain
//	                                                              arrows from submitters to what they submitted
//
// Invariants:
//
//	two events on one row       ⇒  one is over when the other begins, or lies within it
//	something has been left out ⇒  the file says so: in its head, and beside the rows of that node
package timeline
