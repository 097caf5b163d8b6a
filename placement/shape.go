package placement

import (
	"fmt"
	"maps"
	"slices"

	"github.com/raysys/raysys"
)

// A view keeps, for each shape of request that it was asked for lately, which nodes fit. So a request finds the few that
// fit, or that none does, without a look at all nodes, and a change of a node is entered in each shape.
//
//	shape        what filters the nodes: kind, function, namespace, needs, labels, now
//	fits[rank]   the nodes that fit, by rank: sound, suspect
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

func (r *Request) shape() shapeKey {
	k := shapeKey{
		kind: r.Kind, now: r.Now, queue: r.Queue, function: r.Function, namespace: r.Namespace,
		cpu: r.Needs.CPU, gpu: r.Needs.GPU, memory: r.Needs.Memory, gpuMemory: r.Needs.GPUMemory, gpuModel: r.Needs.GPUModel,
	}
	if len(r.Needs.Custom) > 0 {
		var b []byte
		for _, name := range slices.Sorted(maps.Keys(r.Needs.Custom)) {
			b = fmt.Appendf(b, "%q %x ", name, r.Needs.Custom[name])
		}
		k.custom = string(b)
	}
	if len(r.Labels) > 0 {
		var b []byte
		for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
			b = fmt.Appendf(b, "%q %q ", name, r.Labels[name])
		}
		k.labels = string(b)
	}
	for i := range r.Conditions {
		if c := &r.Conditions[i]; c.Label != "" && !c.Soft {
			k.labels += c.key()
		}
	}
	return k
}

// shape is the nodes of a view as requests of one shape see them.
type shape struct {
	request Request // what filters, without a Seed, a Key or Inputs
	causes  []cause
	suspect []bool
	fits    [2]set
	tally   tally
	there   *there // for errors; nil until one asks
}

// shapeOf returns the shape of r, made when it is asked for the first time.
func (v *View) shapeOf(r *Request) *shape {
	k := r.shape()
	if s := v.shapes[k]; s != nil {
		return s
	}
	if v.shapes == nil || len(v.shapes) >= maxShapes {
		v.shapes = map[shapeKey]*shape{}
	}
	n := len(v.nodes)
	s := &shape{
		request: Request{Kind: r.Kind, Now: r.Now, Queue: r.Queue, Function: r.Function, Namespace: r.Namespace, Needs: r.Needs, Labels: maps.Clone(r.Labels)},
		causes:  make([]cause, n), suspect: make([]bool, n), fits: [2]set{v.newSet(), v.newSet()},
	}
	s.request.Needs.Custom = maps.Clone(r.Needs.Custom)
	for _, c := range r.Conditions {
		if c.Label != "" && !c.Soft {
			c.Values = slices.Clone(c.Values)
			s.request.Conditions = append(s.request.Conditions, c)
		}
	}
	for i := range v.nodes {
		s.enter(v, i)
	}
	v.shapes[k] = s
	return s
}

// enter enters node i, which has not been entered or was taken out.
func (s *shape) enter(v *View, i int) {
	c := v.exclude(i, &s.request)
	s.causes[i], s.suspect[i] = c, v.nodes[i].Suspect
	s.tally[c]++
	if c == fit {
		s.fits[rank(s.suspect[i])].add(i)
	}
}

// correct enters node i anew after it has changed.
func (s *shape) correct(v *View, i int) {
	if s.causes[i] != fit && s.causes[i] < joining {
		return // that does not pass
	}
	if s.causes[i] == fit {
		s.fits[rank(s.suspect[i])].remove(i)
	}
	s.tally[s.causes[i]]--
	s.enter(v, i)
}

func rank(suspect bool) int {
	if suspect {
		return 1
	}
	return 0
}

// candidates returns the nodes to choose from, to read: those that fit, of the best rank there is. False: there are none.
func (v *View) candidates(r *Request, s *shape) (*set, bool) {
	avoided := v.indices(make([]int, 0, 8), r.Avoid)
	var n named
	if len(r.Conditions) > 0 {
		n = v.named(r.Conditions)
		avoided = append(avoided, n.never...)
		slices.Sort(avoided)
		avoided = slices.Compact(avoided)
	}
	for k := range s.fits {
		f := &s.fits[k]
		if n.limited {
			f = v.setOf(f.both(n.only))
		}
		but, never := f.both(avoided), f.both(n.never)
		switch {
		case f.n > len(but):
			return f.without(but), true
		case f.n > len(never): // they are to be avoided, and better than a suspect node
			return f.without(never), true
		}
	}
	return nil, false
}

// Update has change correct node id, and reports whether there is one. ID, Incarnation, Namespace, Total, Labels, Worker and
// Runs stay.
func (v *View) Update(id raysys.NodeID, change func(*Node)) bool {
	i, ok := v.index[id]
	if ok {
		change(&v.nodes[i])
		v.changed(i)
	}
	return ok
}

// changed is called when node i has changed.
func (v *View) changed(i int) {
	v.count(i)
	for _, s := range v.shapes {
		s.correct(v, i)
	}
}
