// Package chaos is the command raysys-lab chaos: a mixed program on a cluster that faults happen to, round after round, and
// models that say what the program may have been told.
//
//	seed ──► plan of faults (testkit.DrawPlan) ──► cluster in virtual time, or processes ◄── workloads: clients, each with
//	  │                                                    │                                     a model of its answers
//	  └────► draws of the clients                          └──► healed, at rest: members, counts, stores, logs
//
// A [workload] is one part of the program with its laws. To add one, write a file with a function that defines its tasks
// and grains in a table and returns it, and name the function in workloads.
//
// A round runs in a process of its own (Child): what hangs is killed, and what panics is a failure of its round alone. The
// seed repeats the plan and the draws of each client, not the order in which the scheduler runs what is ready, nor when the
// collector runs: a round that failed may need a few tries to fail again.
package chaos
