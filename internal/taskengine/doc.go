// Package taskengine runs the tasks of one node, sends those for which it has no CPU to other nodes, and runs tasks of
// theirs.
//
// Package tasks gives programs its handles, with the documentation; package system makes an [Engine] for each node.
//
//	Task.Go, On, Map ──► record ──► queue ──► worker ──► function ──► settled                  submit.go, worker.go, record.go, internal/runqueue
//	                       │ ▲        │
//	  arguments not there  │ │        ├─► a Get that waits for the task runs it in place       record.Help
//	                       ▼ │        │
//	                      deps        └─► forwarder ══ KindTasks ══► peer: inbound task,       forward.go, send.go, internal/taskwire
//	                                                                 worker, function          peers.go, inbound.go
//	                                      record ◄══ KindTaskResult ════════════╝              answer.go, exchange.go
//
//	not plain, or data-local ──► Config.Place ──► ledger, or a peer                            place.go, shaped.go
//
// The nouns:
//
//   - A [Task] is a handle: a spec, which has the function, the plans of its types, and the options.
//   - A record is one submission: future, spec and argument in one allocation, and the context of the function.
//   - A plain task asks for one CPU, on any node; it is queued. Any other is placed: Config.Place chooses its node.
//   - A worker is an actor that holds a CPU while it takes records from the queue, and has no goroutine while it is
//     idle.
//   - deps hold a record until the futures in its argument have settled, and their values are here or known to be
//     elsewhere.
//   - A recipe is what it takes to make the object that a task has computed again, when it is lost: Remake makes another
//     record of it, which is blank until it has its argument (recipe.go).
//   - The exchange is the part of an engine that deals with peers; a peer is one incarnation of another node.
//   - A flight is a record that is at a peer, found by its slot: a number in frames. An inbound task is the other end
//     of it. A CPU slot (core.CPUSlot) is another thing: what stands for a CPU that a goroutine holds.
//   - A deferred record was popped for a peer that cannot run it; workers take the deferred first. An unplaced record is
//     one for which Config.Place has found no node yet.
//
// Invariants:
//
//  1. CPUs: the sum of what workers, and goroutines that took a CPU slot, hold, plus free, is the node's total. Free
//     may be below zero, since a task that resumes after a wait takes its CPU at once; while it is, workers stop after
//     the task that they run.
//  2. A record that can start is in one place: the queue, its shape's list, the deferred, a peer, or a goroutine that
//     runs it. Start, a compare-and-swap, decides between goroutines that find it there.
//  3. searching is 1 while some worker looks for work. A push wakes no worker then, so the worker looks once more after
//     setting it to 0.
//  4. bytes and unqueued are changed before a record can be found by another goroutine, and back by the one that starts
//     or drops it.
//  5. A record stays with the node that submitted it. Each attempt has a number; an answer to an attempt that is over
//     finds no slot of its generation. An inbound task is never sent on.
//  6. A submission from inside a task never waits for room in the queue: it is run in place or refused (rule C6).
package taskengine
