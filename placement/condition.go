package placement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/raysys/raysys"
)

// Condition says on which nodes work is to be: on those with a label, or on those that it names. A Request is placed where all of its
// hard conditions hold (affinity), or hold not (anti-affinity). Where its soft conditions hold it is placed if it begins there at once.
type Condition struct {
	Label  string          // of the node; "" for the nodes named
	Values []string        // one of which the label has; any where there are none
	Nodes  []raysys.NodeID // without a Label: the nodes
	Not    bool            // all other nodes
	Soft   bool            // a preference
	About  string          // what the Nodes have, for messages: "grain counter/alice is"; "" where the program named them
}

// met reports whether n is one of the nodes on which the work is to be.
func (c *Condition) met(n *Node) bool {
	if c.Label == "" {
		return slices.Contains(c.Nodes, n.ID) != c.Not
	}
	value, ok := n.Labels[c.Label]
	return (ok && (len(c.Values) == 0 || slices.Contains(c.Values, value))) != c.Not
}

// String says it in words, such as "not on a node with the label zone=a|b".
func (c *Condition) String() string {
	var b strings.Builder
	if c.Not {
		b.WriteString("not ")
	}
	switch {
	case c.Label != "":
		b.WriteString("on a node with the label " + c.Label)
		if len(c.Values) > 0 {
			b.WriteString("=" + strings.Join(c.Values, "|"))
		}
		return b.String()
	case c.About != "":
		b.WriteString("where " + c.About + ": ")
		if len(c.Nodes) == 0 {
			b.WriteString("nowhere")
		}
	default:
		b.WriteString("on ")
	}
	for i, id := range c.Nodes {
		if i > 0 {
			b.WriteString(" or ")
		}
		b.WriteString(string(id))
	}
	return b.String()
}

// key is what is equal in conditions on a label that are equal.
func (c *Condition) key() string { return fmt.Sprintf("%t %q %q ", c.Not, c.Label, c.Values) }

// Meets reports whether n has the labels of r and meets its conditions, the soft ones too.
func (r *Request) Meets(n *Node) bool {
	for key, want := range r.Labels {
		if have, ok := n.Labels[key]; !ok || have != want {
			return false
		}
	}
	for i := range r.Conditions {
		if !r.Conditions[i].met(n) {
			return false
		}
	}
	return true
}

// unmet returns the first hard condition that keeps r from n, nil for none.
func (r *Request) unmet(n *Node) *Condition {
	for i := range r.Conditions {
		if c := &r.Conditions[i]; !c.Soft && !c.met(n) {
			return c
		}
	}
	return nil
}

// soft counts the soft conditions.
func (r *Request) soft() (count int) {
	for i := range r.Conditions {
		if r.Conditions[i].Soft {
			count++
		}
	}
	return count
}

// prefers is the greater the gladder n is taken: a bit for each soft condition, that of the first is the highest.
func (r *Request) prefers(n *Node) (bits uint64) {
	for i := range r.Conditions {
		if c := &r.Conditions[i]; c.Soft {
			bits <<= 1
			if c.met(n) {
				bits |= 1
			}
		}
	}
	return bits
}

// hard returns the conditions that are not soft, with room for the others.
func (r *Request) hard() []Condition {
	list := make([]Condition, 0, len(r.Conditions))
	for _, c := range r.Conditions {
		if !c.Soft {
			list = append(list, c)
		}
	}
	return list
}

// hardWords are the hard conditions in words.
func (r *Request) hardWords() string {
	var words []string
	for i := range r.Conditions {
		if c := &r.Conditions[i]; !c.Soft {
			words = append(words, c.String())
		}
	}
	return strings.Join(words, ", ")
}

// named is what the hard conditions of a request that name nodes leave of a view. A shape knows nothing of them: the nodes that have
// an object, or a grain, differ with each of them.
type named struct {
	limited bool  // to only
	only    []int // in order
	never   []int // in order; empty where limited
}

// tally counts the nodes of a shape by cause, for a request that names nodes.
func (n *named) tally(s *shape) tally {
	t := s.tally
	passes := func(c cause) bool { return c == fit || c >= joining }
	for _, i := range n.never {
		if c := s.causes[i]; passes(c) {
			t[c]--
			t[unmet]++
		}
	}
	if !n.limited {
		return t
	}
	for c := range causes {
		if passes(c) {
			t[unmet] += t[c]
			t[c] = 0
		}
	}
	for _, i := range n.only {
		if c := s.causes[i]; passes(c) {
			t[c]++
			t[unmet]--
		}
	}
	return t
}
