package client

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// custom shows the resources of the program's own, where there are any.
func custom(w io.Writer, nodes []Node) error {
	var t *tabwriter.Writer
	for _, n := range nodes {
		for _, name := range slices.Sorted(maps.Keys(n.Resources.Custom)) {
			if t == nil {
				fmt.Fprintln(w)
				t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				fmt.Fprintln(t, "NODE\tRESOURCE\tUSED")
			}
			total, free := n.Resources.Custom[name], n.Free.Custom[name]
			if n.Error != "" {
				free = total // nothing is known to be taken
			}
			fmt.Fprintf(t, "%s\t%s\t%s\n", n.Name, name, used(free, total))
		}
	}
	if t == nil {
		return nil
	}
	return t.Flush()
}
