// Package ledger counts what the work on one node holds of its resources, in integers, so that no resource is held twice.
//
//	Need ── Ever ──► Shortage: no state of the node has it
//	     ── Take ──► Hold, with devices ── Return ──► free
//	              └► Shortage: not now: the Line grants it later, in order
//
// Its nouns:
//
//   - A Need is what one task or activation asks for. A Hold is what it has; it is given back once.
//   - A Device is one accelerator. Work holds a share of one device, or whole devices: two halves of two devices are no whole.
//   - A Shortage says of which resources there is too little.
//   - Shares is the use that each job has had of the node. Of several jobs the one with the least is next in a Line, and in the run queue.
//
// Invariants:
//
//	free + the sum of the holds = total         for each resource, and for the share and the memory of each device
//	0 <= free                                   but for CPU, below
//	whole devices of a hold                     no other hold has a share of one
//	a sick device                               is in no new hold; those that have it keep it
//
// CPU is counted apart, in an atomic: a task of one CPU takes it without a lock, and work that waits gives back its CPU and
// nothing else. A task that goes on after a wait may overlap with another until one of them ends, so that free CPU can be
// below zero for as long.
//
// Memory is counted, and nothing enforces it.
package ledger
