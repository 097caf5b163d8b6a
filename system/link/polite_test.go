package link_test

import (
	"testing"
	"time"

	"github.com/raysys/raysys/system/link"
)

// TestPolite: while there are calls the processor is offered at each cut if that costs little, and else for at most a
// fifth of the time; without calls never.
func TestPolite(t *testing.T) {
	const run, cut = 100 * time.Millisecond, 100 * time.Microsecond
	if n := link.Offers(run, cut, 0, 0); n != 1000 {
		t.Errorf("%d offers that cost nothing in 1000 cuts", n)
	}
	if n := link.Offers(run, cut, 20*time.Microsecond, 0); n < 400 {
		t.Errorf("%d offers to short frames", n)
	}
	if n := link.Offers(run, cut, 3*time.Millisecond, 0); n < 5 || n > 7 {
		t.Errorf("%d offers of 3 ms in 100", n)
	}
	if n := link.Offers(run, cut, 0, 2*time.Second); n != 0 {
		t.Errorf("%d offers though nobody calls", n)
	}
}
