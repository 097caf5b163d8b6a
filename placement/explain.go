package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys"
)

// explain says how the decision came about: a line of the strategy, then one for each node. It runs the filters a
// second time instead of recording their results, so that a decision without Explain costs nothing.
func (v *View) explain(r *Request, chosen *Decision) []string {
	var out []string
	if chosen != nil {
		out = append(out, chosen.account(r.Key))
	}
	for _, f := range v.Fits(*r) {
		line := string(f.Node) + ": " + f.Why
		if chosen != nil && f.Node == chosen.Node {
			line += ", chosen"
		}
		out = append(out, line)
	}
	return out
}

// Fits says of each node, in the order of their IDs, whether it may take r, and what it asks for that is not free there.
func (v *View) Fits(r Request) (list []raysys.NodeFit) {
	for i := range v.nodes {
		v.refresh(i)
		n := &v.nodes[i]
		f := raysys.NodeFit{Node: n.ID}
		c := v.exclude(i, &r)
		switch {
		case c == fit:
			f.Why = v.state(i, &r)
			f.Short = n.Short(r.Needs)
		case c == unmet:
			f.Why, f.Never = "against the condition: "+r.unmet(n).String(), true
		case c == noRoom:
			f.Why, f.Short = c.why(&r), n.Short(r.Needs)
		default:
			f.Why, f.Never = c.why(&r), c < joining
		}
		list = append(list, f)
	}
	return list
}

// Queues returns the nodes where r, which asks for resources, may wait for room, in the order of their IDs; of suspect ones only where
// there are no others.
func (v *View) Queues(r Request) (list []raysys.NodeID) {
	r.Now, r.Queue, r.Avoid = false, true, nil
	if c, ok := v.candidates(&r, v.shapeOf(&r)); ok {
		c.all(func(i int) { list = append(list, v.nodes[i].ID) })
	}
	return list
}

// Account says how a strategy chose, and between which nodes.
type Account struct {
	Strategy raysys.Strategy
	Drawn    [2]Drawn // at random; the second without a name where one was left, both where all were compared
	Looked   int      // nodes that were compared of those that fit; 0 where all were, or two
	Stayed   bool     // on the node that asks, which was not drawn
	Soft     int      // conditions that were a preference
	Met      int      // of these, those that the node was chosen for
}

// Drawn is a node that was drawn at random.
type Drawn struct {
	Node raysys.NodeID
	Wait time.Duration // estimated, of a task there
}

func (v *View) account(r *Request, s raysys.Strategy, drawn pair, looked, chosen int) Account {
	a := Account{Strategy: s, Stayed: s == raysys.PreferLocal && chosen == v.asks(r)}
	if looked == maxLooked {
		a.Looked = looked
	}
	for k, i := range []int{drawn.a, drawn.b} {
		if i >= 0 {
			a.Drawn[k] = Drawn{v.nodes[i].ID, v.nodes[i].Wait(r.Needs)}
		}
	}
	return a
}

// account is what there is to say of a decision for key.
func (d *Decision) account(key string) string {
	a := &d.Account
	switch {
	case a.Soft == 0:
		return d.chose(key)
	case a.Met == 0:
		return fmt.Sprintf("%s, none of %d preferences", d.chose(key), a.Soft)
	}
	return fmt.Sprintf("%s: of those with %d of %d preferences where it begins at once", a.Strategy, a.Met, a.Soft)
}

// chose is what the strategy has to say of a decision for key.
func (d *Decision) chose(key string) string {
	a := &d.Account
	switch {
	case a.Strategy == raysys.ByHash:
		return fmt.Sprintf("hash: key %q", key)
	case a.Looked > 0:
		return fmt.Sprintf("%s: looked at %d of those that fit", a.Strategy, a.Looked)
	case a.Drawn[0].Node == "":
		return string(a.Strategy) + ": looked at all that fit"
	case a.Stayed:
		return fmt.Sprintf("prefer-local: %s asks", d.Node)
	case a.Drawn[1].Node == "":
		return fmt.Sprintf("%s: only %s is left", a.Strategy, d.Node)
	}
	return fmt.Sprintf("%s: drew %s and %s", a.Strategy, a.Drawn[0].Node, a.Drawn[1].Node)
}

// Scores are the account of a decision for key in lines: of the strategy, then of the nodes that it compared.
func (d *Decision) Scores(key string) []string {
	out := []string{d.account(key)}
	for _, n := range d.Account.Drawn {
		if n.Node != "" && n.Node != d.Node {
			out = append(out, fmt.Sprintf("%s: wait %v", n.Node, n.Wait.Round(time.Microsecond)))
		}
	}
	line := fmt.Sprintf("%s: wait %v", d.Node, d.Wait.Round(time.Microsecond))
	if d.Move > 0 {
		line += fmt.Sprintf(", inputs in %v", d.Move.Round(time.Microsecond))
	}
	return append(out, line+", chosen")
}

// state is what decides between nodes that fit.
func (v *View) state(i int, r *Request) string {
	n := &v.nodes[i]
	s := []string{fmt.Sprintf("wait %v", n.Wait(r.Needs).Round(time.Microsecond))}
	if r.Kind == Task {
		s = append(s, fmt.Sprintf("%d tasks", n.Queued+n.Running))
	}
	if r.moves() {
		s = append(s, fmt.Sprintf("%d bytes to move in %v", r.Inputs.missing(n), n.Move(r.Inputs).Round(time.Microsecond)))
	}
	s = append(s, fmt.Sprintf("%d grains", n.Grains))
	for k := range r.Conditions {
		if c := &r.Conditions[k]; c.Soft && !c.met(n) {
			s = append(s, "against the preference: "+c.String())
		}
	}
	if slices.Contains(r.Avoid, n.ID) {
		s = append(s, "to avoid")
	}
	if n.Suspect {
		s = append(s, "suspect")
	}
	if n.Crowded {
		s = append(s, "short of memory")
	}
	return strings.Join(s, ", ")
}

func labels(m map[string]string) string {
	var s []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		s = append(s, k+"="+m[k])
	}
	return strings.Join(s, ", ")
}
