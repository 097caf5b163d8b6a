package transfer

import (
	"cmp"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
)

// copyTree lists the receivers to which this node gives or gave a large object. It sends further receivers to them,
// so that the copies make a tree. The engine's mu guards all of it.
type copyTree struct {
	object    *objectstore.Object
	receivers map[core.NodeKey]*receiver
}

// receiver has a copy, or is about to.
type receiver struct {
	tree    *copyTree
	key     core.NodeKey
	streams int  // that give it the object now
	whole   bool // it has all of it
	sent    int  // how many others were sent to it
}

// maxNamed is how many nodes are named to a receiver: the one it should go to, and some for when that one fails.
const maxNamed = 4

// place decides whether this node gives an object to a receiver itself, which is then counted, or which nodes it
// names instead.
func (e *Engine) place(o *objectstore.Object, to core.NodeKey, failed []failure) (*receiver, []core.NodeKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.given[o.ID()]
	if out == nil || out.object != o { // another attempt has the id now: receivers of the last one are no sources of it
		e.forgetAbsent()
		out = &copyTree{o, map[core.NodeKey]*receiver{}}
		e.given[o.ID()] = out
	}
	without := map[core.NodeKey]bool{to: true}
	for _, f := range failed {
		without[f.key] = true
		if r := out.receivers[f.key]; r != nil && r.streams == 0 && (f.code == codeLacks || f.code == codeGone) {
			delete(out.receivers, f.key)
		}
	}
	others := make([]*receiver, 0, len(out.receivers))
	for _, r := range out.receivers {
		if r.key != to {
			others = append(others, r)
		}
	}
	r := out.receivers[to]
	direct := r != nil && r.streams > 0 || len(others) < e.cfg.Fanout
	others = slices.DeleteFunc(others, func(r *receiver) bool { return without[r.key] })
	if direct || len(others) == 0 {
		if r == nil {
			r = &receiver{tree: out, key: to}
			out.receivers[to] = r
		}
		r.streams++
		r.whole = false
		return r, nil
	}
	slices.SortFunc(others, func(a, b *receiver) int {
		return cmp.Or(cmp.Compare(a.sent, b.sent), cmp.Compare(a.key.Node, b.key.Node), cmp.Compare(a.key.Incarnation, b.key.Incarnation))
	})
	others[0].sent++
	keys := make([]core.NodeKey, 0, maxNamed)
	for _, r := range others[:min(len(others), maxNamed)] {
		keys = append(keys, r.key)
	}
	return nil, keys
}

// served ends one stream to a receiver, which is remembered if it has all of the object now.
func (e *Engine) served(r *receiver, whole bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r.streams--
	r.whole = r.whole || whole
	if r.streams == 0 && !r.whole && r.tree.receivers[r.key] == r {
		delete(r.tree.receivers, r.key)
		e.tidy(r.tree)
	}
}

// forgetReceiver is for a peer that is gone. mu is held.
func (e *Engine) forgetReceiver(k core.NodeKey) {
	for _, out := range e.given {
		if out.receivers[k] != nil {
			delete(out.receivers, k)
			e.tidy(out)
		}
	}
}

func (e *Engine) tidy(out *copyTree) {
	if len(out.receivers) == 0 && e.given[out.object.ID()] == out {
		delete(e.given, out.object.ID())
	}
}

// forgetAbsent removes the objects that this node no longer has, once there may be as many of them as of the others:
// a node that gives one object after another keeps at most twice as many trees as it has objects. mu is held.
func (e *Engine) forgetAbsent() {
	if len(e.given) < max(minForget, e.forgetAt) {
		return
	}
	for id := range e.given {
		if e.cfg.Store.Lookup(id) == nil {
			delete(e.given, id)
		}
	}
	e.forgetAt = 2 * len(e.given)
}

const minForget = 64

// forgetObject is called for an object that this node no longer has.
func (e *Engine) forgetObject(id raysys.TaskID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.given, id)
}
