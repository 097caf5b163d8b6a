package operate

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/taskengine"
)

const (
	// waitsFollowed bounds the rounds of questions that follow waits from node to node.
	waitsFollowed = 16
	// waitsShown is how many of the things that one piece of work waits for are named.
	waitsShown = 8
)

// Waits asks all nodes for the tasks and turns of grains that wait for other work, at most limit, and follows each wait to the work
// at its end. limit 0 stands for 100.
func Waits(ctx context.Context, o *Operator, limit int) (inspect.Waits, error) {
	ctx = patiently(ctx)
	all := inspect.Waits{Cluster: o.clusterName(), Waits: []inspect.Task{}, Ends: []inspect.Task{}}
	p, silent, err := listPages[inspect.Task](ctx, o, "", "waits", inspect.TaskQuery{Limit: limit}, "", "")
	if all.Silent = silent; err != nil {
		return all, err
	}
	all.Count = p.Count
	all.Waits, all.Ends, err = follow(ctx, o, sorted(p.Rows, limit, longest))
	return all, err
}

// follow finds what the work waits for, and what that waits for.
func follow(ctx context.Context, o *Operator, from []inspect.Task) (waits, ends []inspect.Task, err error) {
	waits, ends = from, []inspect.Task{}
	known, asked := map[string]bool{}, map[string]bool{}
	for _, t := range waits {
		known[t.ID] = true
	}
	next := waits
	for range waitsFollowed {
		var q workQuery
		for _, t := range next {
			for _, on := range t.On {
				id := cmp.Or(on.Grain, on.ID)
				if known[on.ID] || asked[id] || len(asked) == maxRows {
					continue
				}
				if asked[id] = true; on.Grain != "" {
					q.Grains = append(q.Grains, exact(on.Grain))
				} else {
					q.IDs = append(q.IDs, on.ID)
				}
			}
		}
		if len(q.IDs)+len(q.Grains) == 0 {
			break
		}
		found, _, err := findWork(ctx, o, q)
		if err != nil {
			return waits, ends, err
		}
		next = nil
		for _, t := range found {
			if known[t.ID] {
				continue
			}
			if known[t.ID] = true; t.State != inspect.TaskBlocked {
				ends = append(ends, t)
				continue
			}
			next = append(next, t)
		}
		waits = append(waits, next...)
	}
	return bounded(waits), bounded(ends), nil
}

// ownWaits lists the work of this node that waits for other work.
func ownWaits(o *Operator, _ context.Context, q inspect.TaskQuery) (page[inspect.Task], error) {
	limit := limitOf(q.Limit)
	rows := ownFirstTasks(o, limit, func(t *taskengine.Seen) bool { return stateOf(t) == inspect.TaskBlocked })
	p := page[inspect.Task]{Count: rows.count}
	for i := range rows.rows {
		p.Rows = append(p.Rows, ownTask(o, &rows.rows[i]))
	}
	turns := &first[inspect.Task]{limit: limit, order: longest}
	grainengine.EachActive(o.Grains, "", func(g grainengine.Active) {
		for _, t := range g.Turns() {
			if t.Turn != nil && t.Turn.IsBlocked() {
				turns.add(ownTurn(o, &g, &t))
			}
		}
	})
	turns.cut()
	p.Count += turns.count
	p.Rows = sorted(append(p.Rows, turns.rows...), q.Limit, longest)
	return p, nil
}

// ownTurn is the row of a grain's turn.
func ownTurn(o *Operator, g *grainengine.Active, t *grainengine.OneTurn) inspect.Task {
	row := inspect.Task{Function: t.Name, Node: o.Name, State: inspect.TaskRunning, Stage: core.StageRunning, Lasts: t.Since, Attempt: 1, Grain: g.ID.String()}
	if t.Call != nil {
		row.ID, row.Function = t.Call.ID().String(), t.Call.Work().Name()
	}
	if t.Turn == nil {
		return row
	}
	if t.Call == nil {
		row.ID = t.Turn.ID().String()
	}
	if t.Turn.IsBlocked() {
		row.State = inspect.TaskBlocked
	}
	row.On, row.Open = waitsOn(t.Turn)
	return row
}

// waitsOn says what a turn waits for.
func waitsOn(t *core.Turn) (list []inspect.WaitsOn, open int) {
	on, open := core.WaitsFor(t, waitsShown)
	for _, c := range on {
		w := inspect.WaitsOn{ID: c.ID().String(), Name: c.Work().Name()}
		if g, at, ok := grainengine.CallOf(c); ok {
			w.Grain, w.Node = g.String(), at
		}
		list = append(list, w)
	}
	return list, open
}

// workQuery names work: tasks by their ids or how those begin, and grains, of which it is their turns.
type workQuery struct {
	IDs    []string `json:"ids,omitempty"`
	Prefix string   `json:"prefix,omitempty"`
	Grains []exact  `json:"grains,omitempty"`
}

// findWork asks all nodes for work. What a node has sent to another is told by that one only, where it answers.
func findWork(ctx context.Context, o *Operator, q workQuery) (list []inspect.Task, silent []string, err error) {
	var p pages[inspect.Task]
	silent, err = ask(ctx, o, "", "work", q, p.add)
	there := map[string]bool{}
	for i := range p.Rows {
		there[p.Rows[i].ID] = there[p.Rows[i].ID] || p.Rows[i].Stage != core.StageSent
	}
	list = slices.DeleteFunc(p.Rows, func(t inspect.Task) bool { return t.Stage == core.StageSent && there[t.ID] })
	slices.SortFunc(list, func(a, b inspect.Task) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(string(a.Node), string(b.Node)))
	})
	return list, silent, err
}

// ownWork finds work on this node, and what it has sent to others.
func ownWork(o *Operator, _ context.Context, q workQuery) (p page[inspect.Task], err error) {
	ids := map[core.TaskID]bool{}
	for _, digits := range q.IDs {
		if id, ok := readID(digits); ok {
			ids[id] = true
		}
	}
	prefix, some := core.PrefixOf(q.Prefix)
	if len(ids) > 0 || some {
		rows := &first[taskengine.Seen]{limit: maxRows, order: func(*taskengine.Seen, *taskengine.Seen) int { return 0 }}
		taskengine.EachTask(o.Tasks, func(t taskengine.Seen) {
			if id := t.Future.ID(); ids[id] || some && prefix.Of(id) {
				rows.add(t)
			}
		})
		rows.cut()
		p.Count = rows.count
		for i := range rows.rows {
			p.Rows = append(p.Rows, ownTask(o, &rows.rows[i]))
		}
	}
	for _, name := range q.Grains {
		for _, g := range grainengine.FindActive(o.Grains, grainOf(name)) {
			for _, t := range g.Turns() {
				p.Rows = append(p.Rows, ownTurn(o, &g, &t))
			}
		}
	}
	p.Rows = bounded(p.Rows)
	return p, nil
}

// readID reads all digits of an id.
func readID(digits string) (id raysys.TaskID, ok bool) {
	p, ok := core.PrefixOf(digits)
	return p.Digits(), ok && len(digits) == len(id.String())
}
