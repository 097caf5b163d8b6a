// Package feed lets others watch a grain: what it emits in its turns goes to those who ask.
//
//	turn: Feed.Emit ──► the newest items, in the grain's memory ◄── asks by position ── Watch.All: a loop of a watcher, on any node
//
// A Feed is a field of a grain's struct, and Method the way to it:
//
//	type Room struct{ Lines feed.Feed[string] }
//
//	var watch = feed.Method(rooms, "watch", func(r *Room) *feed.Feed[string] { return &r.Lines })
//
//	err := r.Lines.Emit(line) // in a turn; it never waits
//
//	for line, err := range watch.All(ctx, rooms.Get("kitchen")) { ... } // from now on; feed.Last(10)
//
// Rules for the user:
//
//  1. A watcher asks, and the grain knows of none but those whose ask it keeps: a watcher that is gone leaves nothing behind, and a slow one holds
//     nobody up. A watcher makes the grain active, and a kept ask keeps it so.
//  2. A feed has the newest 1,000 items, and 16 MiB of them. A watcher that is further behind, or whose grain was activated anew, gets a *MissedError and goes on.
//  3. Half of the kind's Mailbox may watch a grain at a time. The loop of one more ends with raysys.ErrOverloaded.
//  4. A Durable kind has no feed: its turns may run more than once before they count. Use package stream.
package feed
