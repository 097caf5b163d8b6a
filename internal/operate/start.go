package operate

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/lineage"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/taskengine"
)

// A named task is started, and its argument and outcome are shown, by a worker that has the function: the types are
// its program's.

// startAnswer is what a worker answers.
type startAnswer struct {
	inspect.Started
	Bad string `json:"bad,omitempty"` // why no worker can start it
}

const (
	startPatience = 10 * time.Second // for the record of the task to be entered
	maxStarted    = 1 << 20          // bytes of the argument, as JSON
	maxArgument   = 4 << 10          // bytes of an argument, shown as JSON
	nearNames     = 5                // names in the error for one that is not there
)

// Start is that of a system.Node.
func Start(ctx context.Context, o *Operator, q inspect.StartQuery) (inspect.Started, error) {
	none := inspect.Started{}
	if o.Node.Cluster() == nil {
		return none, fmt.Errorf("start %s: %w", q.Function, errInNoCluster)
	}
	switch {
	case !utf8.ValidString(q.Name):
		return none, fmt.Errorf("%w: the name %q is no UTF-8: give another", raysys.ErrBadOption, q.Name)
	case len(q.Argument) > maxStarted:
		return none, fmt.Errorf("%w: the argument has %d bytes, at most %d may be: give what the task can read it from",
			raysys.ErrBadOption, len(q.Argument), maxStarted)
	}
	_, silent := o.spaces(ctx) // a connection tells what a program has
	able, names := workersWith(o, q.Function, q.Namespace)
	spaces := slices.Sorted(maps.Keys(able))
	switch {
	case len(spaces) == 0:
		slices.SortStableFunc(names, func(a, b string) int {
			return cmp.Compare(alike(b, q.Function), alike(a, q.Function))
		})
		err := unknown("task", q.Function, names[:min(len(names), nearNames)])
		if len(silent) > 0 {
			err = fmt.Errorf("%w (no answer: %s)", err, strings.Join(silent, "; "))
		}
		return none, err
	case len(spaces) > 1:
		return none, fmt.Errorf("%w: the programs %s have a task %s: say of which with --namespace",
			raysys.ErrBadOption, strings.Join(spaces, " and "), q.Function)
	}
	if q.Name == "" {
		q.Name = q.Function + "-" + strings.ToLower(rand.Text()[:4])
	}
	workers := able[spaces[0]]
	m := workers[mathrand.IntN(len(workers))]
	t := askMembers[startAnswer](ctx, o, []member.Node{m}, "start", q)[mesh.KeyOf(m)]
	switch {
	case t.err != nil:
		return none, fmt.Errorf("start %s as %q on %s: %w", q.Function, q.Name, m.ID, t.err)
	case t.answer.Bad != "":
		return none, fmt.Errorf("%w: %s", raysys.ErrBadOption, t.answer.Bad)
	}
	return t.answer.Started, nil
}

// workersWith are the workers whose programs have a task, by namespace, or by that alone which is given, and the names
// of all tasks of these programs.
func workersWith(o *Operator, function, namespace string) (able map[string][]member.Node, names []string) {
	able = map[string][]member.Node{}
	for _, m := range o.Members() {
		space, table, ok := tableOf(o, mesh.KeyOf(m))
		if !ok || !m.Info.Eligible() || namespace != "" && namespace != space {
			continue
		}
		for _, f := range table {
			if f.Kind == "task" {
				names = append(names, f.Name)
			}
			if f.Kind == "task" && f.Name == function {
				able[space] = append(able[space], m)
			}
		}
	}
	slices.Sort(names)
	return able, slices.Compact(names) // those of a worker are those of all
}

