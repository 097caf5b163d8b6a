package bench

import (
	"fmt"
	"slices"
	"strings"
)

// Pending is a row that this version cannot measure.
type Pending struct {
	Name string
	Tier Tier
	Why  string // what it waits for, to follow "it"
}

func (p Pending) String() string { return p.Name + " (" + p.Why + ")" }

// pending lists the rows that need what is not there yet.
func pending() []Pending {
	return []Pending{
		{"put_gigabytes", InProcess, "comes with the object store"},
		{"transfer", CrossProcess, "comes with the object store"},
		{"grain_activate", CrossProcess, "comes with the cluster"},
		{"node_join", CrossProcess, "comes with the cluster"},
		{"node_rss_3_peers", CrossProcess, "comes with the cluster"},
		{"failover", CrossProcess, "comes with the cluster"},
		{"returns_3k", InProcess, "comes with tasks of several results"},
		{"placement_group", InProcess, "comes with bundles"},
		{"lineage", InProcess, "comes with durable lineage"},
	}
}

// SelectionError says that what was asked for does not exist, and what does.
type SelectionError struct{ text string }

func (e *SelectionError) Error() string { return e.text }

// Select returns the rows of these names, in the table's order; all of them when names is empty.
func Select(names []string, tier Tier) ([]Row, error) {
	if tier != InProcess {
		if tier == CrossProcess {
			return nil, &SelectionError{"tier cross-process is not there yet, it comes with the cluster: use --tier in-process"}
		}
		return nil, &SelectionError{fmt.Sprintf("tier %q does not exist: use --tier in-process", tier)}
	}
	all, later := Rows(), Later()
	if len(names) == 0 {
		return all, nil
	}
	names = slices.Clone(names)
	for i := range names {
		names[i] = strings.TrimSpace(names[i]) // "a, b" is what people write
		name := names[i]
		if slices.ContainsFunc(all, func(r Row) bool { return r.Name == name }) {
			continue
		}
		if at := slices.IndexFunc(later, func(p Pending) bool { return p.Name == name }); at >= 0 {
			return nil, &SelectionError{fmt.Sprintf("row %s cannot be measured yet: it %s; raysys bench --help lists the rows there are",
				name, later[at].Why)}
		}
		return nil, &SelectionError{fmt.Sprintf("row %q does not exist: use --row with %s", name, strings.Join(Names(all), ", "))}
	}
	return slices.DeleteFunc(all, func(r Row) bool { return !slices.Contains(names, r.Name) }), nil
}

// Names lists the names of rows.
func Names(rows []Row) []string {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Name
	}
	return names
}
