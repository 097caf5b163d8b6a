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
	p := &pendingName{o: o, key: key, oid: oid}
	o.kept.mu.Lock()
	k := o.kept.byID[oid]
	wanted := k != nil && k.keys[key] != 0
	if wanted {
		if k.pending == nil {
			k.pending = map[string]*pendingName{}
		}
		if before := k.pending[key]; before != nil {
			o.clock.ClearAlarm(&before.alarm)
		}
		k.pending[key] = p
		p.wait()
	}
	o.kept.mu.Unlock()
	if wanted {
		p.look()
	}
}

// wait gives it as long as a State has to be written.
func (p *pendingName) wait() {
	p.alarm.At, p.alarm.Ring = p.o.clock.Now()+int64(retainGrace), p.late
	p.o.clock.SetAlarm(&p.alarm)
}

func (p *pendingName) look() {
	p.o.dir.Find(p.key, func(a registry.Entry, err error) {
		if p.seen(a, err) {
			return
		}
		p.o.dir.Await(p.key, a.Version, func(a registry.Entry, err error) {
			if !p.seen(a, err) {
				p.end()
			}
		})
	})
}

// seen is told of the name's record. It reports false when that is of another object, or there is none.
func (p *pendingName) seen(a registry.Entry, err error) bool {
	o := p.o
	switch {
	case o.ctx.Err() != nil:
	case err != nil:
		o.clock.SetAlarm(&core.Alarm{At: o.clock.Now() + int64(watchPause), Ring: func() {
			if p.pending() {
				p.look()
			}
		}})
	case !a.Exists || a.Record.ID != p.oid:
		return false
	default:
		if p.entered() {
			o.watch(p.key, p.oid, a.Version)
		}
	}
	return true
}

// pending reports whether the object is still kept for the name, which is not known to be entered.
func (p *pendingName) pending() bool {
	p.o.kept.mu.Lock()
	defer p.o.kept.mu.Unlock()
	k := p.o.kept.byID[p.oid]
	return k != nil && k.pending[p.key] == p
}

// entered reports whether it is the first to notice.
func (p *pendingName) entered() bool {
	p.o.clock.ClearAlarm(&p.alarm)
	p.o.kept.mu.Lock()
	defer p.o.kept.mu.Unlock()
	k := p.o.kept.byID[p.oid]
	if k == nil || k.pending[p.key] != p {
		return false
	}
	delete(k.pending, p.key)
	return true
}

// late is called when it has taken long: an owner that lives may still be making copies, anyone else had time enough.
func (p *pendingName) late() {
	p.o.kept.mu.Lock()
	k := p.o.kept.byID[p.oid]
	if k == nil || k.pending[p.key] != p {
		p.o.kept.mu.Unlock()
		return
	}
	forOwner, owner := k.forOwner, k.owner
	p.o.kept.mu.Unlock()
	if forOwner && p.o.mesh.Alive(owner) {
		p.wait()
		return
	}
	p.end()
}

func (p *pendingName) end() {
	p.o.clock.ClearAlarm(&p.alarm)
	p.o.unkeep(p.oid, func(k *reasons) {
		if k.pending[p.key] == p {
			delete(k.pending, p.key)
			delete(k.keys, p.key)
		}
	})
}