// alike is how many letters two names share at their ends.
func alike(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	for a, b = a[n:], b[n:]; a != "" && b != "" && a[len(a)-1] == b[len(b)-1]; n++ {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return n
}

// ownStart submits a task on this node.
func ownStart(o *Operator, ctx context.Context, q inspect.StartQuery) (a startAnswer, err error) {
	entry, c := o.Job.Table.Lookup("task", q.Function), o.Node.Cluster()
	switch {
	case entry == nil:
		return a, fmt.Errorf("%w: task %s is not in this program", raysys.ErrUnknownFunc, q.Function)
	case c == nil || c.Lineage == nil:
		return a, errors.New("a named task needs durable lineage: see RAYSYS_LINEAGE")
	}
	p, err := taskengine.PackJSON(entry, q.Argument, raysys.Detached(q.Name))
	if errors.Is(err, raysys.ErrBadOption) {
		a.Bad = strings.TrimPrefix(err.Error(), raysys.ErrBadOption.Error()+": ")
		return a, nil
	} else if err != nil {
		return a, err
	}
	late := fmt.Errorf("its record was not there within %v: start it again, to join it", startPatience)
	ctx, cancel := context.WithTimeoutCause(o.Context(ctx), startPatience, late)
	defer cancel()
	a.Started = inspect.Started{Name: q.Name, Namespace: o.Namespace, Function: q.Function, Node: o.Name}
	j, err := lineage.ReadJob(ctx, c.Lineage, q.Name)
	// A submission that joins would wait here for the end of the task, ask for it, and keep a drain.
	a.Joined = err == nil && !j.Settled && taskengine.IsRecorded(j.Argument, &p)
	if !a.Joined {
		f := core.FutureOf(taskengine.GoPacked(ctx, &p)) // returns when it is recorded
		if f.Failed() && errors.Is(f.Failure(), raysys.ErrNameTaken) {
			return a, f.Failure()
		}
		if j, err = lineage.ReadJob(ctx, c.Lineage, q.Name); err != nil {
			return a, errors.Join(f.Failure(), err)
		}
		a.Joined = j.ID != f.ID()
	}
	a.ID = j.ID.String()
	return a, nil
}

// jobShown is what a worker shows of a named task.
type jobShown struct {
	Argument *inspect.State `json:"argument,omitempty"`
	Outcome  *inspect.State `json:"outcome,omitempty"`
}

// showJob adds the argument and the outcome of a named task, which a node of its program shows.
func showJob(ctx context.Context, o *Operator, t *inspect.Thing) {
	able, _ := workersWith(o, functionOf(t), t.Namespace)
	for _, m := range able[t.Namespace] {
		if a := askMembers[jobShown](ctx, o, []member.Node{m}, "job", exact(t.Name))[mesh.KeyOf(m)]; a.err == nil {
			t.Argument, t.Outcome = a.answer.Argument, a.answer.Outcome
			return
		}
	}
}

// ownJob shows a named task of this program.
func ownJob(o *Operator, ctx context.Context, name exact) (a jobShown, err error) {
	c := o.Node.Cluster()
	if c == nil || c.Lineage == nil {
		return a, nil
	}
	j, err := lineage.ReadJob(ctx, c.Lineage, string(name))
	entry := o.Job.Table.Lookup("task", j.Function)
	if err != nil || entry == nil || j.Err != nil {
		return a, err // a failure is told otherwise
	}
	text, limit, show := j.Argument, maxArgument, taskengine.RecordedArgument
	s := &inspect.State{Namespace: o.Namespace, Object: j.Object}
	if a.Argument = s; j.Settled {
		a.Argument, a.Outcome = nil, s
		text, limit, show = j.Result, maxStateShown, taskengine.RecordedResult
	}
	if s.Bytes = len(text); j.Object != "" {
		s.Why = "it is large, and an object of its own"
		return a, nil
	}
	v, err := show(entry, text)
	if err != nil {
		s.Why = err.Error()
		return a, nil
	}
	*s, err = shownAs(ctx, *s, v, limit, decodePatience)
	return a, err
}

// startOf names what a question asks to start, for the log.
func startOf(query []byte) string {
	var q inspect.StartQuery
	_ = json.Unmarshal(query, &q) // who answers refuses it
	return fmt.Sprintf("start task %.512s as %.512q", q.Function, q.Name)
}
