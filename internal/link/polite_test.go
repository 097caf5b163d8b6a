package link_test

import (
	"testing"
	"time"

	"github.com/raysys/raysys/internal/link"
)

// TestPolite: while there are calls the processor is offered at each short cut, and to whoever computes for at most half
// of the time. Soon after the last call cuts are long, and nothing is offered.
func TestPolite(t *testing.T) {
	const (
		kib = 1 << 10
		run = 100 * time.Millisecond
		cut = 100 * time.Microsecond
	)
	for _, c := range []struct {
		name    string
		cost    time.Duration
		since   time.Duration
		calling bool
		least   int // offers
		most    int
		longest int
	}{
		{"they cost nothing", 0, 0, true, 1000, 1000, 128 * kib},
		{"short frames", 20 * time.Microsecond, 0, true, 833, 834, 128 * kib},
		{"others who send as well", 300 * time.Microsecond, 0, true, 250, 250, 128 * kib},
		{"somebody computes", 3 * time.Millisecond, 0, true, 16, 17, 128 * kib},
		{"the calls end", 0, 0, false, 100, 102, 1024 * kib},
		{"nobody calls", 0, time.Second, false, 0, 0, 1024 * kib},
	} {
		n, longest := link.Offers(run, cut, c.cost, c.since, c.calling)
		if n < c.least || n > c.most || longest != c.longest {
			t.Errorf("%s: %d offers and cuts of up to %d bytes, want %d to %d and %d", c.name, n, longest, c.least, c.most, c.longest)
		}
	}
}
