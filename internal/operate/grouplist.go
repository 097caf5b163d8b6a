package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/registry"
)

// ledGroups is the answer of one node: those that it lists, and how many there are.
type ledGroups struct {
	Count  int                   `json:"count"`
	Groups []inspect.GroupStatus `json:"groups"`
}

// maxGroupsListed bounds how many groups one answer lists, and maxBundlesListed their bundles together.
const (
	maxGroupsListed  = 1000
	maxBundlesListed = 10_000
)

// Groups asks the leaders of shards for their placement groups, for up to 3 s or as long as ctx lasts, and lists the oldest, at most
// limit; of each node not more than 1,000, or 10,000 bundles. With an id it lists the groups of that name, and those whose id begins so.
func (o *Operator) Groups(ctx context.Context, id string, limit int) (inspect.Groups, error) {
	all := inspect.Groups{Groups: []inspect.GroupStatus{}}
	leaders := o.Members()
	if c := o.Node.Cluster(); c != nil {
		all.Cluster = c.Name
		view, leads := c.Member.View(), map[raysys.NodeID]bool{}
		for i := range c.Registry.Layout().Shards {
			if l, ok := view.Leader(i); ok {
				leads[l.Node] = true
			}
		}
		leaders = slices.DeleteFunc(leaders, func(m member.Node) bool { return !leads[m.ID] })
	}
	for k, a := range o.askAll(ctx, leaders, adminRequest{op: adminGroups, id: id, limit: limit}) {
		switch led := a.answer.Groups; {
		case a.err != nil:
			all.Silent = append(all.Silent, fmt.Sprintf("%s: %v", k.Node, a.err))
		case led != nil:
			all.Count += led.Count
			all.Groups = append(all.Groups, led.Groups...)
		}
	}
	slices.Sort(all.Silent)
	slices.SortFunc(all.Groups, func(a, b inspect.GroupStatus) int { return cmp.Or(a.Made.Compare(b.Made), strings.Compare(a.ID, b.ID)) })
	all.Groups = bounded(all.Groups[:min(max(limit, 0), len(all.Groups))])
	return all, nil
}

// RemoveGroup removes the placement group with the name, or the one whose id begins so, as groups.Group.Remove does. The error matches
// raysys.ErrNotFound where there is none, and names some where there are several.
func (o *Operator) RemoveGroup(ctx context.Context, id string) (inspect.GroupStatus, error) {
	found, err := o.Groups(ctx, id, 2)
	switch {
	case err != nil:
		return inspect.GroupStatus{}, err
	case len(found.Groups) == 0:
		err := fmt.Errorf("%w: no placement group has the name or the id %s", raysys.ErrNotFound, id)
		if len(found.Silent) > 0 {
			err = fmt.Errorf("%w, as far as nodes answer: %s", err, strings.Join(found.Silent, "; "))
		}
		return inspect.GroupStatus{}, err
	case found.Count > 1:
		return inspect.GroupStatus{}, fmt.Errorf("%d placement groups have the name %s, or an id that begins so, such as %s and %s: give the id of one", found.Count, id, found.Groups[0].ID, found.Groups[1].ID)
	}
	g := found.Groups[0]
	var whole core.TaskID
	if _, err := fmt.Sscanf(g.ID, "%16x%16x", &whole.Hi, &whole.Lo); err != nil {
		return g, fmt.Errorf("the id %q of a placement group cannot be read: %w", g.ID, err)
	}
	return g, o.Config.Groups.Remove(ctx, nil, groupengine.KeyOf(g.Namespace, g.Name, whole))
}

// ledGroups lists the oldest groups of the shards that this node leads, of those with the name, or whose id begins so; "" for all.
func (o own) ledGroups(id string, limit int) *ledGroups {
	list := slices.DeleteFunc(o.Node.LedGroups(), func(g registry.LedGroup) bool {
		return id != "" && groupengine.NameIn(g.Key) != id && !strings.HasPrefix(g.Record.ID.String(), id)
	})
	slices.SortFunc(list, func(a, b registry.LedGroup) int {
		return cmp.Or(cmp.Compare(a.Record.Made, b.Record.Made), strings.Compare(a.Record.ID.String(), b.Record.ID.String()))
	})
	led := &ledGroups{Count: len(list), Groups: []inspect.GroupStatus{}}
	bundles := 0
	for _, g := range list[:min(max(limit, 0), maxGroupsListed, len(list))] {
		if bundles += len(g.Record.Bundles); bundles > maxBundlesListed {
			break
		}
		led.Groups = append(led.Groups, groupStatus(g))
	}
	led.Groups = bounded(led.Groups)
	return led
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
