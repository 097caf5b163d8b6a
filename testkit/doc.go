// Package testkit runs raysys inside a test, without a cluster and without sleeping.
//
// New starts a node that ends with the test; Virtual does the same in virtual time, where a passivation after 15
// minutes or a deadline of 30 seconds takes no time at all. A Probe catches what the code under test emits.
//
//	test goroutine ──── New / Virtual ────► Kit ── Context ──► tasks, grains
//	      ▲                                  │
//	      └── Expect, ExpectNone, Fish ── Probe ◄── Put ──────── your code
//
// Every Kit is strict: each argument, result and object goes through the codec, as it would between nodes, so a test
// in one process sees what a cluster would do; a value that is changed after it was handed over is reported with its
// place; and when the test ends, a goroutine that a task left behind is reported with its stack. Loose turns the
// first two off, for benchmarks.
//
// The seed of a run is logged; RAYSYS_TESTKIT_SEED=n repeats it: task ids, raysys.Rand and Kit.Rand.
//
//	func TestCounter(t *testing.T) {
//		k := testkit.New(t)
//		ctx := k.Context()
//		got, err := add.Call(ctx, counters.Get("alice"), 5).Get(ctx)
//		if got != 5 || err != nil {
//			t.Fatal(got, err)
//		}
//	}
//
// It does not start several nodes or processes yet, and injects no faults.
package testkit
