// Package lineage has tasks outlive the node that submitted them: their recipes are recorded in the cluster's store, and a
// node that holds a reference takes over.
//
//	submitter                                       the shard of the task           a node that holds a reference
//
//	Leave ── recipe, after those of its inputs ──▶ enter
//	  │ then the reference leaves ═══════════════════════════════════════════════▶ names the run of the record
//	outcome ── before a node is told it ─────────▶ settle
//	  ✝                                               │
//	                                                claim ◀── Succeed, at once ──── learns of the death
//	                                                  │ the first becomes the submitter: adopts the task
//	                                                  └── the others ask that one ▶ Find
//
// Its nouns:
//
//   - A [Lineage] is one node's side. It is the core.Gate of the node, the refs.Lineage and the taskengine.Joiner.
//   - A departure is some futures that another node shall know. It waits until their tasks are recorded, at most for 1 s.
//   - A recorded task has a record (registry.TaskRecord), which names its submitter. Its key is the task's id and its run,
//     the incarnation of the node whose driver the work comes from: a fixed seed repeats ids, and not runs.
//   - An adoption is the search for the next submitter. This node may become it: then the task is held here until
//     its outcome is wanted (taskengine.Engine.Adopt).
//   - A large recipe is an object of its submitter and other nodes, and the record says where (large.go).
//   - The record of a task says where the object is that it has computed (source.go): the next submitter looks there before it runs the task.
//   - A recipe says of each input that has no record which node owns it, under which number (input.go). The owner frees an input 2 s after the
//     submitter's death. So the next submitter is counted there when it reads the record: the task may begin much later.
//   - A task is retained for a State that refers to it (states.go): its submitter keeps it, and its record names the State.
//   - An outcome is told when a node that is not the submitter learns it.
//
// What leaves, and when:
//
//	an argument of a task                    at once: the task passes it on later, and asks the submitter to record it then
//	an argument of a grain's method          when recorded; a grain of this node is given it at once
//	a result of a task or a grain's method   when recorded, with what the value refers to
//	the answer to a node that waits          the same; the outcome of a recorded task is in the record before that
//	a reference in a State                   when the object is there, and its task recorded and retained for the State
//	a value that travels along               with no record, but what it refers to
//	an object                                what it refers to is recorded first, also where the value is not in memory; of a recorded task:
//	                                         when the record says where it is
//
// Invariants:
//
//	a reference at another node, with a run  ⇒  the recipes of its task and of all that it needs are recorded, or were
//	an outcome was told                      ⇒  it is in the record: the next submitter has the same; it waits for the store, an object for 1 s
//	one submitter at a time                  the leader changes it when the last one is dead, and counts them; outcomes of earlier ones are refused
//	nothing at the submitter has the recipe  ⇒  its record goes; one that is cut stays: its record says where the object is
//	nobody claims a task after a death       ⇒  its record goes, 30 s later; a task with a name, or in a State, is handed to a worker
//	the store does not answer for 1 s        ⇒  the reference leaves unrecorded: it ends with its submitter, as in memory; a task
//	                                            that a further attempt submits runs unrecorded
package lineage
