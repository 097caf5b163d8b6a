package testkit_test

import (
	"testing"

	"github.com/raysys/raysys/testkit"
)

// TestServerThatStartsAgain: a server that is older than the test's Kit ends after it, and what the test starts again of it meanwhile is
// no goroutine that was left behind.
func TestServerThatStartsAgain(t *testing.T) {
	consul := testkit.Consul(t)
	nats := testkit.NATS(t)
	testkit.New(t)
	nats.Kill(1)
	nats.Start(1)
	consul.Kill()
	consul.Start()
}
