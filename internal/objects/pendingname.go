package objects

import (
	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/registry"
)

// entry is a name that an object is kept for before the directory is known to have it: the owner enters it once all copies
// are there, or has asked for that and does not know what became of it.
type entry struct {
	o     *Objects
	key   string
	oid   raysys.TaskID
	alarm core.Alarm // when it has taken too long
}

// follow watches a name that is about to be entered, or was perhaps.
func (o *Objects) follow(key string, oid raysys.TaskID) {
	e := &entry{o: o, key: key, oid: oid}
	o.names.mu.Lock()
	k := o.names.kept[oid]
	wanted := k != nil && k.names[key] != 0
	if wanted {
		if k.entering == nil {
			k.entering = map[string]*entry{}
		}
		if before := k.entering[key]; before != nil {
			o.clock.ClearAlarm(&before.alarm)
		}
		k.entering[key] = e
		e.wait()
	}
	o.names.mu.Unlock()
	if wanted {
		e.look()
	}
}

// wait gives it as long as a State has to be written.
func (e *entry) wait() {
	e.alarm.At, e.alarm.Ring = e.o.clock.Now()+int64(holdGrace), e.late
	e.o.clock.SetAlarm(&e.alarm)
}

func (e *entry) look() {
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
func (e *entry) seen(a registry.Entry, err error) bool {
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
func (e *entry) pending() bool {
	e.o.names.mu.Lock()
	defer e.o.names.mu.Unlock()
	k := e.o.names.kept[e.oid]
	return k != nil && k.entering[e.key] == e
}

// entered reports whether it is the first to notice.
func (e *entry) entered() bool {
	e.o.clock.ClearAlarm(&e.alarm)
	e.o.names.mu.Lock()
	defer e.o.names.mu.Unlock()
	k := e.o.names.kept[e.oid]
	if k == nil || k.entering[e.key] != e {
		return false
	}
	delete(k.entering, e.key)
	return true
}

// late is called when it has taken long: an owner that lives may still be making copies, anyone else had time enough.
func (e *entry) late() {
	e.o.names.mu.Lock()
	k := e.o.names.kept[e.oid]
	if k == nil || k.entering[e.key] != e {
		e.o.names.mu.Unlock()
		return
	}
	lent, owner := k.lent, k.owner
	e.o.names.mu.Unlock()
	if lent && e.o.mesh.Alive(owner) {
		e.wait()
		return
	}
	e.end()
}

func (e *entry) end() {
	e.o.clock.ClearAlarm(&e.alarm)
	e.o.unkeep(e.oid, func(k *keeping) {
		if k.entering[e.key] == e {
			delete(k.entering, e.key)
			delete(k.names, e.key)
		}
	})
}
