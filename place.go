package raysys

import (
	"fmt"
	"strings"

	"github.com/raysys/raysys/internal/core"
)

// Strategy names the rule by which the cluster chooses among the nodes that can take a piece of work. Beside those
// below there may be strategies of your own, by the name you registered them under.
type Strategy string

const (
	// Balanced is the default: of two nodes drawn at random the less busy one (the shorter estimated queueing time,
	// then fewer grains for its size). It stays even when many place at the same time without knowing of each other.
	Balanced Strategy = "balanced"
	// PreferLocal stays on the node that asks while that node can take it and is not much busier than another.
	PreferLocal Strategy = "prefer-local"
	// ByHash gives equal keys the same node for as long as the node is there, whatever their kind: grains that talk to
	// each other under one key live together.
	ByHash Strategy = "hash"
	// Spread takes the node with the least of this work, whatever its size.
	Spread Strategy = "spread"
)

// Placement chooses the strategy by which a task gets its node, or by which a call places its grain, where it is the
// call that places it. Unless set it is Balanced, or the strategy of the kind. For tasks and calls; grains.Placement
// is that of a kind.
func Placement(s Strategy) Option {
	return func(o *core.Options) {
		if s == "" {
			o.Fail(fmt.Errorf("%w: Placement(%q): name a strategy, such as raysys.Spread", ErrBadOption, s))
			return
		}
		o.Strategy = string(s)
	}
}

// Label keeps a task, or the grain that a call places, to nodes that carry the label key, with exactly one of these values; with any
// where none is given. Several labels must all match. For tasks and calls; grains.Label is that of a kind. It is a condition: see OnNode.
func Label(key string, values ...string) Option {
	return func(o *core.Options) {
		if key == "" {
			o.Fail(fmt.Errorf("%w: Label(%q, %q): a label needs a key", ErrBadOption, key, strings.Join(values, ", ")))
			return
		}
		m := map[string]string{} // a new map: an Option kept and used again shares nothing
		for k, v := range o.Labels {
			if k != key {
				m[k] = v
			}
		}
		c := core.Condition{NodeCondition: core.NodeCondition{Label: key, Values: values}}
		if len(values) != 1 {
			o.Labels = m
			o.Want(c)
			return
		}
		o.Unwant(c)
		m[key] = values[0]
		o.Labels = m
	}
}
