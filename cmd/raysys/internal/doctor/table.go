package doctor

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/raysys/raysys/internal/printable"
)

// Table writes the findings for people, each fix below its finding.
func Table(w io.Writer, all []Finding) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.Level, f.Check, f.Detail)
		if f.Fix != "" && f.Level != Skipped {
			fmt.Fprintf(t, "\t\tfix: %s\n", f.Fix)
		}
	}
	return t.Flush()
}

// JSON writes them as one list.
func JSON(w io.Writer, all []Finding) error { return printable.WriteJSON(w, all) }
