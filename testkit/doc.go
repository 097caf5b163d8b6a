// Package testkit runs raysys inside a test: one node, a cluster of them in one process, or real processes on a real Consul,
// with every fault that a cluster meets, and with assertions about what has to hold all the same.
//
//	                          ┌── New(t)                one node
//	test goroutine ── Kit ────┤── New(t, Nodes(3))      n1 n2 n3 on a network and a store in memory
//	      ▲            │      └── Virtual(t, f, ...)    either, in virtual time
//	      │            └── Cluster ── Kill Restart Pause Cut Split Delay Drop ClockJump StoreDown ExpireSession Drain
//	      │
//	      ├── Procs ── Processes(t, 3)                  p1 p2 p3: Kill (SIGKILL) Pause (SIGSTOP) Terminate (SIGTERM)
//	      │            └── Consul(t)                    a real server: Kill Start Pause
//	      ├── NATS(t, NATSServers(3))                   real NATS servers: Kill(i) Start(i) Pause(i)
//	      │
//	      ├── Probe: Expect, ExpectNone, Fish ◄── Put ── your code
//	      └── SingleActivation, Linearizable, NoOrphans, Eventually
//
// Every Kit is strict: each argument, result and object goes through the codec, as it would between nodes, so a test
// in one process sees what a cluster would do; a value that is changed after it was handed over is reported with its
// place; and when the test ends, a goroutine that a task left behind is reported with its stack. Loose turns the
// first two off, for benchmarks.
//
//	func TestCounterSurvives(t *testing.T) {
//		k := testkit.New(t, testkit.Nodes(3))
//		ctx := k.Context()
//		if _, err := add.Call(ctx, counters.Get("alice"), 5).Get(ctx); err != nil {
//			t.Fatal(err)
//		}
//		k.Cluster().Kill(2)
//		got, err := read.Idempotent().Call(ctx, counters.Get("alice")).Get(ctx) // wherever it lives now
//		if got != 5 || err != nil {
//			t.Fatal(got, err)
//		}
//	}
//
// Rules for the user:
//
//  1. The test's own node hosts nothing: what it submits runs on n1, n2, ... In faults it is number 0.
//  2. Faults last until Heal or the end of the test. Kill is for good: Restart begins a new incarnation, which is also what a
//     node does by itself when it was fenced.
//  3. In one process a killed node's work is cancelled, not stopped in the middle of an instruction, and a paused node goes on
//     by itself: only what it sends and hears is held. Processes have the real thing.
//  4. A package with Processes begins its TestMain with Main or Child, and its functions are in the process-wide table.
//  5. In Virtual, failures belong to Kit.T.
//
// The seed of a run is logged, and RAYSYS_TESTKIT_SEED=n repeats it: task ids, raysys.Rand, Kit.Rand and the draws about
// frames. With RAYSYS_TESTKIT_SEEDS=testdata/seeds the seed that a test fails with is kept in that folder, where it can
// matter (in virtual time, or where the test drew from Kit.Rand or Kit.Seed), and tried first from then on: Virtual runs
// all of them and then a new one, New runs the latest until its line is removed. In virtual time a seed repeats the faults
// and their order, not the order in which the scheduler runs what is ready.
//
// Processes and Consul need a Consul binary: go run github.com/raysys/raysys/testkit/consul -o bin/consul builds one, in any
// module that requires raysys. It is found in bin/ of the module or of a folder above it, and in PATH. NATS needs a NATS server:
// go run github.com/raysys/raysys/testkit/nats -o bin/nats-server.
//
// RAYSYS_LOG=debug shows what the nodes log.
//
// GPUs are made up: Each gives a node some by Resources.GPU or Devices of its system.Config, and by DeviceSource some that fall sick.
package testkit
