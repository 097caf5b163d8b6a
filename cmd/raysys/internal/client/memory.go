package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
)

// Memory is what the object stores of a cluster hold at one moment. Sizes are in bytes.
type Memory struct {
	Cluster string   `json:"cluster"`
	Stores  []Store  `json:"stores"`
	Objects []Object `json:"objects"` // the largest first, as many as were asked for
	Total   Total    `json:"total"`
}

// Total counts all objects, also those that are not listed.
type Total struct {
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"`
	Listed  int   `json:"listed"`
}

// Store is the object store of one node.
type Store struct {
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

// Object is one object on one node.
type Object struct {
	Node raysys.NodeID `json:"node"`
	inspect.HeldObject
}

// Bound sorts everything into the order in which it is shown, keeps the limit largest objects and counts all of them.
func (m *Memory) Bound(limit int) {
	slices.SortFunc(m.Stores, func(a, b Store) int {
		return cmp.Or(strings.Compare(string(a.Node), string(b.Node)), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	slices.SortFunc(m.Objects, func(a, b Object) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), strings.Compare(a.ID, b.ID), strings.Compare(string(a.Node), string(b.Node)))
	})
	m.Objects = m.Objects[:min(limit, len(m.Objects))]
	m.Total = Total{Listed: len(m.Objects)}
	for _, s := range m.Stores {
		m.Total.Objects += s.Objects
		m.Total.Bytes += s.Bytes
	}
}

// Silent are the nodes that do not answer, and why.
func (m Memory) Silent() (list []string) {
	for _, s := range m.Stores {
		if s.Error != "" {
			list = append(list, fmt.Sprintf("%s: %s", s.Node, s.Error))
		}
	}
	return list
}

// WithoutNull has empty lists in place of those that are nil, so that a reader of its JSON can always range over them.
func (m Memory) WithoutNull() Memory {
	m.Stores, m.Objects = orEmpty(m.Stores), orEmpty(m.Objects)
	return m
}

// MemoryJSON writes it as one line.
func MemoryJSON(w io.Writer, m Memory) error { return json.NewEncoder(w).Encode(m.WithoutNull()) }

// MemoryTable writes it for people: the stores, the objects, what they come to.
func MemoryTable(w io.Writer, m Memory, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tOBJECTS\tMEMORY\tWARM\tDISK\tSPILLED\tRESTORED\tDROPPED\tEXPORTED\tSENT\tRECEIVED\tSHARED")
	for _, s := range m.Stores {
		if s.Error != "" {
			continue
		}
		fmt.Fprintf(t, "%s\t%d\t%s/%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%d\n", s.Node, s.Objects, core.Bytes(s.Used), core.Bytes(s.Budget), core.Bytes(s.Warm), core.Bytes(s.Disk),
			s.Spilled, s.Restored, s.Dropped, s.Exported, core.Bytes(int64(s.Sent)), core.Bytes(int64(s.Received)), s.Shared)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range m.Stores {
		if s.Error != "" {
			fmt.Fprintf(w, "%s does not answer: %s\n", s.Node, s.Error)
		}
	}
	if len(m.Objects) > 0 {
		fmt.Fprintln(w)
		t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "NODE\tOBJECT\tSIZE\tFORMS\tSINCE\tWHY\tHELD BY")
		for _, o := range m.Objects {
			since := "-"
			if !o.Since.IsZero() {
				since = age(max(now.Sub(o.Since), time.Second))
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", o.Node, o.ID, core.Bytes(o.Size), orDash(strings.Join(o.Forms, ",")), since, o.reason(), o.heldBy())
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\ntotal: %d objects, %s", m.Total.Objects, core.Bytes(m.Total.Bytes))
	if more := m.Total.Objects - m.Total.Listed; more > 0 {
		fmt.Fprintf(w, "; %d are not listed: raise --limit", more)
	}
	_, err := fmt.Fprintln(w)
	return err
}

// reason says why the object is where it is.
func (o *Object) reason() string {
	switch {
	case o.Lost != "":
		return "lost: " + o.Lost
	case o.KeptFor != "":
		return fmt.Sprintf("replica for %s", o.KeptFor)
	case o.Owner != "" && len(o.Forms) == 0:
		return fmt.Sprintf("of %s, not fetched", o.Owner)
	case o.Owner != "":
		return fmt.Sprintf("copy of %s's, %s", o.Owner, o.Why)
	case !o.Primary:
		return fmt.Sprintf("copy, %s", o.Why)
	}
	return o.Why
}

// heldBy names the holders that keep the object from being freed.
func (o *Object) heldBy() string {
	var by []string
	for _, n := range o.Names {
		by = append(by, fmt.Sprintf("name %q", n))
	}
	for _, k := range slices.Sorted(maps.Keys(o.Holders)) {
		by = append(by, fmt.Sprintf("%s (%d)", k, o.Holders[k]))
	}
	for _, l := range []struct {
		what string
		at   []raysys.NodeID
	}{{"replicas on", o.Kept}, {"files on", o.Files}} {
		if len(l.at) == 0 {
			continue
		}
		at := make([]string, len(l.at))
		for i, k := range l.at {
			at[i] = string(k)
		}
		by = append(by, l.what+" "+strings.Join(at, ","))
	}
	for _, n := range []struct {
		n    int
		what string
	}{{o.Refs, "reference"}, {o.Pins, "pin"}, {o.Users, "user"}} {
		switch {
		case n.n == 1:
			by = append(by, "1 "+n.what+" here")
		case n.n > 1:
			by = append(by, fmt.Sprintf("%d %ss here", n.n, n.what))
		}
	}
	if len(by) == 0 {
		return "its own process"
	}
	return strings.Join(by, ", ")
}
