package core

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Condition says on which nodes work is to be, as a program gives it: nodes with a label, nodes by name, or those where a value is or
// a grain is active. The latter two become names of nodes when the work is placed.
type Condition struct {
	NodeCondition
	Value *Future   // nil for none
	Grain GrainName // zero for none
}

// GrainName names a grain within its namespace.
type GrainName struct{ Kind, Key string }

func (n GrainName) String() string { return n.Kind + "/" + n.Key }

// NodeCondition is a Condition of which it is known what nodes are meant.
type NodeCondition struct {
	Label  string   // of the node; "" for the nodes named
	Values []string // one of which the label has; any where there are none
	Nodes  []NodeID // without a Label: the nodes
	Not    bool     // all other nodes
	Soft   bool     // a preference
	About  string   // what the Nodes have, for messages; "" where the program named them
}

// ErrBesideBundle is why work has no conditions in a placement group.
var ErrBesideBundle = fmt.Errorf(
	"%w: OnNode, Near, Not, Prefer and Label stand beside no bundle of a placement group, which decides on the node: give one or the other",
	ErrBadOption)

// ErrCapturesAlone is why work outside a placement group captures nothing.
var ErrCapturesAlone = fmt.Errorf(
	"%w: CaptureChildren stands beside Group.Bundle or Group.AnyBundle: what work outside a group submits is its own affair", ErrBadOption)

// Conditional reports whether the options say on which nodes the work is to be.
func (o *Options) Conditional() bool { return len(o.Labels) > 0 || len(o.Conditions) > 0 }

// Want adds a condition. Of hard ones on the same label, or on names of nodes, the last counts.
func (o *Options) Want(c Condition) {
	o.Unwant(c)
	o.Conditions = append(slices.Clip(o.Conditions), c)
}

// Unwant removes the condition which c replaces.
func (o *Options) Unwant(c Condition) {
	if len(o.Conditions) == 0 {
		return
	}
	label, replaces := c.replaces()
	kept := make([]Condition, 0, len(o.Conditions)) // a new list: an Option kept and used again shares nothing
	for _, old := range o.Conditions {
		if at, ok := old.replaces(); !replaces || !ok || at != label {
			kept = append(kept, old)
		}
	}
	o.Conditions = kept
}

// replaces reports whether c is one of which there is but one: on the label, or, where that is "", on names of nodes.
func (c *Condition) replaces() (label string, ok bool) {
	return c.Label, !c.Not && !c.Soft && c.Value == nil && c.Grain == GrainName{}
}

// Named returns what only gives conditions has asked for, and false where it asked for other things, or for nothing.
func (o *Options) Named() (list []Condition, ok bool) {
	for _, key := range slices.Sorted(maps.Keys(o.Labels)) {
		list = append(list, Condition{NodeCondition: NodeCondition{Label: key, Values: []string{o.Labels[key]}}})
	}
	list = append(list, o.Conditions...)
	rest := *o
	rest.Labels, rest.Conditions = nil, nil
	return list, len(list) > 0 && reflect.DeepEqual(rest, Options{})
}
