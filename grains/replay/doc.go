// Package replay keeps experience in grains, for actors that insert it and learners that sample it: Reverb's tables, on raysys.
//
//	actor ── Insert, Writer ──►  shard 0 │ shard 1    a grain each: its part of every table, and the bytes of the steps
//	                                 ▲
//	learner ── Sample, Sampler ──────┘                 Update sets the priorities of what was sampled
//
// Its nouns:
//
//   - A step is a value of the Server's type: what an actor saw at one time. An item is a run of steps in a table, with a priority and a key:
//     of one step by Insert, of several by a Writer.
//   - A Table has a sampler, which says which item is sampled, and a remover, which says which item goes when one is too many: Uniform,
//     Prioritized, FIFO, LIFO, MinHeap or MaxHeap. An item also goes after MaxTimesSampled.
//   - A Limiter says when a table may be sampled and when it takes items: MinSize, SampleToInsertRatio or Queue. Calls wait while it is shut.
//   - A Server is a kind of buffer, made once by Define; Get names one buffer and returns its Client. Steps are kept once, however many items
//     of however many tables they are in.
//
// Rules for the user:
//
//  1. Insert, Append and Sample wait for as long as their ctx allows, and say in the log now and then which limiter is shut. Shortly before
//     the deadline of ctx they fail with a *ShutError, which has the table, the limiter, and how far it is from open. What a Writer could not
//     insert stays in it for its next call, whatever the error: see Pending.
//  2. Items are memory of the shards. Those up to 64 KiB lie in the grain as bytes; larger ones stay with the process that inserted them, as
//     objects, and travel from there to who samples them. A shard whose node dies begins anew and empty, a large item whose process dies goes: both
//     are logged, and the others go on. Checkpoint and Restore keep a buffer over the end of the program.
//  3. A call that is repeated after a fault counts once, within the last 32,768 of a shard. A sample whose answer is lost counts as sampled;
//     a Sampler loses none to the end of a ctx.
//  4. With Shards each shard has MaxSize items and a limiter of its own. Inserts go to the shards in turn; a sample takes some of each:
//     of Uniform and Prioritized by the shards' shares, of others alike.
//  5. Of a sample, slices in the steps share memory: change a copy.
//
// In the code, from a caller to the items:
//
//	Client (client.go)   buffer (buffer.go)      shard (shard.go)      table (table.go)
//	with the type T  ──► its calls, untyped  ──► a grain of each   ──► its items, with selectors and limiter
//	Writer, Sampler      chooses shards          keeps the steps       Local (local.go): a table without grains
//
// What they are to each other:
//
//   - The Server (server.go) is the definition: tables, the type of a step, and the methods of the shards. It runs nothing.
//   - A Client is a buffer and the type of its steps; it turns steps into bytes and back. A Writer (writer.go, over sending.go) and a Sampler
//     (sampler.go) keep calls of a buffer under way.
//   - A buffer divides each call over the shards, leaves a shard that fails alone for a while, and sees when one was lost and began anew. Checkpoints
//     are its work too (checkpoint.go).
//   - A shard is the grain: it has its part of every table, and the steps as they came, once for all of them. Calls that a limiter keeps wait
//     in its lines (waits.go).
//   - A Local is one table for one goroutine, with neither server nor shard: runs that must repeat use it.
//
// A learner and an actor:
//
//	var experience = replay.Define[Step]("experience", replay.Config{Tables: []replay.Table{{
//		Name: "train", Sampler: replay.Prioritized(0.6), MaxSize: 100_000, Limiter: replay.SampleToInsertRatio(8, 1000, 1600),
//	}}})
//
//	buffer := experience.Get("run-7")
//	w, err := buffer.Writer(replay.NStep("train", 5)) // an actor
//	err = w.Append(ctx, step)
//	err = w.End(ctx) // of the episode
//
//	s := buffer.Sampler("train", 256, 2) // the learner: two calls ahead
//	batch, err := s.Next(ctx)
//	err = buffer.Update(ctx, "train", batch.Keys, errors)
//
// It does not compress steps, and a checkpoint has the bytes of large items too.
package replay
