package objects

import (
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/registry"
)

// The retention of an object that is a State ends its files, so it ends in three ways only:
//
//	the record listed it           and does not any more, in a read behind all commits (FindLast)
//	the node that writes it lives  and says that no record will list it: KeptState, or opFree
//	the node that writes it died   and after retainGrace or more a read behind all commits does not list it
//
// The leader refuses the commit of a node that is dead, and FindLast is answered behind one that it took before.

// retainState keeps an object in this node's store for the State that it is. The caller has r.seen called with the State's
// record, and calls r.wait unless that is known to list the object.
func (o *Objects) retainState(key string, obj *objectstore.Object, writer core.NodeKey, enter func(*reasons)) (*retention, error) {
	r := &retention{o: o, key: key, oid: obj.ID(), writer: writer}
	if !o.kept.keep(obj, func(k *reasons) {
		if k.owner == (core.NodeKey{}) {
			k.owner = writer
		}
		k.unreferenced = o.needed(r.oid) == 0
		k.keys[key]++
		r.number = k.keys[key]
		k.state = r
		enter(k)
	}) {
		return nil, raysys.ErrReleased
	}
	return r, nil
}

// seenOwn is seen for the State's own object.
func (r *retention) seenOwn(a registry.Entry, listed bool) {
	if listed {
		r.written.Store(true)
		r.o.kept.noteFiles(r.oid, &a.Record)
	}
	if listed || !r.written.Load() && r.open() {
		r.o.record(r.key, a.Version, true, r.seen)
		return
	}
	r.decide(func(a registry.Entry) { r.seenOwn(a, true) })
}

// open reports whether the node that writes the State is to say what becomes of the object. Of another node nothing but
// opFree is believed before its death: it may be about to commit.
func (r *retention) open() bool {
	if r.writer != r.o.self() {
		return true
	}
	r.o.kept.mu.Lock()
	defer r.o.kept.mu.Unlock()
	k := r.o.kept.byID[r.oid]
	return k != nil && k.writing
}

// wait sets the alarm for a State that is not known to be written.
func (r *retention) wait() {
	r.o.clock.SetAlarm(&core.Alarm{At: r.o.clock.Now() + int64(retainGrace), Ring: r.unwrittenState})
}

// unwrittenState looks after an object that no record is known to list. Its alarm alone calls it.
func (r *retention) unwrittenState() {
	switch self := r.writer == r.o.self(); {
	case r.written.Load(), r.over.Load(), r.o.ctx.Err() != nil:
	case self && r.open(), !self && r.o.mesh.Alive(r.writer):
		r.wait()
	case !r.late:
		r.late = true
		r.wait()
	default:
		r.decide(func(registry.Entry) { r.written.Store(true) }) // which seen will see too
	}
}

// decide ends the retention unless the last version of the State's record lists the object; else it calls listed.
func (r *retention) decide(listed func(registry.Entry)) {
	r.o.lastRecord(r.key, func(a registry.Entry, err error) {
		switch {
		case r.o.ctx.Err() != nil || r.over.Load():
		case err != nil:
			r.o.clock.SetAlarm(&core.Alarm{At: r.o.clock.Now() + int64(watchPause), Ring: func() { r.decide(listed) }})
		case slices.Contains(a.Held, r.oid):
			listed(a)
		default:
			r.finish()
		}
	})
}
