// Package core has the futures that all of raysys is made of: how work is submitted, waited for, cancelled and settled.
//
// It lies below package raysys, which gives programs the part of it that they need, with the documentation. The engines
// and the system use the rest. It imports the standard library alone.
//
//	raysys.Ref[T] ══ Ref[T] ──► Result[T] = Future + value        (one record: tasks and grains embed it in theirs)
//	                              │      │
//	             submitted by, up │      │ own, made when needed
//	                              ▼      ▼
//	 Job ◄───────────────────── Turn ◄─ Turn                      (cancellation and deadlines are looked up along up)
//	 runtime, table, ids          │
//	                              └─ Blocked ──► Futures ──► Turns that hold them (cycle.go: the wait graph)
//
// The nouns:
//
//   - A Future is settled once: ready, failed, cancelled or lost. Result adds the value; Work is what produces it,
//     with further interfaces that it may implement (work.go).
//   - A Turn is what submissions come from: a driver, a running task, or one call on a grain. It numbers them.
//   - A Job is what all turns of one driver share: ids, table, runtime, inspector.
//   - A Source brings the outcome of a Future that has it elsewhere: on another node, or in a file of this one.
//   - A Link is the word that a reference consists of. raysys.Ref and Ref are the same struct, so that one converts to
//     the other for nothing; a list of either passes uncopied to functions over R ~struct{ Link[T] }.
//
// Invariants:
//
//  1. phase grows: pending < running < settled. Only Again and Unstart return running work to pending, and they lose
//     against a goroutine that settles it.
//  2. For one Future Start returns true once per attempt, and one of Resolve, Fail and Forward returns true at all.
//  3. id(submission n of turn t) = Child(id(t), n): ids depend on the program's order alone.
//  4. A value can be read while pins > 0 or it is not released. It is forgotten (Evict) only where a Source brings it
//     back.
//  5. Work registers nowhere when it is submitted. Only what waits is registered, with the turns above it.
//  6. A turn publishes what it waits for before it looks for a cycle. So of the turns of a cycle the last one to look sees
//     the whole cycle.
//  7. Locks are taken from a turn to the one above it; callbacks run without any.
package core
