package bus_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys/stream/internal/bus"
	"github.com/raysys/raysys/stream/internal/bustest"
)

// both has the connections of a test share one Memory, as two users do.
type both struct{ *bus.Memory }

func (both) Close() {}

func TestMemory(t *testing.T) {
	m := bus.NewMemory()
	bustest.Run(t, func(*testing.T) bus.Bus { return both{m} })
}

// TestMemoryForgets: events go when they were kept for long enough.
func TestMemoryForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := bus.NewMemory()
		if err := m.Ensure(t.Context(), bus.Config{Name: "s", Partitions: 1, Keep: time.Hour}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := m.Publish(t.Context(), "s", []bus.Message{{Key: "x"}}); err != nil {
				t.Fatal(err)
			}
			<-time.After(40 * time.Minute)
		}
		if i, _ := m.Info(t.Context(), "s"); i.Count != 2 || i.First != 2 || i.Last != 3 {
			t.Fatalf("%+v", i)
		}
	})
}
