package system

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	var p pace
	p.saw(1000, time.Microsecond) // too small to tell anything
	p.saw(100<<20, 0)
	if got := p.bandwidth(); got != 0 {
		t.Fatalf("nothing has come, and it is %d", got)
	}
	p.saw(100<<20, 100*time.Millisecond)
	first := p.bandwidth()
	if first != 1000<<20 {
		t.Fatalf("%d after one object", first)
	}
	p.saw(100<<20, 110*time.Millisecond)
	if got := p.bandwidth(); got != first {
		t.Errorf("a small change is told: %d", got)
	}
	for range 20 {
		p.saw(100<<20, time.Second)
	}
	if got := p.bandwidth(); got < 90<<20 || got > 135<<20 {
		t.Errorf("%d after many at %d", got, 100<<20)
	}
}
