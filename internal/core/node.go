package core

import "fmt"

// NodeKey is one incarnation of a node: its life between a start and its end. A node that starts anew under the same
// name has another. The zero NodeKey is no node.
type NodeKey struct {
	Node        NodeID
	Incarnation uint64
}

func (k NodeKey) String() string { return fmt.Sprintf("%s (incarnation %d)", k.Node, k.Incarnation) }
