package system_test

import (
	"testing"

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
