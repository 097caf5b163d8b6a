package client

import (
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

// Memory is what the object stores of a cluster hold at one moment.
type Memory = inspect.Objects

// Total counts all objects, also those that are not listed.
type Total = inspect.ObjectTotal

// Store is the object store of one node.
type Store = inspect.StoreStatus

// Object is one object on one node.
type Object = inspect.NodeObject

// WithoutNull has empty lists in place of those that are nil, so that a reader of its JSON can always range over them.
func WithoutNull(m Memory) Memory {
	m.Stores, m.Objects = orEmpty(m.Stores), orEmpty(m.Objects)
	return m
}

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
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", o.Node, o.ID, core.Bytes(o.Size), orDash(strings.Join(o.Forms, ",")), since, reason(&o), heldBy(&o))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\ntotal: %s, %s%s\n", Some(m.Total.Objects, "object", "objects"), core.Bytes(m.Total.Bytes), unlisted(m.Total.Objects-m.Total.Listed))
	return err
}

// reason says why the object is where it is.
func reason(o *Object) string {
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
func heldBy(o *Object) string {
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
	if o.Missing > 0 {
		by = append(by, Some(o.Missing, "replica", "replicas")+" missing")
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
