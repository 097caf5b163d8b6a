package refs

import (
	"sync"
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

const (
	// DropPause is how long a reference that nobody needs is kept back before its holder is told: one that was sent home a
	// moment ago, over a class that is slower, arrives before it.
	DropPause = 200 * time.Millisecond
	// borrowGrace is how long the references of a dead node count on; see loan.
	borrowGrace = 2 * time.Second
	// heldBatch is how many references one KindHeld names at most.
	heldBatch = 4 << 10
)

// table is what other nodes count as held by this one: by loans, and what is about to be given back. When a connection
// breaks, frames that carried references or gave some back may be lost. So the first thing that is said on a new one is
// what is held; the other side then counts that, and what it has sent since.
type table struct {
	mu      sync.Mutex // guards the rest, and all loans
	borrows map[*borrow]struct{}
	later   []func()   // for the next tick
	ticks   sync.Mutex // held while that is called
	drops   map[core.NodeKey][]uint64
	armed   bool
	alarm   core.Alarm
	after   []func() // called behind the drops that wait
}

// arrived notes one more reference that from counts as this node's, and reports whether the owner is to be asked to.
func (d *table) arrived(c *References, l *borrow, from exportKey) (ask bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.borrows == nil {
		d.borrows = map[*borrow]struct{}{}
	}
	d.borrows[l] = struct{}{}
	switch {
	case l.counted: // once is enough
		d.dropLocked(c, from)
	case from == l.owner:
		l.counted = true
		d.dropLocked(c, l.lenders...)
		l.lenders = nil
	default:
		l.lenders = append(l.lenders, from)
		ask = !l.asking
		l.asking = true
	}
	return ask
}

// answered is told whether the owner counts this node now.
func (d *table) answered(c *References, l *borrow, counted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.asking = false
	switch {
	case counted && (l.counted || l.over):
		d.dropLocked(c, l.owner)
	case counted:
		l.counted = true
	}
	if l.counted {
		d.dropLocked(c, l.lenders...)
		l.lenders = nil
	}
}

// atTick has f called by tellLoad. It is for the collector's goroutine: that is in nobody's virtual time, so it must set no
// alarm and wake nobody.
func (d *table) atTick(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.later = append(d.later, f)
}

// tick calls what atTick was given.
func (d *table) tick() {
	d.ticks.Lock() // whoever calls tick goes on behind the calls of another tick
	defer d.ticks.Unlock()
	d.mu.Lock()
	later := d.later
	d.later = nil
	d.mu.Unlock()
	for _, f := range later {
		f()
	}
}

// end gives back what a loan holds.
func (d *table) end(c *References, l *borrow) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.borrows, l)
	d.dropLocked(c, l.lenders...)
	if l.counted {
		d.dropLocked(c, l.owner)
	}
	l.over, l.counted, l.lenders = true, false, nil
}

// lenders returns who else may know the future of a loan.
func (d *table) lenders(l *borrow) []exportKey {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]exportKey(nil), l.lenders...)
}

// drop gives references back, soon.
func (d *table) drop(c *References, refs ...exportKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropLocked(c, refs...)
}

func (d *table) dropLocked(c *References, refs ...exportKey) {
	if len(refs) == 0 {
		return
	}
	if d.drops == nil {
		d.drops = map[core.NodeKey][]uint64{}
	}
	for _, r := range refs {
		d.drops[r.owner] = append(d.drops[r.owner], r.number)
	}
	if !d.armed {
		d.armed = true
		d.alarm.At, d.alarm.Ring = c.runner.Now()+int64(DropPause), func() { d.send(c) }
		c.clock.SetAlarm(&d.alarm)
	}
}

// send tells the holders. Who cannot be told now is told later; who is not connected learns it by the next KindHeld.
func (d *table) send(c *References) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all, after := d.drops, d.after
	d.drops, d.armed, d.after = nil, false, nil
	defer func() {
		for _, f := range after {
			f()
		}
	}()
	for k, numbers := range all {
		p := c.mesh.Peer(k)
		if p == nil {
			continue
		}
		for i, n := range numbers {
			if p.Send(wire.Requests, wire.KindDrop, wire.AppendUvarint(nil, n)) != nil {
				for _, n := range numbers[i:] {
					d.dropLocked(c, exportKey{k, n})
				}
				break
			}
		}
	}
}

// owed returns how many references wait to be given back.
func (d *table) owed() (count int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, numbers := range d.drops {
		count += len(numbers)
	}
	return count
}

// afterDrops calls f, which must not block, when the holders of what waits to be given back have been told.
func (d *table) afterDrops(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.armed {
		d.after = append(d.after, f)
		return
	}
	f()
}

// close ends it.
func (d *table) close(c *References) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed = true // so that it is not armed again
	c.clock.ClearAlarm(&d.alarm)
}

// declare tells a node, as the first thing on a new connection, which of its references are held here. What was about to be
// given back is not among them, and need not be any more.
func (d *table) declare(p *Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.drops, p.Key())
	var held []uint64
	for l := range d.borrows {
		if l.counted && l.owner.owner == p.Key() {
			held = append(held, l.owner.number)
		}
		for _, v := range l.lenders {
			if v.owner == p.Key() {
				held = append(held, v.number)
			}
		}
	}
	for {
		part := held[:min(len(held), heldBatch)]
		held = held[len(part):]
		last := byte(0)
		if len(held) == 0 {
			last = 1
		}
		frame := wire.AppendUvarint([]byte{last}, uint64(len(part)))
		for _, n := range part {
			frame = wire.AppendUvarint(frame, n)
		}
		if p.Send(wire.Control, wire.KindHeld, frame) != nil || last == 1 {
			return // a connection that takes no frame at its beginning is gone already
		}
	}
}

// onHeld handles KindHeld.
func (p *Session) onHeld(frame []byte) error {
	r := wire.NewReader(frame)
	last := r.Byte()
	for range r.Count(1) {
		p.declared = append(p.declared, r.Uvarint())
	}
	if err := r.Err(); err != nil {
		return err
	}
	if last == 1 {
		p.refs.exports.declared(p.Key(), p.declared)
		p.declared = nil
	}
	return nil
}
