package transfer

import (
	"cmp"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
)

// outlet is to whom this node gave a large object, or gives it: where it sends others, so that the copies make a tree.
// All of it is guarded by the engine's mu.
type outlet struct {
	object    *objectstore.Object
	receivers map[core.NodeKey]*receiver
}

// receiver has a copy, or is about to.
type receiver struct {
	out     *outlet
	key     core.NodeKey
	streams int  // that give it the object now
	whole   bool // it has all of it
	sent    int  // how many others were sent to it
}

// maxNamed is how many nodes a receiver is told of: the one it should go to, and some for when that one fails.
const maxNamed = 4

// place decides whether this node gives an object to a receiver itself, which is then counted, or whom it names instead.
func (e *Engine) place(o *objectstore.Object, to core.NodeKey, failed []failure) (*receiver, []core.NodeKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.given[o.ID()]
	if out == nil || out.object != o { // another attempt has the id now: who has the last one's bytes is no source of these
		e.sweep()
		out = &outlet{o, map[core.NodeKey]*receiver{}}
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
			r = &receiver{out: out, key: to}
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
	if r.streams == 0 && !r.whole && r.out.receivers[r.key] == r {
		delete(r.out.receivers, r.key)
		e.tidy(r.out)
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

func (e *Engine) tidy(out *outlet) {
	if len(out.receivers) == 0 && e.given[out.object.ID()] == out {
		delete(e.given, out.object.ID())
	}
}

// sweep forgets objects that this node does not have any more, once there may be as many of them as of others, so that a
// node which gives away one object after another remembers no more than twice those that it has. mu is held.
func (e *Engine) sweep() {
	if len(e.given) < max(minSwept, e.swept) {
		return
	}
	for id := range e.given {
		if e.cfg.Store.Lookup(id) == nil {
			delete(e.given, id)
		}
	}
	e.swept = 2 * len(e.given)
}

const minSwept = 64

// forgetObject is for an object that this node does not have any more.
func (e *Engine) forgetObject(id raysys.TaskID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.given, id)
}
