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

// TestMemoryForgetsIDs: an ID is known for two minutes, as JetStream knows it, also of an event that is kept for longer; and for Keep where that is
// shorter.
func TestMemoryForgetsIDs(t *testing.T) {
	for keep, known := range map[time.Duration]time.Duration{0: 2 * time.Minute, time.Hour: 2 * time.Minute, time.Minute: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			m := bus.NewMemory()
			if err := m.Ensure(t.Context(), bus.Config{Name: "s", Partitions: 1, Keep: keep}); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				after time.Duration
				want  uint64
			}{{0, 1}, {known - time.Second, 1}, {2 * time.Second, 2}, {known - time.Second, 2}} {
				<-time.After(c.after)
				if seq, err := m.Publish(t.Context(), "s", []bus.Message{{Key: "x", ID: "one"}}); err != nil || seq != c.want {
					t.Fatal(keep, c, seq, err)
				}
			}
		})
	}
}
