// Package eventually waits in tests for facts that nothing announces. Where there is an event, wait for that.
package eventually

import (
	"testing"
	"time"
)

// Holds waits until cond holds, and fails the test with what when it does not within limit.
func Holds(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
