package testkit_test

import (
	"flag"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/testkit"
)

// withSeeds runs a test that draws, as a subtest: with one fixed seed, and in the long form with a hundred.
func withSeeds(t *testing.T, name string, f func(t *testing.T, seed testkit.Option)) {
	t.Helper()
	for n := range uint64(long.Form(1, 100)) {
		t.Run(fmt.Sprint(name, "/seed=", n+1), func(t *testing.T) { f(t, testkit.Seed(n+1)) })
	}
}

// seedOfForm is one fixed seed in the short form, and a random one in the long form.
func seedOfForm() testkit.Option { return testkit.Seed(long.Form(uint64(1), 0)) }

// drawsOfForm has rapid draw so many cases: in the short form from one fixed seed, in the long form from a random one.
// What the command line says goes before that.
func drawsOfForm(t *testing.T, short, full int) {
	t.Helper()
	set := func(name, value string) {
		f := flag.Lookup(name)
		if f.Value.String() != f.DefValue {
			return
		}
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = flag.Set(name, f.DefValue) })
	}
	set("rapid.checks", strconv.Itoa(long.Form(short, full)))
	set("rapid.seed", long.Form("1", "0"))
}

// waitLimit is how long work may wait beside room that it could have. The long form wants the 50 ms that the documents promise: a
// change is reported within 20 ms, a node with work that waits looks each 10 ms, and what moves is placed again within 5 ms (ADR
// 0043). The short form wants what holds where each of these is late: what was sent to a node is taken off its room for 300 ms at
// most, and each node reports and looks at its ticks of 100 ms. Without all that, work waits until other work ends.
func waitLimit() time.Duration { return long.Form(500*time.Millisecond, 50*time.Millisecond) }

// slower is how many times as long drawn work lasts in the short form, and the pauses between: work that waits until other work
// ends then waits for longer than waitLimit.
func slower() time.Duration { return long.Form[time.Duration](5, 1) }

// yieldLimit is how long work may wait for what idle grains hold: its node asks them to yield each 100 ms. Else they
// keep it until they have been idle for 15 minutes.
func yieldLimit() time.Duration { return long.Form(10*time.Second, time.Second) }
