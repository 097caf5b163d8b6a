package taskengine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/loadreport"
)

// TestSickRoomsAreSaid: of more bundles than a report has those with sick devices are in it.
func TestSickRoomsAreSaid(t *testing.T) {
	const bundles = loadreport.MaxRooms + 1
	var e Engine
	e.line.Init(ledger.Need{}, ledger.Unnamed(bundles*ledger.Unit), ledger.Hooks{
		Queue: func() (pushed, popped uint64) { return 0, 0 }, Now: func() int64 { return 0 }, Freed: func() {},
		Above: func(ledger.Standing) (above, less bool) { return false, false },
	})
	parts := make([]ledger.Part, bundles)
	for i := range parts {
		parts[i] = ledger.Part{Name: core.Bundle{Group: "g", Index: i}, Need: ledger.Need{GPU: ledger.Unit}}
	}
	if _, _, short := e.line.Carve(parts...); !short.Empty() {
		t.Fatal("the bundles have no room")
	}
	e.line.SetSick(fmt.Sprint(bundles-1), true)
	list, err := loadreport.ReadRooms(e.rooms())
	if err != nil || len(list) != loadreport.MaxRooms {
		t.Fatalf("%d bundles are reported, of %d: %v", len(list), bundles, err)
	}
	if sick := slices.IndexFunc(list, func(r ledger.Room) bool { return r.Sick() == 1 }); sick != 0 {
		t.Errorf("the bundle whose device is sick is at %d of the report", sick)
	}
}
