package shardlog_test

import (
	"testing"

	"github.com/raysys/raysys/internal/eventually"
)

// waitFor waits for a condition that no event announces.
func waitFor(t testing.TB, what string, cond func() bool) {
	t.Helper()
	eventually.Holds(t, patience, what, cond)
}
