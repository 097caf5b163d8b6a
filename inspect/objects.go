package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/raysys/raysys"
)

// Objects is a Memory as raysys list objects shows it: the stores, and the largest objects of all of them. Sizes are in bytes.
type Objects struct {
	Cluster string        `json:"cluster"`
	Stores  []StoreStatus `json:"stores"`
	Objects []NodeObject  `json:"objects"` // the largest first, as many as were asked for
	Total   ObjectTotal   `json:"total"`
}

// ObjectTotal counts all objects, also those that are not listed.
type ObjectTotal struct {
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"`
	Listed  int   `json:"listed"`
}

// StoreStatus is the object store of one node.
type StoreStatus struct {
	Node        raysys.NodeID `json:"node"`
	Incarnation uint64        `json:"incarnation"`
	Objects     int           `json:"objects"` // those that are referred to and not there among them
	Bytes       int64         `json:"bytes"`
	Used        int64         `json:"used"`   // memory, of Budget
	Budget      int64         `json:"budget"` // of memory
	Warm        int64         `json:"warm"`   // of Used, for the next objects that come
	Disk        int64         `json:"disk"`   // in spill files
	Spilled     uint64        `json:"spilled"`
	Restored    uint64        `json:"restored"`
	Dropped     uint64        `json:"dropped"`  // copies that went to make room
	Lost        uint64        `json:"lost"`     // files that were gone or damaged
	Incoming    int           `json:"incoming"` // on their way here
	Exported    int           `json:"exported"` // futures, small ones too, that other nodes hold
	Sent        uint64        `json:"sent"`     // bytes, to other nodes
	Received    uint64        `json:"received"` // bytes
	Shared      uint64        `json:"shared"`   // times that another process was told what to map instead
	Error       string        `json:"error,omitempty"`
}

// NodeObject is one object on one node.
type NodeObject struct {
	Node raysys.NodeID `json:"node"`
	HeldObject
}

// List has the limit largest objects of all nodes in one list, and counts all of them.
func (m Memory) List(limit int) Objects {
	all := Objects{Cluster: m.Cluster, Stores: []StoreStatus{}, Objects: []NodeObject{}}
	for _, n := range m.Nodes {
		s, t := &n.Store, &n.Transfer
		all.Stores = append(all.Stores, StoreStatus{
			Node: n.Name, Incarnation: n.Incarnation, Objects: n.Count, Bytes: n.Bytes, Used: s.Used, Budget: s.Budget, Warm: s.Warm, Disk: s.Disk, Spilled: s.Spilled,
			Restored: s.Restored, Dropped: s.Dropped, Lost: s.Lost, Incoming: s.Incoming, Exported: n.Exported, Sent: t.BytesOut, Received: t.BytesIn, Shared: t.Shared, Error: n.Error,
		})
		for _, h := range n.Objects {
			all.Objects = append(all.Objects, NodeObject{n.Name, h})
		}
	}
	all.Bound(limit)
	return all
}

// Bound sorts everything into the order in which it is shown, keeps the limit largest objects and counts all of them.
func (o *Objects) Bound(limit int) {
	slices.SortFunc(o.Stores, func(a, b StoreStatus) int {
		return cmp.Or(strings.Compare(string(a.Node), string(b.Node)), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	slices.SortFunc(o.Objects, func(a, b NodeObject) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), strings.Compare(a.ID, b.ID), strings.Compare(string(a.Node), string(b.Node)))
	})
	o.Objects = o.Objects[:min(limit, len(o.Objects))]
	o.Total = ObjectTotal{Listed: len(o.Objects)}
	for _, s := range o.Stores {
		o.Total.Objects += s.Objects
		o.Total.Bytes += s.Bytes
	}
}

// Silent are the nodes that do not answer, and why.
func (o *Objects) Silent() (list []string) {
	for _, s := range o.Stores {
		if s.Error != "" {
			list = append(list, fmt.Sprintf("%s: %s", s.Node, s.Error))
		}
	}
	return list
}
