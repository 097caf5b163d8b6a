package dqn

import (
	"bytes"
	"encoding/gob"
	"fmt"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/net"
)

// checkpoint is all that a learner knows. Settings are not in it: a run may go on with others.
type checkpoint struct {
	Model                string
	Steps                int
	Params, Target, M, V []float32
}

func (l *learner) MarshalBinary() ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(checkpoint{l.Model(), l.adam.Steps, l.params, l.target, l.adam.M, l.adam.V})
	return b.Bytes(), err
}

func (l *learner) UnmarshalBinary(data []byte) error {
	var c checkpoint
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&c); err != nil {
		return fmt.Errorf("dqn: it is no checkpoint of a learner: %w", err)
	}
	if c.Model != l.Model() {
		return fmt.Errorf("%w: the checkpoint is of %q, and the learner of %q", rl.ErrModel, c.Model, l.Model())
	}
	size, means := l.net.Size(), l.net.Size()
	if c.Steps == 0 {
		means = 0 // Adam makes them at its first step
	}
	if c.Steps < 0 || len(c.Params) != size || len(c.Target) != size || len(c.M) != means || len(c.V) != means {
		return fmt.Errorf("%w: the checkpoint of %q is damaged", rl.ErrModel, c.Model)
	}
	l.params, l.target, l.adam = c.Params, c.Target, net.Adam{M: c.M, V: c.V, Steps: c.Steps}
	return nil
}
