package objects

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/shardlog"
)

// retainHere retains an object in this node's store while the record of the State under key lists it.
func (o *Objects) retainHere(key string, oid raysys.TaskID) error {
	obj := o.store.Lookup(oid)
	future := o.futureOf(oid)
	r := &retention{o: o, key: key, oid: oid}
	if obj == nil || obj.Lost() != nil || !o.kept.keep(obj, func(k *reasons) {
		if k.owner == (core.NodeKey{}) { // else it is kept for its owner too, whose death ends that
			k.owner = o.self()
		}
		if future != nil {
			k.future = future
		}
		k.keys[key]++
		r.number = k.keys[key]
	}) {
		return fmt.Errorf("%w: node %s does not have it", raysys.ErrObjectLost, o.self())
	}
	r.alarm.At, r.alarm.Ring = o.clock.Now()+int64(retainGrace), r.unwritten
	o.clock.SetAlarm(&r.alarm)
	o.record(key, shardlog.Version{}, false, r.seen)
	return nil
}

// retainGrace is how long a State may take to be written after its objects were retained.
const retainGrace = 2 * time.Minute

// retention keeps an object for a State until a version of the State does not list it. The first version after the
// retention decides: one activation at a time writes a State, and it writes after its retentions are made.
type retention struct {
	o       *Objects
	key     string
	oid     raysys.TaskID
	number  uint64 // of the retentions of this object for this State: the last one decides
	looked  atomic.Bool
	written atomic.Bool
	alarm   core.Alarm
	late    bool // retainGrace is over; the alarm alone uses it
	over    atomic.Bool

	writer core.NodeKey // the node of KeepState, of an object that is the State itself (stateretention.go); zero for others
}

// seen takes an answer about the State's record: the record as it is at first, then each change of it.
func (r *retention) seen(a registry.Entry, err error) {
	o := r.o
	listed := slices.Contains(a.Held, r.oid)
	switch {
	case o.ctx.Err() != nil || r.over.Load() || r.superseded():
	case err != nil:
		o.clock.SetAlarm(&core.Alarm{At: o.clock.Now() + int64(watchPause), Ring: func() { o.record(r.key, shardlog.Version{}, false, r.seen) }})
	case r.writer != core.NodeKey{}:
		r.seenOwn(a, listed)
	case listed || !r.looked.Swap(true):
		if listed && !r.written.Swap(true) {
			o.clock.ClearAlarm(&r.alarm)
		}
		r.looked.Store(true)
		o.record(r.key, a.Version, true, r.seen)
	default:
		o.clock.ClearAlarm(&r.alarm)
		r.finish()
	}
}

// unwritten ends a retention whose State was never written: two reads behind all that the leader was asked for before do not
// list the object, retainGrace apart. The commit of a State waits as long as the store is away, and so do these reads; the
// writer's request may reach the leader after the first.
func (r *retention) unwritten() {
	r.o.lastRecord(r.key, func(a registry.Entry, err error) {
		pause := retainGrace
		switch {
		case r.o.ctx.Err() != nil || r.over.Load() || r.written.Load() || r.superseded():
			return
		case err != nil:
			pause = watchPause
		case slices.Contains(a.Held, r.oid): // which seen will see too
			r.written.Store(true)
			return
		case r.late:
			r.finish()
			return
		default:
			r.late = true
		}
		r.o.clock.SetAlarm(&core.Alarm{At: r.o.clock.Now() + int64(pause), Ring: r.unwritten})
	})
}

// superseded reports whether a later retention of the object for the State has taken the place of this one, and watches in its stead.
func (r *retention) superseded() bool {
	kept := &r.o.kept
	kept.mu.Lock()
	defer kept.mu.Unlock()
	k := kept.byID[r.oid]
	return k != nil && k.keys[r.key] > r.number
}

// finish ends the retention for good.
func (r *retention) finish() {
	r.over.Store(true)
	r.end()
}

func (r *retention) end() {
	r.o.unkeep(r.oid, func(k *reasons) {
		if k.keys[r.key] == r.number {
			delete(k.keys, r.key)
		}
	})
}

// lastRecord asks for a State's record behind all commits that its leader was asked for before.
func (o *Objects) lastRecord(key string, done func(registry.Entry, error)) {
	reg, err := o.records()
	if err != nil {
		done(registry.Entry{}, err)
		return
	}
	reg.FindLast(key, done)
}

// record asks for a State's record, with wait once it has another version than seen.
func (o *Objects) record(key string, seen shardlog.Version, wait bool, done func(registry.Entry, error)) {
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
