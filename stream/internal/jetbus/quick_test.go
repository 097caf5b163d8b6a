package jetbus_test

import (
	"testing"

	"github.com/raysys/raysys/stream/internal/bus"
	"github.com/raysys/raysys/stream/internal/bustest"
	"github.com/raysys/raysys/stream/internal/jetbus"
)

func TestJetStream(t *testing.T) {
	bustest.Run(t, func(t *testing.T) bus.Bus {
		b, err := jetbus.Open(jetbus.Config{URL: "nats://127.0.0.1:24222", Token: "t"})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}
