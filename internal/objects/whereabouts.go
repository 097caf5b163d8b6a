package objects

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/registry"
)

// whereabouts says whom to ask for an object: its owner, its lenders, and whoever the directory names.
type whereabouts struct {
	o       *Objects
	oid     raysys.TaskID
	owner   core.NodeKey
	lenders func() []core.NodeKey
	asked   map[core.NodeKey]bool
	found   bool           // the directory was asked
	last    bool           // and once more, when nobody else was left
	list    []core.NodeKey // who is to be asked yet
}

// again reports whether another round may find what the one before did not. A transfer from an owner that lives asks
// the directory when it begins; copies that were made since then, or were about to be entered, serve when that owner
// dies.
func (w *whereabouts) again() bool {
	if w.last || w.o.mesh.Alive(w.owner) {
		return false
	}
	w.last, w.found, w.asked = true, false, nil // those who were not reached before count again
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
	if !w.o.mesh.Alive(w.owner) {
		return core.NodeKey{}, fmt.Errorf("%w: its owner %s is dead, and no other node is known to have it", raysys.ErrObjectLost, w.owner)
	}
	return core.NodeKey{}, errors.New("no other node is known to have it") // what its owner said decides
}

// unknownCopies: nobody can say where copies of an object are, so that it cannot be called lost.
func unknownCopies(err error) error {
	return fmt.Errorf("%w: look for copies of it: %w", raysys.ErrUnreachable, err)
}

// settling is how long after the death of a node the directory may lack copies of its objects that others have: what
// they had to say was gathered, or waited for a new leader of the shard because the old one was that node too.
const settling = 4 * registry.ResendPause

// underWay waits until whoever had a copy of the dead node's objects has said so. It returns false at once when that is
// so already.
func (o *Objects) underWay(ctx context.Context, dead core.NodeKey) bool {
	now := time.Now()
	o.mu.Lock()
	at, known := o.deaths[dead]
	if !known {
		for k, t := range o.deaths {
			if now.Sub(t) > time.Minute && len(o.deaths) > 100 {
				delete(o.deaths, k)
			}
		}
		if o.deaths == nil {
			o.deaths = map[core.NodeKey]time.Time{}
		}
		at = now
		o.deaths[dead] = at
	}
	o.mu.Unlock()
	left := settling - now.Sub(at)
	if left <= 0 {
		return false
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
