// Package grains makes structs into virtual actors: always addressable by a key, activated by the first call, with one
// turn at a time, gone when idle and back when called.
//
// Define names a kind, Method makes a typed handle of one of its methods, Kind.Get names a grain. Call returns a future.
//
//	Func.Call(ctx, grain, arg)
//	      │ kind and key ─────────┬─► activation (PID, mailbox, *G)
//	      │                       └─► route: its node, once it is located ═══════► that node ───────┐
//	      └──────────────────────────► mailbox ──► turn: your method ──► Ref ◄───────────────────────┘
//
// Rules:
//
//  1. A method needs no lock: turns of one grain never run at the same time. It must not leave a goroutine behind that
//     touches the struct.
//
//  2. Calls from one goroutine to one grain start in the order they were made, also on another node and however large
//     the argument is; after an error, or a move of the grain, there is no order. Grain calls wait for no Ref in their
//     argument; On takes its place in the order when its reference is ready.
//
//  3. A call has a deadline of 30 s unless With says otherwise. A call chain that comes back to a grain that waits for
//     it is refused with the chain (ErrCycle), or admitted where Reentrant was declared, whatever nodes it leads
//     over. Chains that wait for each other crosswise over nodes are refused after a moment. A chain is followed by what a
//     turn waits for in Get or Wait: one that leads through a goroutine which a method has started, while the method
//     waits for that by a channel or a sync.WaitGroup, is not seen, and ends with its deadline.
//
//  4. The struct lives as long as the activation: idle ones go after 15 minutes (OnDeactivate runs) and start from
//     zero (OnActivate runs) when called again, perhaps on another node. What is kept in a State survives.
//
//  5. A call runs at most once. When the way to the grain's node breaks before the answer, it fails with
//     raysys.ErrOutcomeUnknown, or is repeated where the method is Idempotent; raysys.Retries, RetryIf and Backoff say how
//     then. A call that surely did not run follows its grain. A call of a kind that is Durable counts once or not at all, however
//     often it is repeated.
//
//  6. A plain grain may exist twice for a while when its node is silent and is given up. A grain with a State answers
//     only while it is the one.
//
//  7. A method of LaterMethod may keep its call, and answer it in a later turn or from a goroutine. The grain goes on
//     meanwhile, and the caller sees no difference.
//
// A first program has a struct, its handles and a call:
//
//	type Counter struct{ n int }
//
//	func (c *Counter) Add(ctx context.Context, d int) (int, error) { c.n += d; return c.n, nil }
//
//	var (
//		counters = grains.Define[Counter]("counter")
//		add      = grains.Method(counters, "add", (*Counter).Add)
//	)
//
//	v, err := add.Call(ctx, counters.Get("alice"), 5).Get(ctx)
//
// A method that calls its own handle has that declared first and set in init, since Go refuses a variable whose value
// refers to it:
//
//	var next grains.Func[Countdown, int, string]
//	func init() { next = grains.Method(countdowns, "next", (*Countdown).Next) }
//
// Every activation is a protoactor actor with a PID, and a kind's choice for panics is protoactor's supervision.
package grains
