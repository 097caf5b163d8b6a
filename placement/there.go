package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// there is what the nodes have where requests of one shape ask for more, or for something else.
type there struct {
	most  raysys.Resources
	words [causes]string // what the nodes have that are out of the question by a cause; "" where that is nothing to say
}

// have returns what the nodes of v have. It is found once: what they have in all, and their labels, do not change.
func (s *shape) have(v *View) *there {
	if s.there != nil {
		return s.there
	}
	m := newMost(&s.request.Needs)
	for i, c := range s.causes {
		if c == tooSmall {
			m.add(&v.nodes[i])
		}
	}
	t := &there{most: m.has}
	t.words[tooSmall] = fmt.Sprintf("the most that one has: %v", m)
	t.words[noLabel] = s.labelsOf(v, noLabel, slices.Sorted(maps.Keys(s.request.Labels)))
	var keys []string
	for _, c := range s.request.Conditions {
		if !c.Not && !slices.Contains(keys, c.Label) {
			keys = append(keys, c.Label)
		}
	}
	t.words[unmet] = s.labelsOf(v, unmet, keys)
	s.there = t
	return t
}

// labelsOf says which values the labels have at the nodes that are out of the question by a cause: "zone is a or b".
func (s *shape) labelsOf(v *View, by cause, keys []string) string {
	var words []string
	for _, key := range keys {
		values := map[string]bool{}
		for i, c := range s.causes {
			if value, ok := v.nodes[i].Labels[key]; ok && c == by {
				values[value] = true
			}
		}
		if len(values) == 0 {
			words = append(words, "none has "+key)
			continue
		}
		words = append(words, fmt.Sprintf("%s is %s", key, core.Listed(slices.Sorted(maps.Keys(values)), " or ")))
	}
	return strings.Join(words, "; ")
}
