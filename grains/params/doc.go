// Package params keeps the parameters of a model in grains, for workers that pull them, compute gradients and push
// those: a sharded parameter server.
//
//	worker ── Pull ──►  shard 0 │ shard 1 │ shard 2    each a grain with its range of the vector,
//	   │  Weights, Version          ▲                  the optimiser's memory, and a number of steps
//	   └── gradient ── Push ────────┘
//
// A Server is a kind of model, made once by Define. Get names one Model, Init gives it weights, an Optimizer and a mode:
//
//   - asynchronous (Config.Workers is 0): a push is a step, at once. Config.Staleness bounds how old the weights may be
//     that the gradient was computed on; an older one is refused with ErrStale.
//   - synchronous: a step is made when Config.Workers workers have pushed for the same version, on the mean of their
//     gradients, added up in the order of the workers' numbers: the result does not depend on their order of arrival. Push
//     returns when the step is made. A push that comes after it is refused with ErrStale, and may be one too many on
//     purpose: with more workers than Config.Workers the slowest are left out.
//
// Rules for the user:
//
//  1. Weights have a Version; a push says which version its gradient belongs to.
//  2. A worker that is lost does not make a round hang: the others' Push ends with its ctx, or after Patience. What they
//     pushed counts and stays, so they may push the same again, to go on waiting, and a worker that was started anew
//     under the same number fills the gap. Expect lets the round go on with fewer.
//  3. A shard makes its steps by itself. While workers push asynchronously, Pull may see one shard a step ahead of
//     another; a push of which one shard refuses its part is a step at the others, and PushError says at which.
//  4. A shard's weights are memory. When its node dies they are gone, and verbs return ErrNoModel: Init again, from what
//     was pulled last. A shard that has to leave its node loses them too.
//  5. Vectors that are passed in may be used again when the verb returns; those returned belong to the caller, but for
//     Cache, whose weights must not be changed.
//
// A worker:
//
//	var weights = params.Define[float32]("weights", 4)
//
//	model := weights.Get("run-7")
//	err := model.Init(ctx, start, params.Config{Optimizer: params.SGD(0.1), Workers: 8})
//	...
//	w, err := model.Pull(ctx)
//	v, err := model.Push(ctx, w.Version, worker, gradient(w.Values))
//
// It does not keep weights over the death of a node, nor cut one shard's part of a vector into several messages: give a
// large model more shards.
package params
