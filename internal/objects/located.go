package objects

import (
	"github.com/raysys/raysys/internal/core"
)

// Where the sources of this package find their values: what placement goes by.
var (
	_ core.Located = (*storedSource)(nil)
	_ core.Located = (*objectSource)(nil)
)

// Where implements core.Located.
func (s *storedSource) Where() (core.NodeKey, int64) { return core.NodeKey{}, s.size }

// Where implements core.Located. The owner may have lost it, or others may have it too; whoever fetches finds out.
func (s *objectSource) Where() (core.NodeKey, int64) {
	return s.Owner, s.Size
}
