package client

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/printable"
)

// Drain is what came of a drain.
type Drain struct {
	Node        raysys.NodeID `json:"node"`
	Incarnation uint64        `json:"incarnation"`
	Left        bool          `json:"left"` // it is in the cluster no more
	// Told: the node said how its drain ended. False for one that died, or whose version says nothing: then the rest is unknown.
	Told  bool          `json:"told"`
	Took  time.Duration `json:"took_ns"`
	Kept  int           `json:"kept"`            // objects that other nodes keep now
	Lost  int           `json:"lost"`            // objects that others needed, and that ended with the node
	Why   string        `json:"why,omitempty"`   // the first of them was lost
	Error string        `json:"error,omitempty"` // what was not done in time
}

// DrainJSON writes it as one line.
func DrainJSON(w io.Writer, d Drain) error { return printable.WriteJSON(w, d) }

// DrainTable writes it for people.
func DrainTable(w io.Writer, d Drain) error {
	if !d.Told {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tTOOK\tOBJECTS KEPT\tLOST\tWHY")
	fmt.Fprintf(t, "%s\t%v\t%d\t%d\t%s\n", d.Node, d.Took.Round(time.Millisecond), d.Kept, d.Lost, orDash(d.Why))
	return t.Flush()
}
