package taskengine_test

import (
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
)

// TestForwarderEnds: the forwarder of peers that are all gone takes no wake along that is for the one of those that
// have come since: tasks would wait for ever.
func TestForwarderEnds(t *testing.T) {
	n, _ := nodetest.Node(t, raysys.NewTable(), 1)
	for range 100 {
		if engineOf(n).StopForwarder() {
			t.Fatal("a forwarder ended with the wake of the next one, which sleeps on beside a queue that is not empty")
		}
	}
}
