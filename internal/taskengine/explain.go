package taskengine

import (
	"github.com/raysys/raysys/internal/core"
)

// Explain implements core.Explainer.
func (rec *recipe) Explain(e *core.Explanation, depth int) {
	rec.mu.Lock()
	inputs := append([]input(nil), rec.inputs...)
	e.Name, e.Attempt, e.Recipe = rec.spec.function(), rec.attempt, rec.why == nil
	if rec.why != nil {
		e.NoRecipe = rec.why.Error()
	}
	rec.mu.Unlock()
	if rec.Submission() > 1 {
		e.Adopter = rec.up.Job.Node
	}
	if depth == 0 {
		e.More = len(inputs)
		return
	}
	if n := core.ExplainInputs; len(inputs) > n {
		e.More, inputs = len(inputs)-n, inputs[:n]
	}
	for _, in := range inputs {
		e.Inputs = append(e.Inputs, in.explain(depth-1))
	}
}

func (in input) explain(depth int) core.Explanation {
	c := in.held
	if in.recipe != nil {
		in.recipe.mu.Lock()
		c = in.recipe.future.Value()
		in.recipe.mu.Unlock()
		if c == nil {
			e := core.Explanation{ID: in.recipe.id().String(), State: "released", Submitter: in.recipe.up.Job.Node}
			in.recipe.Explain(&e, depth)
			return e
		}
	}
	if c == nil {
		c = in.loose.Value()
	}
	if c == nil {
		return core.Explanation{Name: in.name, State: "released", NoRecipe: core.NoTask}
	}
	e := core.Explain(c, depth)
	if in.held == nil && in.recipe == nil {
		e.NoRecipe = core.NoTask
	}
	return e
}

// id is that of the submission.
func (rec *recipe) id() core.TaskID { return rec.up.ID.Child(rec.seq) }

// Explain lists what this node submitted, and could make again, of the ids for which wanted is true. more adds to what is known of a
// value.
func (e *Engine) Explain(wanted func(id core.TaskID) bool, limit int, more func(*core.Future, *core.Explanation)) (list []core.Explanation) {
	if e.lineage == nil {
		return nil
	}
	e.lineage.mu.Lock()
	order := append(e.lineage.order[:0:0], e.lineage.order...)
	e.lineage.mu.Unlock()
	for _, w := range order {
		rec := w.Value()
		if rec == nil || !wanted(rec.id()) {
			continue
		}
		x := input{recipe: rec}.explain(core.ExplainDepth)
		if c := rec.Future(); c != nil {
			more(c, &x)
		}
		if list = append(list, x); len(list) == limit {
			break
		}
	}
	return list
}
