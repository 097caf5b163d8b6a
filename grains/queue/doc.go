// Package queue has bounded queues in memory, between producers and consumers anywhere in the cluster: Ray's Queue, on raysys.
//
//	producer ── Put: waits for room ──► queue "jobs/render": a grain ──► Take, TakeUpTo, All: wait for items ── consumer
//
// Define names a kind of queues with the type of their items, Get one queue of it. The first call makes it.
//
//	var jobs = queue.Define[Job]("jobs", queue.Size(1000))
//
//	q := jobs.Get("render")
//	err := q.Put(ctx, a, b)
//	v, err := q.Take(ctx) // queue.ErrClosed after Close and the last item
//
// Rules for the user:
//
//  1. Items leave in the order in which they came; those of one goroutine in the order of its Puts. Each goes to one consumer.
//  2. Calls wait for as long as their ctx allows. A Take that ends early takes nothing.
//  3. The items are memory of one node. What a queue has is lost when its node dies or drains, and what a consumer has taken when that one
//     dies. The queue is empty then, and goes on elsewhere. Where no item may be lost use package stream, and durable grains.
//  4. A call that is repeated after a fault counts once while the queue's node lives. A producer that runs again, such as a task whose node was
//     lost, puts its items again: number them, and have consumers skip those that they have had.
//  5. Half of Mailbox may wait at a time, producers and consumers together. Beyond that a call that would have to wait fails with
//     raysys.ErrOverloaded; others go on.
//  6. A queue has Size items and Bytes of them at most, and holds as many bytes again of Puts that wait. Beyond that Puts wait at their callers.
//  7. A queue stays until its node ends, also when it is empty or closed: use as many keys as there are queues at a time, and not one a job.
//
// In the code: Queue (queue.go) turns items into chunks of bytes and makes the calls; box (box.go) is the grain.
package queue
