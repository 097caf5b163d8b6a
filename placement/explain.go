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
func (v *View) explain(r *Request, s raysys.Strategy, drawn pair, looked, chosen int) []string {
	var out []string
	if chosen >= 0 {
		out = append(out, v.account(r, s, drawn, looked, chosen))
	}
	for i := range v.nodes {
		n := &v.nodes[i]
		line := string(n.ID) + ": "
		if c := v.exclude(i, r); c != fit {
			line += c.why(r)
		} else {
			line += v.state(i, r)
		}
		if i == chosen {
			line += ", chosen"
		}
		out = append(out, line)
	}
	return out
}

// account is what the strategy has to say.
func (v *View) account(r *Request, s raysys.Strategy, drawn pair, looked, chosen int) string {
	name := func(i int) raysys.NodeID { return v.nodes[i].ID }
	switch {
	case s == raysys.ByHash:
		return fmt.Sprintf("hash: key %q", r.Key)
	case looked == maxLooked:
		return fmt.Sprintf("%s: looked at %d of those that fit", s, looked)
	case drawn.a < 0:
		return string(s) + ": looked at all that fit"
	case s == raysys.PreferLocal && chosen == v.local:
		return fmt.Sprintf("prefer-local: %s asks", name(chosen))
	case drawn.b < 0:
		return fmt.Sprintf("%s: only %s is left", s, name(drawn.a))
	}
	return fmt.Sprintf("%s: drew %s and %s", s, name(drawn.a), name(drawn.b))
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
	switch rank := v.reserve(i, r.Avoid); rank {
	case 1:
		s = append(s, "to avoid")
	case 2:
		s = append(s, "suspect")
	case 3:
		s = append(s, "to avoid", "suspect")
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
