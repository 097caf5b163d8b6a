package operate

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/tally"
	"github.com/raysys/raysys/internal/taskengine"
)

// Functions asks all nodes what they have counted of their functions, and lists the limit with the most runs; 0 stands for 100.
func Functions(ctx context.Context, o *Operator, limit int) (inspect.Functions, error) {
	all := inspect.Functions{Cluster: o.clusterName(), At: time.Now()}
	p, silent, err := listPages[tally.Row](ctx, o, "", "functions", struct{}{}, "", "")
	all.Silent = silent
	type key struct {
		kind tally.Kind
		name string
	}
	by := map[key]tally.Row{}
	for _, r := range p.Rows {
		k := key{r.Kind, r.Name}
		if one, ok := by[k]; ok {
			r = one.Plus(r)
		}
		by[k] = r
	}
	var list []inspect.Function
	for _, r := range by {
		f := inspect.Function{
			Name: r.Name, Kind: string(r.Kind), Runs: r.Outcomes.Runs(), Errors: r.Outcomes.Failed(),
			Left: r.Left, P50: r.Times.P50(), P99: r.Times.P99(), WaitP50: r.Waited.P50(), WaitP99: r.Waited.P99(),
			Running: r.Running, Waiting: r.Waiting, Oldest: r.Oldest, Ended: map[string]uint64{},
		}
		for _, o := range tally.Outcomes() {
			if n := r.Outcomes[o]; n > 0 {
				f.Ended[o.String()] = n
			}
		}
		list = append(list, f)
	}
	all.Count = len(list)
	all.Functions = sorted(list, limit, func(a, b *inspect.Function) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), b.Running+b.Waiting-a.Running-a.Waiting, strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
	})
	return all, err
}

// ownFunctions are those of this node.
func ownFunctions(o *Operator, _ context.Context, _ struct{}) (p page[tally.Row], err error) {
	p.Rows = append(taskengine.Functions(o.Tasks), grainengine.Functions(o.Grains)...)
	p.Count = len(p.Rows)
	p.Rows = bounded(p.Rows)
	return p, nil
}

// Failures asks all nodes what failed there, and lists the limit latest; 0 stands for 100.
func Failures(ctx context.Context, o *Operator, limit int) (inspect.Failures, error) {
	all := inspect.Failures{Cluster: o.clusterName()}
	var list []inspect.Failure
	silent, err := ask(ctx, o, "", "failures", failureQuery{}, func(k core.NodeKey, p page[tally.Failure]) {
		all.Count += p.Count
		for i := range p.Rows {
			list = append(list, failureOf(k, &p.Rows[i]))
		}
	})
	all.Silent = silent
	all.Failures = sorted(list, limit, func(a, b *inspect.Failure) int {
		return cmp.Or(b.Last.Compare(a.Last), strings.Compare(a.Function, b.Function), strings.Compare(string(a.Node), string(b.Node)))
	})
	return all, err
}

// failureOf is the row of a failure.
func failureOf(k core.NodeKey, f *tally.Failure) inspect.Failure {
	return inspect.Failure{
		Node: k.Node, Function: f.Function, Kind: string(f.Kind), Panic: f.Panic, Count: f.Count, Left: f.Left,
		First: f.First, Last: f.Last, Text: f.Text, ID: f.ID,
		Work: f.Work, Stack: f.Stack,
	}
}

// failureQuery says which failures a node is asked for: those to which one of the fields fits. The zero value says all.
type failureQuery struct {
	Prefix string   `json:"prefix,omitempty"` // how the id begins
	Tasks  []string `json:"tasks,omitempty"`  // functions
	Grain  string   `json:"grain,omitempty"`  // kind/key, as failures show it
}

func (q *failureQuery) fits(f *tally.Failure) bool {
	return q.Prefix != "" && strings.HasPrefix(f.ID, q.Prefix) || f.Kind == tally.TaskKind && slices.Contains(q.Tasks, f.Function) ||
		q.Grain != "" && callOf(f.Work, f.Function, q.Grain)
}

// callOf reports whether work, kind/key.method, is a call of the grain; function is kind.method.
func callOf(work, function, grain string) bool {
	kind, _, _ := strings.Cut(grain, "/")
	return strings.HasPrefix(work, grain) && work[len(grain):] == strings.TrimPrefix(function, kind)
}

func (q *failureQuery) all() bool { return q.Prefix == "" && q.Grain == "" && len(q.Tasks) == 0 }

// ownFailures are those of this node.
func ownFailures(o *Operator, _ context.Context, q failureQuery) (p page[tally.Failure], err error) {
	p.Rows = taskengine.Tally(o.Tasks).Failures()
	if !q.all() {
		p.Rows = slices.DeleteFunc(p.Rows, func(f tally.Failure) bool { return !q.fits(&f) })
	}
	p.Count = len(p.Rows)
	p.Rows = bounded(p.Rows)
	return p, nil
}
