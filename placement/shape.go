package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// A view keeps, for each shape of request that it was asked for lately, which nodes fit. So a request finds the few that
// fit, or that none does, without a look at all nodes, and a change of a node is entered in each shape.
//
//	shape        what filters the nodes: kind, function, namespace, needs, labels, now
//	fits[rank]   the nodes that fit, by rank: sound, shunned
//	tally        of all nodes, by cause

// maxShapes bounds how many a view keeps: all go when there are more.
const maxShapes = 64

// shapeKey is what is equal in requests of one shape.
type shapeKey struct {
	kind                Kind
	now, queue          bool
	function, namespace string
	cpu, gpu            float64
	memory, gpuMemory   int64
	gpuModel            string
	custom, labels      string
}

// shape is the nodes of a view as requests of one shape see them.
type shape struct {
	request Request // what filters, without a Seed, a Key or Inputs
	causes  []cause
	shunned []bool
	fits    [2]set
	tally   tally
	there   *there // for errors; nil until one asks
}

// enter enters node i, which has not been entered or was taken out.
func (s *shape) enter(v *View, i int) {
	c := v.exclude(i, &s.request)
	s.causes[i], s.shunned[i] = c, v.nodes[i].shunned()
	s.tally[c]++
	if c == fit {
		s.fits[rank(s.shunned[i])].add(i)
	}
}

// correct enters node i anew after it has changed.
func (s *shape) correct(v *View, i int) {
	if s.causes[i] != fit && s.causes[i] < joining {
		return // that does not pass
	}
	if s.causes[i] == fit {
		s.fits[rank(s.shunned[i])].remove(i)
	}
	s.tally[s.causes[i]]--
	s.enter(v, i)
}

func rank(shunned bool) int {
	if shunned {
		return 1
	}
	return 0
}

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
