// Package raysys is Ray for Go on virtual actors: a program defines tasks (stateless functions) and grains (stateful
// virtual actors), every call returns a typed future at once, and the runtime places the work and moves the values.
//
// This package is the vocabulary the others share: the reference and the verbs on it, options, errors, ids.
//
//	                 Go, On, Map                        Get, Wait
//	your code ──► tasks  ──────────► Ref[T] ◄──────────────────── your code
//	         └──► grains ──────────►   │
//	          Call, On                 └─► an argument of the next task or call
//
// The nouns:
//
//   - A Ref[T] refers to a value that exists now or later. Get waits for it; PhaseOf tells how it stands without
//     fetching it; a Ref inside a task's argument is a dependency that the task waits for before it takes a CPU; a
//     Handle[T] is a Ref that is passed on without being waited for.
//   - A Table is the set of functions that may be called. Define fills the one of the process.
//   - A Job is one run of a driver; task ids derive from it and from the order of submissions, so a run with a fixed
//     seed repeats.
//
// What you must keep to:
//
//  1. Pass the ctx you were given. It carries the runtime, the deadline, the cancellation and the values of Key; values
//     of context.WithValue do not reach the task. Without a runtime in ctx everything fails with ErrNoRuntime.
//  2. Do not change what you handed over: arguments, results and Put values are handed over inside a process, and
//     copied between processes. The testkit finds a program that does.
//
// A program, whole:
//
//	var square = tasks.Define("square", func(ctx context.Context, x int) (int, error) { return x * x, nil })
//
//	func main() {
//		system.Main(func(ctx context.Context) error {
//			v, err := square.Go(ctx, 7).Get(ctx)
//			fmt.Println(v, err) // 49 <nil>
//			return err
//		})
//	}
//
// The same program runs alone in its process or, with RAYSYS_CONSUL set, as a node of a cluster: package system says
// how. Tasks then run on any node, and each grain lives on one node and is found from all. The node is chosen by load,
// resources, where large arguments lie, or the strategy of a task or kind (Placement). Conditions keep work to nodes, or away
// from them, by name (OnNode), by Label, or by where a value or a grain is (Near, grains.Near):
//
//	square.With(raysys.Label("zone", "east", "west"), raysys.Not(raysys.Near(replica)), raysys.Prefer(grains.Near(learner)))
//
// A value above 64 KiB is an object: it stays where it was made until another node needs it (Put, View, Named, Replicas). What a grain keeps
// in a grains.State survives its activation: in the cluster's store or, without a cluster, in a folder or in memory.
package raysys
