package objects

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/store"
)

// retainFor retains an object of this node while the State with that key lists it.
func (o *Objects) retainFor(key string, oid raysys.TaskID) error {
	obj := o.store.Lookup(oid)
	future := o.coreOf(oid)
	h := &retention{o: o, key: key, oid: oid}
	if obj == nil || obj.Lost() != nil || !o.kept.keep(obj, func(k *reasons) {
		if k.owner == (core.NodeKey{}) { // else it is kept for another too, whose death ends that
			k.owner = o.self()
		}
		if future != nil {
			k.future = future
		}
		k.names[key]++
		h.number = k.names[key]
	}) {
		return fmt.Errorf("%w: node %s does not have it", raysys.ErrObjectLost, o.self())
	}
	h.alarm.At, h.alarm.Ring = o.clock.Now()+int64(retainGrace), h.unwritten
	o.clock.SetAlarm(&h.alarm)
	o.record(key, store.Version{}, false, h.seen)
	return nil
}

// retainGrace is how long a State may take to be written after its objects were retained.
const retainGrace = 2 * time.Minute

// retention keeps an object for a State. The next version of the State after it decides, since a State is written by
// one activation at a time, which writes once the retention stands.
type retention struct {
	o       *Objects
	key     string
	oid     raysys.TaskID
	number  uint64 // a later retention of the same object for the same State takes over
	looked  atomic.Bool
	written atomic.Bool
	alarm   core.Alarm
}

// seen is told of the State's record: as it is at first, and then whenever it has changed.
func (h *retention) seen(a registry.Entry, err error) {
	o := h.o
	listed := slices.Contains(a.Held, h.oid)
	switch {
	case o.ctx.Err() != nil:
	case err != nil:
		o.clock.SetAlarm(&core.Alarm{At: o.clock.Now() + int64(watchPause), Ring: func() { o.record(h.key, store.Version{}, false, h.seen) }})
	case listed || !h.looked.Swap(true):
		if listed && !h.written.Swap(true) {
			o.clock.ClearAlarm(&h.alarm)
		}
		h.looked.Store(true)
		o.record(h.key, a.Version, true, h.seen)
	default:
		o.clock.ClearAlarm(&h.alarm)
		h.end()
	}
}

// unwritten ends a retention whose State was never written.
func (h *retention) unwritten() {
	if !h.written.Load() {
		h.end()
	}
}

func (h *retention) end() {
	h.o.unkeep(h.oid, func(k *reasons) {
		if k.names[h.key] == h.number {
			delete(k.names, h.key)
		}
	})
}

// record asks for a record of the directory or, in a process of its own, for a State's.
func (o *Objects) record(key string, seen store.Version, wait bool, done func(registry.Entry, error)) {
	reg, err := o.records()
	if err != nil {
		done(registry.Entry{}, err)
		return
	}
	if wait {
		reg.Await(key, seen, done)
		return
	}
	reg.Find(key, done)
}
