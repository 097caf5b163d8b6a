package objects

import (
	"context"
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/registry"
)

// whereabouts lists the nodes to ask for an object: its owner, its lenders, and the nodes that the directory names.
type whereabouts struct {
	o       *Objects
	oid     raysys.TaskID
	owner   core.NodeKey
	lenders func() []core.NodeKey
	files   []raysys.NodeID // that have it in a file, as far as that is known
	asked   map[core.NodeKey]bool
	found   bool           // the directory was asked
	last    bool           // it is asked once more, after every node of the first round
	list    []core.NodeKey // nodes still to be asked
}

// again begins another round, and reports whether it did: once, when the owner is dead. The first round asked the
// directory while the owner may have lived; copies that were made since then, or were about to be entered, can serve now.
func (w *whereabouts) again() bool {
	if w.last || w.o.mesh.Alive(w.owner) {
		return false
	}
	w.last, w.found, w.asked = true, false, nil // nodes that were not reached before are asked again
	return true
}

// Next implements transfer.Sources.
func (w *whereabouts) Next(ctx context.Context) (core.NodeKey, error) {
	if w.asked == nil {
		w.asked, w.list = map[core.NodeKey]bool{w.o.self(): true, w.owner: true}, w.lenders()
		if w.o.mesh.Alive(w.owner) {
			return w.owner, nil
		}
	}
	for {
		for len(w.list) > 0 {
			k := w.list[0]
			w.list = w.list[1:]
			if !w.asked[k] && w.o.mesh.Alive(k) {
				w.asked[k] = true
				return k, nil
			}
		}
		if !w.found {
			w.found = true
			a, err := w.o.dir.FindWait(ctx, registry.ObjectKey(w.oid))
			if err != nil {
				return core.NodeKey{}, unknownCopies(err)
			}
			for _, l := range a.Record.At {
				w.list = append(w.list, l.Node)
			}
			continue
		}
		if !w.last || w.o.mesh.Alive(w.owner) || !w.o.underWay(ctx, w.owner) {
			break
		}
		w.found = false
	}
	if err := w.o.files.allAway(w.files); err != nil {
		return core.NodeKey{}, err
	}
	if !w.o.mesh.Alive(w.owner) {
		return core.NodeKey{}, fmt.Errorf("%w: its owner %s is dead, and no other node is known to have it", raysys.ErrObjectLost, w.owner)
	}
	return core.NodeKey{}, errors.New("no other node is known to have it") // the owner's answer decides
}

// unknownCopies: the directory does not answer where copies of an object are, so the object cannot be called lost.
func unknownCopies(err error) error {
	return fmt.Errorf("%w: look for copies of it: %w", raysys.ErrUnreachable, err)
}

// settling is how long after the death of a node the directory may lack copies of its objects that other nodes have:
// their updates were gathered, or waited for a new leader of the shard because the dead node led it too.
const settling = 4 * registry.ResendPause
