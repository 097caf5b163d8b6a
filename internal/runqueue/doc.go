// Package runqueue is the tasks of one CPU that wait on a node, and which of them is next.
//
//	of one job, all Normal      Queue.Push ──► fifo                          ──► Queue.Pop        no lock
//	of several, or classes      Queue.Push ──► a lane for each job and class ──► Order.Pop        the lock of the Order
//
// The nouns:
//
//   - A [Queue] is tasks that wait: of the node itself, or of other nodes. A [Task] is one of them, as [Queue.Each] shows it.
//   - An [Order] joins the queues of a node. It is mixed while it decides what is next (ADR 0039, 0055), by the use that each job has had
//     of the node (internal/ledger).
//   - A lane is the tasks of one job and one class.
package runqueue
