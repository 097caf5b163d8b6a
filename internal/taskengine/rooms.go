package taskengine

import (
	"cmp"
	"slices"

	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/loadreport"
)

// rooms is ledger.Line.Rooms, for loadreport.ReadRooms; "" for none. It says of loadreport.MaxRooms bundles at most, of those first that have sick devices: where that is
// not known work would come, and be given back, again and again.
func (e *Engine) rooms() string {
	list := e.line.Rooms()
	if len(list) == 0 {
		return ""
	}
	slices.SortFunc(list, func(a, b ledger.Room) int {
		return cmp.Or(b.Sick()-a.Sick(), cmp.Compare(a.Bundle.Group, b.Bundle.Group), a.Bundle.Index-b.Bundle.Index)
	})
	return loadreport.EncodeRooms(list[:min(len(list), loadreport.MaxRooms)])
}
