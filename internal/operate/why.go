package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/refs"
)

// maxExplained bounds what one node says to one id.
const maxExplained = 32

// merged adds what the submitter knows of a value to what another node knows.
func merged(e, submitter core.Explanation) core.Explanation {
	if !submitter.Recipe && submitter.NoRecipe == "" {
		return e
	}
	e.Name, e.Submitter, e.Attempt = submitter.Name, submitter.Submitter, submitter.Attempt
	e.Adopter = cmp.Or(e.Adopter, submitter.Adopter)
	e.Recipe, e.NoRecipe, e.Inputs, e.More = submitter.Recipe, submitter.NoRecipe, submitter.Inputs, submitter.More
	e.Error = cmp.Or(e.Error, submitter.Error)
	return e
}

// explanations are all answers, by id.
func explanations(ctx context.Context, o *Operator, prefix string) (byID map[string]core.Explanation, silent []string) {
	var list []core.Explanation
	silent, _ = ask(ctx, o, "", "why", prefix, func(_ core.NodeKey, own []core.Explanation) {
		list = append(list, own...)
	})
	// Who has the value, or its task, knows more than who holds a reference, and of those one that has looked for the value.
	rank := func(e core.Explanation) int {
		switch {
		case !e.Held:
			return 0
		case e.State == "lost":
			return 1
		}
		return 2
	}
	slices.SortStableFunc(list, func(a, b core.Explanation) int { return cmp.Compare(rank(a), rank(b)) })
	byID = map[string]core.Explanation{}
	for _, e := range list {
		one, known := byID[e.ID]
		switch {
		case !known:
			one = e
		case e.Held:
		case e.Recipe || e.NoRecipe != "":
			one = merged(one, e)
		case one.Recipe || one.NoRecipe != "":
			one = merged(e, one)
		}
		byID[e.ID] = one
	}
	return byID, silent
}

// namedTask is what is known of a detached task with a name.
type namedTask struct {
	core.Explanation
	namespace string
}

// namedTasks are the detached tasks that have a name, in the given namespaces.
func namedTasks(ctx context.Context, o *Operator, name string, spaces []string) (list []namedTask, err error) {
	c := o.Node.Cluster()
	if c == nil || c.Lineage == nil {
		return nil, nil
	}
	for _, space := range spaces {
		e, at, ok, err := c.Lineage.ExplainNamed(ctx, space, name)
		if err != nil {
			return nil, fmt.Errorf("the record of the name %q: %w", name, err)
		}
		if ok && at != (core.NodeKey{}) {
			attempt := e.Attempt
			if more, err := o.askSubmitter(ctx, e, at, e.ID); err == nil {
				e = more
			}
			e.Attempt = max(e.Attempt, attempt)
		}
		if ok {
			list = append(list, namedTask{e, space})
		}
	}
	return list, nil
}

// explainLimit bounds what a node waits for the directory before it answers with what it knows by itself.
const explainLimit = 2 * time.Second

// ownExplain says what this node knows of the values whose ids begin with prefix.
func ownExplain(o *Operator, ctx context.Context, prefix string) ([]core.Explanation, error) {
	ctx, cancel := context.WithTimeout(ctx, explainLimit)
	defer cancel()
	wanted := func(id raysys.TaskID) bool { return strings.HasPrefix(id.String(), prefix) }
	store := o.Node.Objects()
	list := o.Tasks.Explain(wanted, maxExplained, func(c *core.Future, e *core.Explanation) {
		if store != nil {
			store.Explain(ctx, c, e)
		}
	})
	if store != nil {
		list = append(list, store.ExplainAll(ctx, wanted, maxExplained)...)
	}
	if in := o.Node.Cluster(); in != nil {
		for _, c := range in.Refs.Orphans(wanted, maxExplained) {
			e, _, _ := o.explainHeld(ctx, c)
			_, id := refs.RecordedAs(c) // its own names a future that nothing has waited for yet
			if e.ID, e.Held = id.String(), true; e.Error != "" && !e.Recipe {
				e.State = "lost"
			}
			list = append(list, e)
		}
	}
	return list, nil
}

// explanation is e as the program sees it.
func explanation(e *core.Explanation) raysys.Explanation {
	out := raysys.Explanation{
		ID: e.ID, Name: e.Name, State: e.State, Error: e.Error, Size: e.Size, Owner: e.Owner, Copies: e.Copies, Submitter: e.Submitter,
		Adopter: e.Adopter, Attempt: e.Attempt, Recipe: e.Recipe, NoRecipe: e.NoRecipe, More: e.More,
	}
	for i := range e.Inputs {
		out.Inputs = append(out.Inputs, explanation(&e.Inputs[i]))
	}
	return out
}
