package placing

import (
	"container/list"

	"github.com/raysys/raysys/internal/core"
)

// reports says which nodes have reported their load since when. Each is in the list once, the latest last, so that who looks finds
// those that are news to it without a look at the others.
type reports struct {
	last  uint64 // number of the last report
	order list.List
	of    map[core.NodeKey]*list.Element
}

// report is the last one of a node.
type report struct {
	number uint64
	of     core.NodeKey
}

// add enters a report of a node.
func (r *reports) add(k core.NodeKey) {
	r.last++
	if e := r.of[k]; e != nil {
		e.Value.(*report).number = r.last
		r.order.MoveToBack(e)
		return
	}
	if r.of == nil {
		r.of = map[core.NodeKey]*list.Element{}
	}
	r.of[k] = r.order.PushBack(&report{r.last, k})
}

// remove forgets a node.
func (r *reports) remove(k core.NodeKey) {
	if e := r.of[k]; e != nil {
		r.order.Remove(e)
		delete(r.of, k)
	}
}

// since returns the nodes that have reported after the report with that number, the latest first.
func (r *reports) since(number uint64) (keys []core.NodeKey) {
	for e := r.order.Back(); e != nil && e.Value.(*report).number > number; e = e.Prev() {
		keys = append(keys, e.Value.(*report).of)
	}
	return keys
}
