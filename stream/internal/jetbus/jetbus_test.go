package jetbus_test

import (
	"testing"

	"github.com/raysys/raysys/stream/internal/bus"
	"github.com/raysys/raysys/stream/internal/bustest"
	"github.com/raysys/raysys/stream/internal/jetbus"
	"github.com/raysys/raysys/testkit"
)

// TestJetStream runs on one real server and on three.
func TestJetStream(t *testing.T) {
	for name, servers := range map[string]int{"one server": 1, "three servers": 3} {
		t.Run(name, func(t *testing.T) {
			s := testkit.NATS(t, testkit.NATSServers(servers), testkit.NATSToken("a secret"))
			bustest.Run(t, func(t *testing.T) bus.Bus {
				b, err := jetbus.Open(jetbus.Config{URL: s.URL()})
				if err != nil {
					t.Fatal(err)
				}
				return b
			})
		})
	}
}
