// Package stream has durable, ordered streams of events, which are published to a key and delivered to grains.
//
//	orders = stream.Define[Order]("orders", stream.Keep(30*24*time.Hour))
//	_      = stream.Into(orders, accounts, (*Account).OnOrder)       // the event of key k is a call of account/k
//
//	type Account struct {
//		Balance grains.State[int]
//		stream.Cursor                                                // each event counts once
//	}
//
//	seq, err := orders.Publish(ctx, "alice", Order{...})             // it is safe
//	for e, err := range orders.Read(ctx, "alice", stream.From(seq)) { ... }
//
// Where events lie follows State: without a cluster in memory, in a cluster in NATS JetStream, which is found by RAYSYS_NATS or by what
// `raysys local` has written. Keys are spread over parts; for each part of each subscription an agent, which is a grain, reads the events and
// calls their grains:
//
//	Publish ── NATS ──┬── part 0 ── agent ──┬── account/alice   one event after the other
//	                  ├── part 1 ── agent   └── account/bob     at the same time
//	                  └── ...
//
// Rules:
//
//  1. Delivery is at least once, and in the order of each key. With a Cursor in a Durable grain an event counts once.
//  2. An event whose handler fails comes again, and the events of its grain wait; those of others do not. OnError parks it instead.
//  3. A subscription begins with the oldest event that is kept. What it has delivered is kept under its name: stream, kind, and As.
//  4. NATS carries events, and never a call between Go programs.
//
// In the code, from the stream to the handler:
//
//	agent (agent.go) ── pump (pump.go) ──┬── target (target.go) ── the call of a grain
//	a part's grain      reads the part   └── target
//
// Its nouns:
//
//   - A part, in the code a partition, is a share of the keys. A key is always in the same part, and a part is read in its order.
//   - An agent is the grain of one part of one subscription. It keeps how far the part was delivered, so that the next activation, on
//     another node, goes on from there. All that it does while it is active its pump does.
//   - A pump is the goroutine of an active agent that reads the part from the bus. It has a target for each grain with events, and
//     bounds how many events are in memory (room.go): those of a slow target it leaves in the bus and reads again.
//   - A target is one grain as a pump sees it: the events that wait for it, and the attempts at the one whose handler fails. One event of it
//     is in flight at a time.
//   - A node (node.go) is what one node has of all this: its bus, the connection to NATS or the memory in place of it, and its pumps.
package stream
