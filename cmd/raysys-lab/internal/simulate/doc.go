// Package simulate plays a cluster of thousands of nodes in one process, as discrete events, to see what the scheduling rules of
// raysys do at a size that no test can start.
//
//	real                                     a model
//	placement.Place, with a view for each    queues: lists of tasks, CPUs that are free
//	ledger.Ledger of each node               links: a latency, and no loss
//	the rules of internal/forwarding         reports of load: delivered to all at once
//	                                         a task: a time on a CPU, or on a GPU
//	                                         a death: its submitters learn of it after a time
//
// Its nouns:
//
//   - A Config is the cluster, its work and its faults. Equal ones give equal Results.
//   - An event is something that happens to one node at one time.
//   - A submitter is a node that has tasks of its own, and a peer is what it knows of another node.
//   - A report is a load that comes to all nodes at once. Each takes it in when it next has use for it, to the same effect.
//
// Invariants:
//
//	done = Tasks at the end, and every task is done once
//	a node's free CPUs + its running tasks = its CPUs
//
// docs/scale.md lists what each model leaves out, and how far the results are from those of real nodes in virtual time.
package simulate
