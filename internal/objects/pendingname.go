package objects

import (
	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/registry"
)

// pendingName is a name that an object is kept for while it is not known whether the directory has it. On a node with a
// copy the name is pending until the owner has entered it, once all copies are made. On the owner it is pending when
// the outcome of that change is unknown.
type pendingName struct {
	o     *Objects
	key   string
	oid   raysys.TaskID
	alarm core.Alarm // when it has taken too long
}

// follow watches a name that will be entered in the directory, or may have been.
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

// wait sets the alarm: a name has as long to be entered as a State has to be written.
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

// seen takes an answer about the name's record. It reports false when the record is of another object, or there is none.
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
			o.kept.noteFiles(p.oid, &a.Record)
			o.watch(p.key, p.oid, a.Version)
		}
	}
	return true
}

// pending reports whether the name is still pending for the object.
func (p *pendingName) pending() bool {
	p.o.kept.mu.Lock()
	defer p.o.kept.mu.Unlock()
	k := p.o.kept.byID[p.oid]
	return k != nil && k.pending[p.key] == p
}

// entered ends the pending name, and reports whether it did: false when that has happened before.
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

// late is called by the alarm. An owner that lives may still be making copies, so this node waits for it again; else the
// name is not expected any more.
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
