package ppo

import (
	"encoding/binary"
	"fmt"

	"github.com/raysys/raysys/rl"
)

// counters are how many numbers of a checkpoint are no float32.
const counters = 4

// MarshalBinary has the Model and the state, which is all that the next update depends on: parameters, optimizers, counters, seed. The trajectories that are
// kept for the next update are not in it: a learner that goes on has them collected anew.
func (l *learner) MarshalBinary() ([]byte, error) {
	order, model := binary.LittleEndian, l.Model()
	b := append(binary.AppendUvarint(nil, uint64(len(model))), model...)
	for _, n := range [counters]uint64{l.seed, uint64(l.updates), uint64(l.policy.Adam.Steps), uint64(l.value.Adam.Steps)} {
		b = order.AppendUint64(b, n)
	}
	for _, list := range l.lists() {
		var err error
		if b, err = binary.Append(b, order, list); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// UnmarshalBinary refuses a checkpoint of another Model, with rl.ErrModel, and one that is not whole. It drops the trajectories that were kept.
func (l *learner) UnmarshalBinary(b []byte) error {
	n, at := binary.Uvarint(b)
	if at <= 0 || n > uint64(len(b)-at) {
		return fmt.Errorf("ppo: %d bytes are no checkpoint", len(b))
	}
	model, b := string(b[at:at+int(n)]), b[at+int(n):]
	if model != l.Model() {
		return fmt.Errorf("a checkpoint of %q for %q: %w", model, l.Model(), rl.ErrModel)
	}
	next := state{policy: l.policy.Clone(), value: l.value.Clone()}
	want := 8 * counters
	for _, list := range next.lists() {
		want += 4 * len(list)
	}
	if len(b) != want {
		return fmt.Errorf("ppo: a checkpoint of %q has %d bytes of numbers, want %d", model, len(b), want)
	}
	var n4 [counters]uint64
	at, err := binary.Decode(b, binary.LittleEndian, &n4)
	for _, list := range next.lists() {
		if err != nil {
			return err
		}
		b = b[at:]
		at, err = binary.Decode(b, binary.LittleEndian, list)
	}
	next.seed, next.updates, next.policy.Adam.Steps, next.value.Adam.Steps = n4[0], int(n4[1]), int(n4[2]), int(n4[3])
	l.state, l.pile, l.piled = next, nil, 0
	return err
}

func (s *state) lists() [][]float32 {
	return [][]float32{s.policy.Params, s.policy.Adam.M, s.policy.Adam.V, s.value.Params, s.value.Adam.M, s.value.Adam.V}
}
