package placing

import (
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/ledger"
)

// TestNameModels: the devices of a bundle get the models of those that its node has under their numbers. What a report says that the
// record does not have stays unknown.
func TestNameModels(t *testing.T) {
	devices := func(n int) *ledger.Report { return &ledger.Report{Devices: make([]ledger.FreeDevice, n)} }
	rooms := []ledger.Room{
		{Rest: devices(2), Numbers: []int{2, 0}},
		{Rest: devices(1)}, // it says no numbers
		{Rest: devices(1), Numbers: []int{7, 0}},
	}
	nameModels(rooms, []raysys.Device{{Model: "L4"}, {Model: "A100"}, {Model: "H100"}})
	for i, want := range [][]string{{"H100", "L4"}, {""}, {""}} {
		for k, d := range rooms[i].Rest.Devices {
			if d.Model != want[k] {
				t.Errorf("device %d of bundle %d is an %q, want %q", k, i, d.Model, want[k])
			}
		}
	}
}
