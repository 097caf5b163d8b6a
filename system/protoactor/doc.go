// Package protoactor runs the virtual actors of a proto.Actor program on a raysys cluster, beside its tasks and grains: kinds
// of github.com/asynkron/protoactor-go/cluster, and what protoc-gen-go-grain makes.
//
//	var _ = protoactor.Kinds(shared.NewHelloKind(newHello, 0), protoactor.Kind(cluster.NewKind("cart", props), grains.Holds(raysys.GPU(1))))
//
//	func main() {
//		system.Main(func(ctx context.Context) error {
//			hello := shared.GetHelloGrainClient(protoactor.Cluster(ctx), "alice")
//			answer, err := hello.SayHello(&shared.HelloRequest{Name: "Bob"})
//			...
//		})
//	}
//
// The node takes the place of Configure, StartMember and Shutdown: a program calls none of them. Each kind is a kind of grain
// called proto.<kind>, whose grains own one actor each:
//
//	Request ── PidCache ──────────────────────────► PID ── link ──► activation ──► mailbox ──► actor
//	              │ unknown                          ▲                   ▲
//	              └── grain proto.cart/alice ────────┘                   │ spawns, poisons
//	                  placed and fenced by the registry ─────────────────┘
//
// The registry places the grain, so options of grains choose the node, and no two nodes have the actor of one identity at a time
// but for a node that has lost its lease and does not know it yet: what that actor writes to a State is refused.
//
// Rules:
//
//  1. A request is tried again when its actor, or the node of that, is gone: it runs at least once, as in proto.Actor. NoRetry
//     has one run at most once.
//  2. An actor that stops has its next request answered by a new one. What its mailbox holds is given back, behind a Stop as behind a
//     Poison: the sender hears so at once, and a request is tried again. proto.Actor drops what is behind a Stop.
//  3. State is stored with the grain. A database that an actor writes to by itself is not fenced.
//  4. An answer has no fence: it may be old after a node was evicted, unless the actor has written its State for it.
//  5. A message to another node, or an answer, has up to 4 MiB encoded. A larger one fails with raysys.ErrTooLarge.
//  6. An actor that takes messages slowly, such as one with a bounded mailbox, keeps no other of its node waiting. At most 64 MiB and
//     65,536 messages of one node wait in all, and for one such actor half of that: a request beyond fails with raysys.ErrOverloaded.
//  7. There is no gossip: consensus checks, and the gossip state of members, do not work.
package protoactor
