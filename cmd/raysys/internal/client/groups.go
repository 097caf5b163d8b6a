package client

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
)

// GroupName is the name of a group for people, or its id.
func GroupName(g *inspect.GroupStatus) string {
	if g.Name == "" {
		return g.ID
	}
	return fmt.Sprintf("%q", g.Name)
}

// GroupsTable writes placement groups for people.
func GroupsTable(w io.Writer, all inspect.Groups, now time.Time) error {
	if len(all.Groups) > 0 {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "GROUP\tID\tPROGRAM\tGOES WITH\tSTRATEGY\tSTATE\tSINCE\tBUNDLES")
		for i := range all.Groups {
			g := &all.Groups[i]
			name, with, since := "-", string(g.Owner), "-"
			if g.Name != "" {
				name = GroupName(g)
			}
			if g.Detached {
				with = "detached"
			}
			if !g.Made.IsZero() {
				since = age(max(now.Sub(g.Made), time.Second))
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, g.ID, orDash(g.Namespace), with, g.Strategy, g.State, since, placed(g.Bundles))
		}
		if err := t.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	for _, s := range all.Silent {
		fmt.Fprintf(w, "%s: the groups of the shards that it leads are missing\n", s)
	}
	_, err := fmt.Fprintf(w, "total: %s%s\n", Some(all.Count, "placement group", "placement groups"), unlisted(all.Count-len(all.Groups)))
	return err
}

// placed shows bundles with their nodes; neighbours that are alike once, with their number.
func placed(list []inspect.BundleStatus) string {
	var s []string
	for i := 0; i < len(list); {
		j := i
		var alike []raysys.Resources
		for j < len(list) && list[j].Node == list[i].Node {
			alike = append(alike, list[j].Resources)
			j++
		}
		s = append(s, fmt.Sprintf("%s: %s", cmp.Or(string(list[i].Node), "no node"), bundles(alike)))
		i = j
	}
	return strings.Join(s, ", ")
}
