// Package tasks makes functions into tasks: submitted with Go, run by whichever CPU is free, answered by a future.
//
// Define turns an existing function into a typed handle. Go submits it for a value, On for a reference to a value that
// may not exist yet, Map for many values at once; With returns a handle with other options.
//
//	Go, On, Map ──► queue ──► worker (an actor that pulls) ──► your function ──► Ref
//	                  │ │           holds one CPU; gives it back while the task waits in Get
//	                  │ └─ a waiting Get runs a task that has not started in place
//	                  └─ forwarder ══► another node: when the CPUs here are taken and it has room
//
// Rules:
//
//  1. A task may run more than once when the system fails, and when RetryIf accepts its error; write it so that this
//     does no harm.
//
//  2. A task is cancelled with the context it was submitted under (Detached opts out). It learns of it through its own
//     ctx; its future does not wait for that.
//
//  3. Ids count the submissions made on a task's ctx. Goroutines of a task that submit concurrently take
//     raysys.Branch(ctx, i) each.
//
//  4. With its own ctx, a waiting task or driver may run the task it waits for on its own goroutine. Do not hold a lock
//     over a Get that the awaited task needs too.
//
// A first program has a definition and a submission:
//
//	var square = tasks.Define("square", func(ctx context.Context, x int) (int, error) { return x * x, nil })
//
//	refs := square.Map(ctx, []int{1, 2, 3})
//	values, err := raysys.GetAll(ctx, refs).Values() // 1 4 9
//
// A task that submits itself is declared first and defined in init, since Go refuses a variable whose value refers to
// it:
//
//	var fib tasks.Task[int, int]
//	func init() { fib = tasks.Define("fib", func(ctx context.Context, n int) (int, error) { ... fib.Go(ctx, n-1) ... }) }
//
// On a cluster a task is owned by the node that submitted it: its future, its argument and its retries stay there. A
// node with a free CPU keeps its tasks, but for those whose large values lie elsewhere. One that is lost with its node
// is tried again, up to raysys.Retries times, and then fails with an error that matches raysys.ErrNodeDead.
//
// A task asks for one CPU unless raysys.CPU and its siblings say otherwise. raysys.Priority says which tasks begin first, and
// raysys.Detached("name") has one outlive its driver. A task with several results puts each
// and returns their handles, []raysys.Handle[T]; who uses one of them fetches no other. Reduce joins many values in a tree.
// Package generator has tasks whose results come one by one.
package tasks
