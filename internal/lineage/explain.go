package lineage

import (
	"cmp"
	"context"
	"fmt"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
)

// ExplainRecorded says what the record of a task tells beside e, which names its submitter as far as a reference knows, dead
// or "". The node that has the task now is asked for more, where it is not zero.
func (l *Lineage) ExplainRecorded(ctx context.Context, k registry.TaskKey, e *core.Explanation) (at core.NodeKey) {
	dead := "its submitter " + string(e.Submitter) + " is dead"
	if e.Submitter == "" {
		dead = "no reference names its submitter"
	}
	rec, err := l.find(ctx, k)
	switch {
	case err != nil:
		e.NoRecipe = fmt.Sprintf("%s, and whether another node has its task is not known: %v", dead, err)
	case rec == nil:
		e.NoRecipe = dead + ", and its task is not recorded any more"
	case l.cfg.Alive(rec.Submitter):
		if at = rec.Submitter; e.Submitter != "" && e.Submitter != at.Node || rec.Attempt > 1 {
			e.Adopter = at.Node
		}
		return at
	case k.Named(), len(rec.States) > 0:
		e.Recipe, e.NoRecipe = true, ""
		e.Error = cmp.Or(e.Error, dead+": the shard's leader asks a worker to take its task over")
	default:
		e.Recipe, e.NoRecipe = true, ""
		e.Error = cmp.Or(e.Error, dead+": the first node that wants the value takes its task over")
	}
	if e.NoRecipe != "" && e.State != "lost" {
		e.NoRecipe += ": it cannot be made again once its copies are gone"
	}
	return core.NodeKey{}
}

// find reads the record of a task; nil where there is none.
func (l *Lineage) find(ctx context.Context, k registry.TaskKey) (*registry.TaskRecord, error) {
	e, err := runner.Wait(ctx, func(done func(registry.TaskEntry, error)) { l.cfg.Tasks.Change(registry.FindTask(k), done) })
	if err != nil || !e.Exists {
		return nil, err
	}
	return &e.Record, nil
}

// ExplainNamed says what the record of a detached task tells, and which node has the task while it runs. ok is false where no
// task of the namespace has the name.
func (l *Lineage) ExplainNamed(ctx context.Context, namespace, name string) (e core.Explanation, at core.NodeKey, ok bool, err error) {
	rec, err := l.find(ctx, registry.NamedTask(namespace, name))
	if err != nil || rec == nil || rec.Name != name {
		return e, at, false, err
	}
	e = core.Explanation{
		ID: rec.Start.ID.String(), Name: functionOf(rec), State: "pending", Submitter: rec.Submitter.Node, Attempt: int(rec.Attempt), Recipe: true,
	}
	switch {
	case len(rec.Outcome) > 0:
		e.State, e.Recipe, e.NoRecipe = "ready", false, "it has settled: its outcome is in the record of its name"
		if out, err := l.readOutcome(rec); err != nil || out.err != nil {
			e.State, e.Error = "failed", fmt.Sprint(cmp.Or(out.err, err))
		} else if out.form == inputNamed {
			e.NoRecipe = "it has settled: its outcome is an object of two nodes, submit the task again if both are lost"
		}
	case l.cfg.Alive(rec.Submitter):
		at = rec.Submitter
	default:
		e.Error = fmt.Sprintf("its submitter %s is dead: the shard's leader asks a worker to take it over", rec.Submitter.Node)
	}
	return e, at, true, nil
}
