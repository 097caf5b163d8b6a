package objects

import (
	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/registry"
)

// pendingName is a name that an object is kept for before the directory is known to have it: the owner enters it once
// all copies are there, or has asked for that and does not know what became of it.
type pendingName struct {
	o     *Objects
	key   string
	oid   raysys.TaskID
	alarm core.Alarm // when it has taken too long
}

// follow watches a name that is about to be entered, or was perhaps.
func (o *Objects) follow(key string, oid raysys.TaskID) {
	e := &pendingName{o: o, key: key, oid: oid}
	o.kept.mu.Lock()
	k := o.kept.byID[oid]
	wanted := k != nil && k.names[key] != 0
	if wanted {
		if k.pending == nil {
			k.pending = map[string]*pendingName{}
		}
		if before := k.pending[key]; before != nil {
			o.clock.ClearAlarm(&before.alarm)
		}
		k.pending[key] = e
		e.wait()
	}
	o.kept.mu.Unlock()
	if wanted {
		e.look()
	}
}

// wait gives it as long as a State has to be written.
func (e *pendingName) wait() {
	e.alarm.At, e.alarm.Ring = e.o.clock.Now()+int64(retainGrace), e.late
	e.o.clock.SetAlarm(&e.alarm)
}

func (e *pendingName) look() {
	e.o.dir.Find(e.key, func(a registry.Entry, err error) {
		if e.seen(a, err) {
			return
		}
		e.o.dir.Await(e.key, a.Version, func(a registry.Entry, err error) {
			if !e.seen(a, err) {
				e.end()
			}
		})
	})
}

// seen is told of the name's record. It reports false when that is of another object, or there is none.
func (e *pendingName) seen(a registry.Entry, err error) bool {
	o := e.o
	switch {
	case o.ctx.Err() != nil:
	case err != nil:
		o.clock.SetAlarm(&core.Alarm{At: o.clock.Now() + int64(watchPause), Ring: func() {
			if e.pending() {
				e.look()
			}
		}})
	case !a.Exists || a.Record.ID != e.oid:
		return false
	default:
		if e.entered() {
			o.watch(e.key, e.oid, a.Version)
		}
	}
	return true
}

// pending reports whether the object is still kept for the name, which is not known to be entered.
func (e *pendingName) pending() bool {
	e.o.kept.mu.Lock()
	defer e.o.kept.mu.Unlock()
	k := e.o.kept.byID[e.oid]
	return k != nil && k.pending[e.key] == e
}

// entered reports whether it is the first to notice.
func (e *pendingName) entered() bool {
	e.o.clock.ClearAlarm(&e.alarm)
	e.o.kept.mu.Lock()
	defer e.o.kept.mu.Unlock()
	k := e.o.kept.byID[e.oid]
	if k == nil || k.pending[e.key] != e {
		return false
	}
	delete(k.pending, e.key)
	return true
}

// late is called when it has taken long: an owner that lives may still be making copies, anyone else had time enough.
func (e *pendingName) late() {
	e.o.kept.mu.Lock()
	k := e.o.kept.byID[e.oid]
	if k == nil || k.pending[e.key] != e {
		e.o.kept.mu.Unlock()
		return
	}
	forOwner, owner := k.forOwner, k.owner
	e.o.kept.mu.Unlock()
	if forOwner && e.o.mesh.Alive(owner) {
		e.wait()
		return
	}
	e.end()
}

func (e *pendingName) end() {
	e.o.clock.ClearAlarm(&e.alarm)
	e.o.unkeep(e.oid, func(k *reasons) {
		if k.pending[e.key] == e {
			delete(k.pending, e.key)
			delete(k.names, e.key)
		}
	})
}
