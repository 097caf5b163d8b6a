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
	Why  string // the feature that it needs, to follow "it"
}

func (p Pending) String() string { return p.Name + " (" + p.Why + ")" }

// pending lists the rows that need features which raysys does not have yet.
func pending() []Pending {
	return []Pending{
		{"returns_3k", InProcess, "is not written yet"},
		{"placement_group", InProcess, "comes with bundles"},
	}
}

// SelectionError says that a row, tier or child that was asked for does not exist, and names those that do.
type SelectionError struct{ text string }

func (e *SelectionError) Error() string { return e.text }

// Select returns the rows of these names, in the table's order; when names is empty all of them, but for those that want
// to be named.
func Select(names []string, tier Tier) ([]Row, error) {
	if !slices.Contains(Tiers(), tier) {
		return nil, &SelectionError{fmt.Sprintf("tier %q does not exist: use --tier in-process or --tier cross-process", tier)}
	}
	all := Rows(tier)
	if len(names) == 0 {
		return slices.DeleteFunc(all, func(r Row) bool { return r.Named }), nil
	}
	names = slices.Clone(names)
	for i := range names {
		names[i] = strings.TrimSpace(names[i]) // people write "a, b"
		if err := find(names[i], tier); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(all, func(r Row) bool { return !slices.Contains(names, r.Name) }), nil
}

// find returns why a name is of no row in the tier, and says where the row is.
func find(name string, tier Tier) error {
	if has(name, tier) {
		return nil
	}
	for _, t := range Tiers() {
		if has(name, t) {
			return &SelectionError{fmt.Sprintf("row %s is measured in another tier: use --tier %s", name, t)}
		}
	}
	for _, t := range Tiers() {
		later := Later(t)
		if at := slices.IndexFunc(later, func(p Pending) bool { return p.Name == name }); at >= 0 {
			return &SelectionError{fmt.Sprintf("row %s cannot be measured yet: it %s; raysys-lab bench --help lists the rows there are",
				name, later[at].Why)}
		}
	}
	return &SelectionError{fmt.Sprintf("row %q does not exist: use --row with %s", name, strings.Join(Names(Rows(tier)), ", "))}
}

func has(name string, tier Tier) bool {
	return slices.ContainsFunc(Rows(tier), func(r Row) bool { return r.Name == name })
}

// Names lists the names of rows.
func Names(rows []Row) []string {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.Name
	}
	return names
}
