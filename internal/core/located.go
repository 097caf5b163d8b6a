package core

// Located is a Source that knows which node has the value.
type Located interface {
	// Where names the node, zero for this one, and says about how large the encoding is, 0 where that is not known.
	Where() (at NodeKey, size int64)
}

// Whereabouts says where a value lies that is too large to travel along.
type Whereabouts struct {
	NodeKey       // the node that has it. This node has it too if Here is set. Zero: no other is known
	Size    int64 // of the encoding, about
	Here    bool  // it is on this node, in memory or on disk
}

// unknownSize stands for the size of an object that no node has reported: most are larger than ObjectSize by far.
const unknownSize = 1 << 20

// WhereaboutsOf returns where the value of c lies, which has settled. ok is false for a failure, for a value that is
// no object, and for a value in this node's memory of which no copy is known elsewhere. It costs nothing for a small
// value.
func WhereaboutsOf(c *Future) (w Whereabouts, ok bool) {
	word := c.word.Load()
	if word&phaseMask != phaseReady || word&(flagAbsent|flagKept) == 0 {
		return w, false
	}
	src := SourceOf(c)
	l, ok := src.(Located)
	if ok {
		w.NodeKey, w.Size = l.Where()
	}
	if w.Size == 0 {
		w.Size = c.toldSize()
	}
	here := word&flagAbsent == 0
	if here && (!ok || w.Node == "") {
		return Whereabouts{}, false
	}
	w.Here = here || ok && w.Node == ""
	return w, true
}

// toldSize is the reported size of a value that is or was elsewhere, 0 when it is not known.
func (c *Future) toldSize() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.absenceLocked(); a != nil && a.size > 0 {
		return a.size
	}
	return unknownSize
}
