package wire

import "github.com/raysys/raysys/internal/core"

// Fill makes as many turns open as may be.
func (s *Turns) Fill() {
	s.turns = make(map[uint32]*core.Turn, maxTurns)
	for i := range uint32(maxTurns) {
		s.turns[i] = nil
	}
}
