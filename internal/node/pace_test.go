package node

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	var p Pace
	p.Saw(1000, time.Microsecond) // too small to tell anything
	p.Saw(100<<20, 0)
	if got := p.Bandwidth(); got != 0 {
		t.Fatalf("nothing has come, and it is %d", got)
	}
	p.Saw(100<<20, 100*time.Millisecond)
	first := p.Bandwidth()
	if first != 1000<<20 {
		t.Fatalf("%d after one object", first)
	}
	p.Saw(100<<20, 110*time.Millisecond)
	if got := p.Bandwidth(); got != first {
		t.Errorf("a small change is told: %d", got)
	}
	for range 20 {
		p.Saw(100<<20, time.Second)
	}
	if got := p.Bandwidth(); got < 90<<20 || got > 135<<20 {
		t.Errorf("%d after many at %d", got, 100<<20)
	}
}
