package operate

import (
	"testing"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/placement"
)

// TestDecisionsAreBounded: a node remembers its last decisions, in their order, and no more of them.
func TestDecisionsAreBounded(t *testing.T) {
	var d Decisions
	job := core.TaskID{Hi: 1, Lo: 2}
	for i := range 3*keptDecisions + 7 {
		d.Task(job.Child(uint64(i)), "f", placement.Decision{Node: "a"})
		if i%100 == 0 {
			d.Placed(graindir.ID{Kind: "kind", Key: "key"}, placement.Decision{Node: "b"})
		}
	}
	if len(d.ring) != keptDecisions || cap(d.ring) > 2*keptDecisions {
		t.Errorf("%d decisions are remembered, with room for %d", len(d.ring), cap(d.ring))
	}
	last := uint64(3*keptDecisions + 6)
	if list := d.of(job.Child(last).String(), "n"); len(list) != 1 || list[0].Placed[0].Node != "a" || list[0].Placed[0].By != "n" {
		t.Errorf("the last decision: %v", list)
	}
	if list := d.of(job.Child(last-keptDecisions).String(), "n"); list != nil {
		t.Errorf("an old decision: %v", list)
	}
	of := d.of("kind/key", "n")
	if len(of) < 10 || len(of) > 11 {
		t.Errorf("a grain was placed %d times in the last %d decisions", len(of), keptDecisions)
	}
	for i := range of[1:] {
		if of[i+1].Placed[0].Time.Before(of[i].Placed[0].Time) {
			t.Errorf("decision %d is older than that before it", i+1)
		}
	}
}
