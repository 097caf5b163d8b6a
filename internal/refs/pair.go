package refs

import "github.com/raysys/raysys/internal/core"

// A reference to the result of a task names two futures where the value is not on the node that submitted the task. The
// owner's has the bytes. The submitter's has the recipe, by which a lost value is made again. Both travel, and both are
// counted like any:
//
//	submitter ── the recipe ◀── counts ──┐
//	    │ counted                        holder ── a future, whose source keeps the owner's and the submitter's
//	    ▼                                │
//	  owner ────── the bytes ◀── counts ─┘
//
// The forms of the two halves, by what the sender of the reference is:
//
//	sender        owner's half              submitter's half
//	submitter     borrowed, without lender  mine
//	owner         mine                      borrowed
//	third node    borrowed                  borrowed
//
// A half that is a future of the receiver is "yours". To the submitter the owner's half is not sent: it has both. The
// submitter lends the owner's half by its own: what counts the receiver for the submitter's future keeps that, and so the
// owner's.

// named is what a reference to a future names.
type named struct {
	future    *core.Future  // the owner's, or what stands for it here
	owner     *RemoteSource // the owner's future, nil for one of this node
	submitter *RemoteSource // the submitter's future, nil where submitted is set or owner is all
	submitted bool          // this node is the submitter, and another the owner
	recorded  *RemoteSource // names the task, whose submitter the record of the task alone knows: see References.Stored; else nil
}

// namedBy returns what a reference to c names.
func namedBy(c *core.Future) named {
	switch s := core.SourceOf(c).(type) {
	case standIn:
		at := s.local()
		if by := at.submitter; by != nil && by.Number == 0 {
			return named{future: at.future, recorded: by}
		}
		return named{future: at.future, submitter: at.submitter}
	case standsFor:
		n := named{future: c, owner: s.Remote()}
		if n.owner.Number == 0 { // it stands for a copy: the peer asks this node
			if n.owner.run.Load() != 0 {
				return named{future: c, recorded: n.owner}
			}
			return named{future: c}
		}
		if n.submitted = c.Recipe() != nil; !n.submitted {
			n.submitter = n.owner.submitter.Load()
		}
		return n
	}
	return named{future: c}
}

// numberAt returns the number of the future at a node that needs no other; 0 when the node needs to be told more.
func (n named) numberAt(k core.NodeKey) uint64 {
	s := n.submitter
	if s == nil && !n.submitted {
		s = n.owner
	}
	if s == nil || s.Owner != k {
		return 0
	}
	return s.Number
}

// SubmitterOf names the node that submitted the task of c, where that is another; zero where it is this one, or not known.
func SubmitterOf(c *core.Future) core.NodeKey {
	switch n := namedBy(c); {
	case n.submitter != nil:
		return n.submitter.Owner
	case n.owner != nil && !n.submitted:
		return n.owner.Owner
	}
	return core.NodeKey{}
}
