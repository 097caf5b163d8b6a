package operate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/refs"
	"github.com/raysys/raysys/internal/registry"
)

// maxExplained bounds what one node says to one id.
const maxExplained = 32

// WhyValue is core.WhyRuntime: this node says what it knows, and the node that submitted the task how the value is made.
func (o *Operator) WhyValue(ctx context.Context, c *core.Future) (core.Explanation, error) {
	e, at, id := o.explainHeld(ctx, c)
	if at == (core.NodeKey{}) {
		return e, nil
	}
	return o.askSubmitter(ctx, e, at, id)
}

// explainHeld says what this node knows of a value, and which node to ask for more: it has the task, or owns the value, under an id.
func (o *Operator) explainHeld(ctx context.Context, c *core.Future) (e core.Explanation, at core.NodeKey, under string) {
	e = core.Explain(c, core.ExplainDepth)
	if store := o.Node.Objects(); store != nil {
		store.Explain(ctx, c, &e)
	}
	in := o.Node.Cluster()
	if in == nil {
		return e, at, ""
	}
	at = refs.SubmitterOf(c)
	e.Submitter = cmp.Or(at.Node, e.Submitter)
	run, id := refs.RecordedAs(c)
	switch lost := at == (core.NodeKey{}) || !in.Mesh.Alive(at); {
	case lost && run != 0 && in.Lineage != nil && c.Recipe() == nil:
		at = in.Lineage.ExplainRecorded(ctx, registry.TaskKey{Run: run, ID: id}, &e)
		return e, at, id.String()
	case at == (core.NodeKey{}):
		return e, at, ""
	case lost:
		if e.NoRecipe = fmt.Sprintf("its submitter %s is dead", at.Node); e.State != "lost" && e.Error == "" {
			e.NoRecipe += ", so it cannot be made again once its copies are gone"
		}
		return e, core.NodeKey{}, ""
	}
	return e, at, e.ID
}

// askSubmitter adds what the node that has the task of a value knows of it.
func (o *Operator) askSubmitter(ctx context.Context, e core.Explanation, at core.NodeKey, id string) (core.Explanation, error) {
	members := slices.DeleteFunc(slices.Clone(o.Node.Cluster().Member.View().Nodes()), func(m member.Node) bool { return mesh.KeyOf(m) != at })
	for _, a := range o.askAll(ctx, members, adminRequest{op: adminWhy, id: id}) {
		if a.err != nil {
			return e, fmt.Errorf("ask node %s, which has the task: %w", at.Node, a.err)
		}
		for _, of := range a.answer.Why {
			if of.ID != id {
				continue
			}
			if by := e.Submitter; e.Adopter != "" {
				of.Submitter = cmp.Or(by, of.Submitter)
			}
			e = merged(e, of)
		}
	}
	return e, nil
}

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

// Why asks all nodes what they know of the value whose id begins with prefix: the id of a task, or of an object as raysys
// memory shows it. Where no node knows one, prefix is taken for the name of a detached task. The error matches raysys.ErrNotFound when no node knows one, and names some when they know several.
func (o *Operator) Why(ctx context.Context, prefix string) (raysys.Explanation, error) {
	byID, silent := explanations(ctx, o, prefix)
	switch len(byID) {
	case 0:
		spaces, _ := o.spaces(ctx) // who does not answer has been noted
		if named, err := namedTasks(ctx, o, prefix, spaces); len(named) > 0 || err != nil {
			return explanation(&append(named, namedTask{})[0].Explanation), err
		}
		if len(silent) > 0 {
			return raysys.Explanation{}, fmt.Errorf("%w: no node that answers knows %s (no answer: %s)", raysys.ErrNotFound, prefix, strings.Join(silent, "; "))
		}
		return raysys.Explanation{}, fmt.Errorf("%w: no node knows a value whose id begins with %s: it may be small, or released", raysys.ErrNotFound, prefix)
	case 1:
		for _, e := range byID {
			return explanation(&e), nil
		}
	}
	ids := slices.Sorted(maps.Keys(byID))
	return raysys.Explanation{}, fmt.Errorf("%d values have ids that begin with %s: give more of one of %s", len(ids), prefix, strings.Join(ids[:min(len(ids), 8)], ", "))
}

// explanations are all answers, by id.
func explanations(ctx context.Context, o *Operator, prefix string) (byID map[string]core.Explanation, silent []string) {
	var list []core.Explanation
	for k, a := range o.askAll(ctx, o.Members(), adminRequest{op: adminWhy, id: prefix}) {
		if a.err != nil {
			silent = append(silent, fmt.Sprintf("%s: %v", k.Node, a.err))
		}
		list = append(list, a.answer.Why...)
	}
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
	slices.Sort(silent)
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

// explain says what this node knows of the values whose ids begin with prefix.
func (o own) explain(ctx context.Context, prefix string) []core.Explanation {
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
	return list
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
