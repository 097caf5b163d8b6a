package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/registry"
)

// Grains asks all nodes, or one, for the grains that they have in memory, for up to 3 s or as long as ctx lasts.
func Grains(ctx context.Context, o *Operator, q inspect.GrainQuery) (inspect.Grains, error) {
	all := inspect.Grains{Cluster: o.clusterName(), Grains: []inspect.Grain{}}
	p, silent, err := listPages[grainRow](ctx, o, q.Node, "grains", grainsQuery{q, exact(q.Key)}, "kind of grain", q.Kind)
	if all.Silent = silent; err != nil {
		return all, err
	}
	all.Count, all.Grains = p.Count, sorted(grainsOf(p.Rows), q.Limit, deepest)
	return all, nil
}

// grainsQuery is inspect.GrainQuery between nodes.
type grainsQuery struct {
	inspect.GrainQuery
	Key exact `json:"key,omitempty"`
}

// grainRow is inspect.Grain between nodes.
type grainRow struct {
	inspect.Grain
	Key exact `json:"key"`
}

func grainsOf(rows []grainRow) (list []inspect.Grain) {
	for _, r := range rows {
		r.Grain.Key = string(r.Key)
		list = append(list, r.Grain)
	}
	return list
}

// deepest is the order of grains in lists.
func deepest(a, b *inspect.Grain) int {
	return cmp.Or(b.Mailbox-a.Mailbox, cmp.Compare(b.Lasts, a.Lasts), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Key, b.Key), strings.Compare(string(a.Node), string(b.Node)))
}

// ownGrains lists the grains that this node has in memory.
func ownGrains(o *Operator, _ context.Context, q grainsQuery) (page[grainRow], error) {
	var p page[grainRow]
	if q.Kind != "" && o.Job.Table.Lookup("grain", q.Kind) == nil {
		p.Unknown, p.Names = true, ownNamesIn(o, "grain")
		return p, nil
	}
	rows := &first[grainengine.Active]{limit: limitOf(q.Limit), order: func(a, b *grainengine.Active) int {
		return cmp.Or(b.Mailbox-a.Mailbox, strings.Compare(a.ID.Kind, b.ID.Kind), strings.Compare(a.ID.Key, b.ID.Key))
	}}
	grainengine.EachActive(o.Grains, q.Kind, func(g grainengine.Active) {
		if strings.HasPrefix(g.ID.Key, string(q.Key)) {
			rows.add(g)
		}
	})
	rows.cut()
	p.Count = rows.count
	for i := range rows.rows {
		p.Rows = append(p.Rows, ownGrain(o, &rows.rows[i]))
	}
	p.Rows = bounded(p.Rows)
	return p, nil
}

// grainOf is the grain of a KIND/KEY.
func grainOf(name exact) graindir.ID {
	kind, key, _ := strings.Cut(string(name), "/")
	return graindir.ID{Kind: kind, Key: key}
}

// ownGrain is the row of a grain.
func ownGrain(o *Operator, g *grainengine.Active) grainRow {
	row := grainRow{inspect.Grain{Kind: g.ID.Kind, Node: o.Name, Mailbox: g.Mailbox, Waits: g.Waits}, exact(g.ID.Key)}
	row.Keys, row.Forgotten = grainengine.KeysOf(g)
	row.Outbox = grainengine.MessagesOf(g)
	if turns := g.Turns(); len(turns) > 0 {
		row.Turn, row.Lasts, row.Late = turns[0].Name, turns[0].Since, turns[0].Late
	}
	return row
}

const (
	// unloadPause is how long after an answer that did not settle it a grain's place is looked up again.
	unloadPause = 20 * time.Millisecond
	// unloadLooks is how often a node may say that it does not have a grain that is placed there: its first call is on the way, or was lost.
	unloadLooks = 50
)

// Unload has a grain leave memory, and returns when its placement is gone.
func Unload(ctx context.Context, o *Operator, id graindir.ID) error {
	if o.Node.Cluster() == nil {
		_, err := grainengine.UnloadHere(ctx, o.Grains, id)
		return err
	}
	var last graindir.Place
	for looks := 0; looks < unloadLooks; looks++ {
		at, err := placeOf(ctx, o, id)
		if err != nil {
			return fmt.Errorf("unload %s/%s: %w", id.Kind, id.Key, err)
		}
		if at == (graindir.Place{}) && looks == 0 {
			return endAlwaysOn(ctx, o, id)
		}
		if at == (graindir.Place{}) || last != (graindir.Place{}) && at.Token != last.Token {
			return nil // what was there when this was called is gone
		}
		last = at
		was := false
		told := func(_ core.NodeKey, here bool) { was = here }
		silent, err := ask(ctx, o, at.Node, "unload", exact(id.String()), told)
		switch {
		case was:
			return nil
		case len(silent) > 0:
			looks = 0 // it dies, or a turn of the grain takes long
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("unload %s/%s: %w", id.Kind, id.Key, context.Cause(ctx))
		}
		select {
		case <-time.After(unloadPause):
		case <-ctx.Done():
			return fmt.Errorf("unload %s/%s: node %s has it still: %w", id.Kind, id.Key, at.Node, context.Cause(ctx))
		}
	}
	return nil
}

