package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/taskengine"
)

// taskQuery is what one node is asked for.
type taskQuery struct {
	inspect.TaskQuery
	// Sent: also the tasks that the node has sent to others, which is all that is known of them there.
	Sent bool `json:"sent,omitempty"`
}

var taskStates = []string{inspect.TaskWaiting, inspect.TaskRunning, inspect.TaskBlocked}

// checkState says what states there are.
func checkState(state string) error {
	if state != "" && !slices.Contains(taskStates, state) {
		return fmt.Errorf("%w: tasks are in no state %q: there are %s", raysys.ErrBadOption, state, strings.Join(taskStates, ", "))
	}
	return nil
}

// Tasks asks all nodes, or one, for tasks, for up to 3 s or as long as ctx lasts.
func Tasks(ctx context.Context, o *Operator, q inspect.TaskQuery) (inspect.Tasks, error) {
	all := inspect.Tasks{Cluster: o.clusterName(), Tasks: []inspect.Task{}}
	if err := checkState(q.State); err != nil {
		return all, err
	}
	if q.Detached { // the node that has submitted a task knows it, and where it is knows what it does
		return all, detached(ctx, o, q, &all)
	}
	ctx = patiently(ctx)
	p, silent, err := listPages[inspect.Task](ctx, o, q.Node, "tasks", taskQuery{TaskQuery: q}, "function", q.Function)
	all.Silent = silent
	if err != nil {
		return all, err
	}
	all.Count, all.Tasks = p.Count, sorted(p.Rows, q.Limit, longest)
	nameDetached(ctx, o, all.Tasks)
	return all, nil
}

// nameDetached adds to tasks that other nodes have submitted whether they are detached, and their names, which only those nodes know.
func nameDetached(ctx context.Context, o *Operator, tasks []inspect.Task) {
	if !slices.ContainsFunc(tasks, func(t inspect.Task) bool { return t.Of != "" }) {
		return
	}
	names := map[string]inspect.Task{}
	query := taskQuery{TaskQuery: inspect.TaskQuery{Detached: true, Limit: maxRows}, Sent: true}
	_, _ = ask(ctx, o, "", "tasks", query, func(_ core.NodeKey, p page[inspect.Task]) { // who does not answer is in the list of the silent
		for _, t := range p.Rows {
			names[t.ID] = t
		}
	})
	for i := range tasks {
		if t, ok := names[tasks[i].ID]; ok {
			tasks[i].Detached, tasks[i].Name = true, t.Name
		}
	}
}

// detached lists detached tasks.
func detached(ctx context.Context, o *Operator, q inspect.TaskQuery, all *inspect.Tasks) error {
	of := q
	of.Node, of.State, of.Limit = "", "", maxRows
	p, silent, err := listPages[inspect.Task](ctx, o, "", "tasks", taskQuery{TaskQuery: of, Sent: true}, "function", q.Function)
	if all.Silent = silent; err != nil {
		return err
	}
	var ids []string
	for i := range p.Rows {
		if p.Rows[i].Stage == core.StageSent {
			ids = append(ids, p.Rows[i].ID)
		}
	}
	there := map[string]inspect.Task{}
	if len(ids) > 0 {
		found, _, err := findWork(ctx, o, workQuery{IDs: ids})
		if err != nil {
			return err
		}
		for _, t := range found {
			there[t.ID] = t
		}
	}
	rows := p.Rows[:0]
	for _, t := range p.Rows {
		if at, ok := there[t.ID]; ok && t.Stage == core.StageSent {
			at.Detached, at.Name, at.Of = true, t.Name, t.Node
			t = at
		}
		if (q.State == "" || q.State == t.State) && (q.Node == "" || q.Node == t.Node) {
			rows = append(rows, t)
		}
	}
	all.Count, all.Tasks = p.Count-len(p.Rows)+len(rows), sorted(rows, q.Limit, longest)
	if q.Node != "" && all.Count == 0 && !slices.ContainsFunc(o.Members(), func(m member.Node) bool { return m.ID == q.Node }) {
		return fmt.Errorf("tasks of %s: %w: raysys status lists the nodes", q.Node, ErrNoSuchNode)
	}
	return nil
}

// longest is the order of tasks in lists.
func longest(a, b *inspect.Task) int {
	return cmp.Or(cmp.Compare(b.Lasts, a.Lasts), strings.Compare(string(a.Node), string(b.Node)), strings.Compare(a.ID, b.ID))
}

// ownTasks lists the tasks that wait or run on this node.
func ownTasks(o *Operator, _ context.Context, q taskQuery) (page[inspect.Task], error) {
	var p page[inspect.Task]
	if q.Function != "" && o.Job.Table.Lookup("task", q.Function) == nil {
		p.Unknown, p.Names = true, ownNamesIn(o, "task")
		return p, nil
	}
	rows := ownFirstTasks(o, limitOf(q.Limit), func(t *taskengine.Seen) bool {
		switch {
		case t.Stage == core.StageSent && !q.Sent, q.Function != "" && t.Future.Work().Name() != q.Function:
			return false
		case q.Detached:
			if opts := taskengine.OptionsOf(t.Future); opts == nil || !opts.Detached {
				return false
			}
		}
		return q.State == "" || stateOf(t) == q.State
	})
	p.Count = rows.count
	for i := range rows.rows {
		p.Rows = append(p.Rows, ownTask(o, &rows.rows[i]))
	}
	p.Rows = bounded(p.Rows)
	return p, nil
}

// ownFirstTasks keeps those of the tasks of this node for which wanted is true that have waited or run longest.
func ownFirstTasks(o *Operator, limit int, wanted func(*taskengine.Seen) bool) *first[taskengine.Seen] {
	rows := &first[taskengine.Seen]{limit: limit, order: func(a, b *taskengine.Seen) int {
		return cmp.Compare(uint64(a.Since-1), uint64(b.Since-1)) // 0, not known, comes last
	}}
	taskengine.EachTask(o.Tasks, func(t taskengine.Seen) {
		if wanted(&t) {
			rows.add(t)
		}
	})
	rows.cut()
	return rows
}

func stateOf(t *taskengine.Seen) string {
	if t.Stage != core.StageRunning && t.Stage != core.StageSent {
		return inspect.TaskWaiting
	}
	if own := t.Future.OwnTurn(); own != nil && own.IsBlocked() {
		return inspect.TaskBlocked
	}
	return inspect.TaskRunning
}

// ownTask is the row of a task.
func ownTask(o *Operator, t *taskengine.Seen) inspect.Task {
	c := t.Future
	w := t.Explain(o.Tasks)
	row := inspect.Task{
		ID: c.ID().String(), Function: c.Work().Name(), Node: o.Name, Of: t.Peer, State: stateOf(t), Stage: w.Stage, For: w.For, Lasts: w.Waited, Attempt: 1,
	}
	if t.Stage == core.StageSent {
		row.Node, row.Of, row.For = t.Peer, o.Name, ""
	}
	if opts := taskengine.OptionsOf(c); opts != nil {
		row.Detached, row.Name = opts.Detached, opts.Name
	}
	if own := c.OwnTurn(); own != nil {
		row.Attempt = max(own.Attempt(), 1)
		row.On, row.Open = waitsOn(own)
	}
	return row
}
