package operate

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/internal/registry"
)

// ownLedGroups is the answer of one node: those that it lists, and how many there are.
type ledGroups struct {
	Count  int                   `json:"count"`
	Groups []inspect.GroupStatus `json:"groups"`
}

// maxGroupsListed bounds how many groups one answer lists, and maxBundlesListed their bundles together.
const (
	maxGroupsListed  = 1000
	maxBundlesListed = 10_000
)

// groupQuery asks for the groups with the name, or whose id begins so; "" for all.
type groupQuery struct {
	ID    exact `json:"id"`
	Limit int   `json:"limit"`
}

// ownLedGroups lists the oldest groups of the shards that this node leads.
func ownLedGroups(o *Operator, _ context.Context, q groupQuery) (*ledGroups, error) {
	id := string(q.ID)
	list := slices.DeleteFunc(o.Node.LedGroups(), func(g registry.LedGroup) bool {
		return id != "" && groupengine.NameIn(g.Key) != id && !strings.HasPrefix(g.Record.ID.String(), id)
	})
	slices.SortFunc(list, func(a, b registry.LedGroup) int {
		return cmp.Or(cmp.Compare(a.Record.Made, b.Record.Made), strings.Compare(a.Record.ID.String(), b.Record.ID.String()))
	})
	led := &ledGroups{Count: len(list), Groups: []inspect.GroupStatus{}}
	bundles := 0
	for _, g := range list[:min(max(q.Limit, 0), maxGroupsListed, len(list))] {
		if bundles += len(g.Record.Bundles); bundles > maxBundlesListed {
			break
		}
		led.Groups = append(led.Groups, groupStatus(g))
	}
	led.Groups = bounded(led.Groups)
	return led, nil
}

func groupStatus(g registry.LedGroup) inspect.GroupStatus {
	r := g.Record
	s := inspect.GroupStatus{
		ID: r.ID.String(), Name: groupengine.NameIn(g.Key), Namespace: r.Namespace, Strategy: r.Strategy, Owner: r.Owner.Node, Detached: r.Owner == core.NodeKey{}, State: inspect.GroupHeld,
	}
	switch {
	case r.Removing:
		s.State = inspect.GroupGoing
	case r.Never != "":
		s.State = inspect.GroupNever
	case g.Waits && g.Gathers:
		s.State = inspect.GroupGathering
	case g.Waits:
		s.State = inspect.GroupWaiting
	}
	if r.Made != 0 {
		s.Made = time.Unix(0, r.Made).UTC()
	}
	for _, b := range r.Bundles {
		one := inspect.BundleStatus{Resources: b.Needs}
		if b.Held {
			one.Node = b.At.Node
		}
		s.Bundles = append(s.Bundles, one)
	}
	return s
}
