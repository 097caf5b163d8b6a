package operate

import (
	"cmp"
	"context"
	"strings"

	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/grainengine"
)

// Grains asks all nodes, or one, for the grains that they have in memory, for up to 3 s or as long as ctx lasts.
func Grains(ctx context.Context, o *Operator, q inspect.GrainQuery) (inspect.Grains, error) {
	all := inspect.Grains{Cluster: o.clusterName(), Grains: []inspect.Grain{}}
	p, silent, err := listPages[inspect.Grain](ctx, o, q.Node, "grains", q, "kind of grain", q.Kind)
	if all.Silent = silent; err != nil {
		return all, err
	}
	all.Count, all.Grains = p.Count, sorted(p.Rows, q.Limit, deepest)
	return all, nil
}

// deepest is the order of grains in lists.
func deepest(a, b *inspect.Grain) int {
	return cmp.Or(b.Mailbox-a.Mailbox, cmp.Compare(b.Lasts, a.Lasts), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Key, b.Key), strings.Compare(string(a.Node), string(b.Node)))
}

// grains lists the grains that this node has in memory.
func (o own) grains(_ context.Context, q inspect.GrainQuery) (page[inspect.Grain], error) {
	var p page[inspect.Grain]
	if q.Kind != "" && o.Job.Table.Lookup("grain", q.Kind) == nil {
		p.Unknown, p.Names = true, o.namesIn("grain")
		return p, nil
	}
	rows := &first[grainengine.Active]{limit: limitOf(q.Limit), order: func(a, b *grainengine.Active) int {
		return cmp.Or(b.Mailbox-a.Mailbox, strings.Compare(a.ID.Kind, b.ID.Kind), strings.Compare(a.ID.Key, b.ID.Key))
	}}
	grainengine.EachActive(o.Grains, q.Kind, func(g grainengine.Active) {
		if strings.HasPrefix(g.ID.Key, q.Key) {
			rows.add(g)
		}
	})
	rows.cut()
	p.Count = rows.count
	for i := range rows.rows {
		p.Rows = append(p.Rows, o.grain(&rows.rows[i]))
	}
	p.Rows = bounded(p.Rows)
	return p, nil
}

// grain is the row of a grain.
func (o own) grain(g *grainengine.Active) inspect.Grain {
	row := inspect.Grain{Kind: g.ID.Kind, Key: g.ID.Key, Node: o.Name, Mailbox: g.Mailbox, Waits: g.Waits}
	if turns := g.Turns(); len(turns) > 0 {
		row.Turn, row.Lasts, row.Late = turns[0].Name, turns[0].Since, turns[0].Late
	}
	return row
}
