package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/member"
)

// schedulings are all answers, by id.
func schedulings(ctx context.Context, o *Operator, id string) (all map[string]*raysys.Scheduling, silent []string) {
	var list []raysys.Scheduling
	silent, _ = ask(ctx, o, "", "explain", exact(id), func(_ core.NodeKey, own []raysys.Scheduling) {
		list = append(list, own...)
	})
	all = map[string]*raysys.Scheduling{}
	for _, s := range list {
		if !utf8.ValidString(id) { // the key of a grain, which JSON has changed
			s.ID = id
		}
		one := all[s.ID]
		if one == nil {
			one = &raysys.Scheduling{ID: s.ID, Name: s.Name}
			all[s.ID] = one
		}
		one.Name = cmp.Or(one.Name, s.Name)
		one.Waits, one.Placed = append(one.Waits, s.Waits...), append(one.Placed, s.Placed...)
	}
	for _, s := range all {
		ownOrder(o, s)
	}
	return all, silent
}

// ownOrder puts an answer into the order in which it is read: the nodes to which work was sent after those that have sent it.
func ownOrder(o *Operator, s *raysys.Scheduling) {
	rank := func(w *raysys.Waiting) int {
		if w.Stage == core.StageSent {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(s.Waits, func(a, b raysys.Waiting) int {
		return cmp.Or(rank(&a)-rank(&b), strings.Compare(string(a.Node), string(b.Node)))
	})
	slices.SortStableFunc(s.Placed, func(a, b raysys.Placed) int { return a.Time.Compare(b.Time) })
	c := o.Node.Cluster()
	if c == nil {
		return
	}
	for i := range s.Placed {
		p := &s.Placed[i]
		if !slices.ContainsFunc(c.Member.View().Nodes(), func(m member.Node) bool { return m.ID == p.Node }) {
			p.Reasons = append(p.Reasons, fmt.Sprintf("%s: is no member any more: dead, or it has left", p.Node))
		}
	}
}

// ownScheduling is what this node knows of the work. The key of a grain may be no text.
func ownScheduling(o *Operator, _ context.Context, work exact) (list []raysys.Scheduling, err error) {
	id := string(work)
	add := func(id, name string, w raysys.Waiting) {
		w.Node = o.Name
		list = append(list, raysys.Scheduling{ID: id, Name: name, Waits: []raysys.Waiting{w}})
	}
	if ids, ok := core.PrefixOf(id); ok {
		for _, w := range o.Tasks.ExplainWaiting(ids, maxExplained) {
			switch {
			case w.Request.Entry == nil:
			case w.Stage == core.StageBundle:
				o.Node.ExplainBundle(w.Request.Options, &w.Waiting)
			default:
				o.Node.ExplainTask(&w)
			}
			add(w.ID.String(), w.Name, w.Waiting)
		}
	}
	for _, w := range o.Grains.ExplainWaiting(id) {
		if w.Stage == core.StageBundle {
			o.Node.ExplainBundle(&core.Options{Bundle: w.Want.Bundle, Resources: w.Want.Needs}, &w.Waiting)
		}
		if w.Stage == core.StageNode || w.Stage == core.StageLine {
			o.Node.ExplainGrain(&w)
		}
		add(w.ID.String(), "grain", w.Waiting)
	}
	return append(list, o.Decisions.of(id, o.Name)...), nil
}
