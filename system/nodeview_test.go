package system_test

import (
	"testing"
	"time"

	"github.com/raysys/raysys/system"
)

// TestOneLook: where reports come faster than a node looks where its waiting work could go, the looks do not pile up, and one follows the last
// report.
func TestOneLook(t *testing.T) {
	f := newFleet(t)
	w, _ := f.place("w", system.Worker)
	if goroutines, followed := system.LooksBeside(w, 1000); goroutines > 100 || followed == 0 {
		t.Errorf("1000 looks beside one that was under way took %d goroutines, and %d looks followed", goroutines, followed)
	}
}

// TestSeenOffAndStays: a grain that another node has room for, and that begins here after all, keeps that room from others for a moment only.
func TestSeenOffAndStays(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.join("w", system.Worker, func(c *system.Config) { c.Resources.Memory = 1 << 20 })
		n, _ := b.join("n", system.Worker, func(c *system.Config) { c.Resources.Memory = 0 })
		<-time.After(time.Second)
		if first, second := system.SeesOff(n, "a", 1<<20), system.SeesOff(n, "b", 1<<20); !first || second {
			b.t.Fatalf("of two grains that there is room for one of, the first is seen off: %v, the second: %v", first, second)
		}
		<-time.After(150 * time.Millisecond) // it looks at ticks, 100 ms apart
		if !system.SeesOff(n, "b", 1<<20) {
			b.t.Error("the room is kept for a grain that did not leave")
		}
	})
}
