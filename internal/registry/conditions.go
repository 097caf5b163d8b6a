package registry

import (
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
)

// Conditions are conditions as placement takes them.
func Conditions(list []core.NodeCondition) (out []placement.Condition) {
	for _, c := range list {
		out = append(out, placement.Condition(c))
	}
	return out
}

// maxConditions bounds the conditions of one request, and the values and nodes of one of them.
const maxConditions = 1024

const (
	conditionNot = 1 << iota
	conditionSoft
)

func appendConditions(dst []byte, list []placement.Condition) []byte {
	dst = wire.AppendUvarint(dst, uint64(len(list)))
	for _, c := range list {
		flags := uint64(0)
		if c.Not {
			flags |= conditionNot
		}
		if c.Soft {
			flags |= conditionSoft
		}
		dst = wire.AppendBytes(wire.AppendBytes(wire.AppendUvarint(dst, flags), c.Label), c.About)
		dst = appendNames(appendNames(dst, c.Values), c.Nodes)
	}
	return dst
}

func appendNames[S ~string](dst []byte, list []S) []byte {
	dst = wire.AppendUvarint(dst, uint64(len(list)))
	for _, s := range list {
		dst = wire.AppendBytes(dst, s)
	}
	return dst
}

func readConditions(r *wire.Reader) ([]placement.Condition, error) {
	n := r.Count(5)
	if n > maxConditions {
		return nil, fmt.Errorf("%w: %d conditions", wire.ErrCorrupt, n)
	}
	list := make([]placement.Condition, n)
	for i := range list {
		flags := r.Uvarint()
		c := &list[i]
		c.Not, c.Soft = flags&conditionNot != 0, flags&conditionSoft != 0
		c.Label, c.About = r.String(), r.String()
		c.Values, c.Nodes = readNames[string](r), readNames[raysys.NodeID](r)
	}
	return list, r.Err()
}

func readNames[S ~string](r *wire.Reader) (list []S) {
	for range r.Count(1) {
		list = append(list, S(r.String()))
	}
	return list
}