// endAlwaysOn has a grain woken no more that is not active.
func endAlwaysOn(ctx context.Context, o *Operator, id graindir.ID) error {
	r, err := o.Node.Registry()
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	registry.End(r, id, graindir.Token{}, func(err error) { ended <- err })
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// placeOf asks where a grain is, without placing it.
func placeOf(ctx context.Context, o *Operator, id graindir.ID) (graindir.Place, error) {
	r, err := o.Node.Registry()
	if err != nil {
		return graindir.Place{}, err
	}
	type answer struct {
		at  graindir.Place
		err error
	}
	answers := make(chan answer, 1)
	r.Confirm(id, graindir.Token{}, func(p graindir.Placed, err error) { answers <- answer{p.Place, err} })
	select {
	case a := <-answers:
		return a.at, a.err
	case <-ctx.Done():
		return graindir.Place{}, context.Cause(ctx)
	}
}

// ownUnload answers whether the grain was here. It is gone then.
func ownUnload(o *Operator, ctx context.Context, name exact) (bool, error) {
	return grainengine.UnloadHere(ctx, o.Grains, grainOf(name))
}

// dropQuery asks for the messages of a grain to a receiver to be dropped.
type dropQuery struct {
	Grain exact `json:"grain"`
	To    exact `json:"to"`
}

// dropped is the answer.
type dropped struct {
	Here      bool     `json:"here"` // the node has the grain
	Count     int      `json:"count"`
	Receivers []string `json:"receivers,omitempty"` // to which there are messages
}

// dropPatience is how long a node waits for the store; its answer has to come within statusPatience.
const dropPatience = 2 * time.Second

// DropMessages has a grain drop its messages to a receiver, and returns how many, once that is stored.
func DropMessages(ctx context.Context, o *Operator, grain, to string) (int, error) {
	var rows pages[grainRow]
	silent, err := ask(ctx, o, "", "grain", exact(grain), rows.add)
	if err != nil {
		return 0, err
	}
	list := slices.DeleteFunc(slices.Clone(rows.Rows), func(r grainRow) bool { return r.Outbox == 0 })
	switch {
	case len(list) > 1:
		return 0, fmt.Errorf(
			"%w: nodes %s and %s have messages of a grain %s: it moves, or programs of two namespaces have one",
			raysys.ErrBadOption, list[0].Node, list[1].Node, grain)
	case len(list) == 1:
	case len(silent) > 0:
		return 0, fmt.Errorf("%w: no node that answers has messages of %s (no answer: %s)",
			raysys.ErrUnreachable, grain, strings.Join(silent, "; "))
	case len(rows.Rows) > 0:
		return 0, fmt.Errorf("%w: all messages of %s have arrived", raysys.ErrNotFound, grain)
	default:
		return 0, fmt.Errorf(
			"%w: no node has a grain %s in memory: one with messages is woken by the leader of its shard, ask again then",
			raysys.ErrNotFound, grain)
	}
	var a dropped
	node := list[0].Node
	query := dropQuery{exact(grain), exact(to)}
	silent, err = ask(ctx, o, node, "drop", query, func(_ core.NodeKey, got dropped) { a = got })
	switch {
	case err != nil:
	case len(silent) > 0:
		err = fmt.Errorf("%w: %s", raysys.ErrUnreachable, strings.Join(silent, "; "))
	case !a.Here:
		err = fmt.Errorf("%w: the grain %s has left node %s meanwhile: ask again", raysys.ErrNotFound, grain, node)
	case a.Count == 0:
		err = unknown("message of "+grain+" to", to, a.Receivers)
	}
	return a.Count, err
}

// ownDrop drops messages of a grain that is here.
func ownDrop(o *Operator, ctx context.Context, q dropQuery) (a dropped, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dropPatience, fmt.Errorf("not within %v", dropPatience))
	defer cancel()
	for _, g := range grainengine.FindActive(o.Grains, grainOf(q.Grain)) {
		a.Here = true
		if a.Count, err = grainengine.DropMessages(ctx, &g, string(q.To)); a.Count > 0 {
			break
		}
		for _, r := range grainengine.WaitingOf(&g, maxNamed).Receivers {
			a.Receivers = append(a.Receivers, grainengine.ShownReceiver(r.Kind, r.To))
		}
	}
	return a, err
}

// dropOf is a query of it in words.
func dropOf(query []byte) string {
	var q dropQuery
	_ = json.Unmarshal(query, &q) // who answers refuses it
	return fmt.Sprintf("drop messages of %.512q to %.512q", q.Grain, q.To)
}
