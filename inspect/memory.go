package inspect

import (
	"time"

	"github.com/raysys/raysys"
)

// Memory is the contents of a cluster's object stores.
type Memory struct {
	Cluster string       `json:"cluster"`
	Nodes   []NodeMemory `json:"nodes"`
}

// NodeMemory is the object store of one node. Sizes are in bytes.
type NodeMemory struct {
	Name        raysys.NodeID `json:"name"`
	Incarnation uint64        `json:"incarnation"`
	Store       ObjectStats   `json:"store"`
	Transfer    TransferStats `json:"transfer"`
	Count       int           `json:"count"`    // of objects, also those that were left out
	Bytes       int64         `json:"bytes"`    // of all of them
	Exported    int           `json:"exported"` // futures of this node that others hold, small ones too
	Objects     []HeldObject  `json:"objects"`  // the largest first
	Error       string        `json:"error,omitempty"`
}

// HeldObject is one object on one node: its holders, and why it is there.
type HeldObject struct {
	ID      string                `json:"id"`
	Size    int64                 `json:"size"`
	Memory  int64                 `json:"memory"` // counted against the node's budget
	Forms   []string              `json:"forms"`  // in which it is there; none: it is referred to, and not fetched
	Primary bool                  `json:"primary"`
	Pins    int                   `json:"pins"`
	Users   int                   `json:"users"` // views, and transfers that read or write it
	Since   time.Time             `json:"since"`
	Why     string                `json:"why"`               // what brought it here: put, result of a function, received, attached, recovered
	Owner   raysys.NodeID         `json:"owner,omitempty"`   // of a copy or reference: whose object it is
	Refs    int                   `json:"refs,omitempty"`    // references here to an object of another node
	Holders map[raysys.NodeID]int `json:"holders,omitempty"` // nodes that hold references to an object of this one, and how many
	Names   []string              `json:"names,omitempty"`
	KeptFor raysys.NodeID         `json:"kept_for,omitempty"` // the node that asked for this replica
	Kept    []raysys.NodeID       `json:"kept,omitempty"`     // nodes that keep replicas for this one
	Missing int                   `json:"missing,omitempty"`  // replicas that raysys.Replicas asks for, and that no node keeps
	Lost    string                `json:"lost,omitempty"`
	Files   []raysys.NodeID       `json:"files,omitempty"` // nodes that have it in a file that outlives them
}
