package refs

import (
	"sync"
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

const (
	// DropPause is the time between the last use of a reference and its drop. A reference that was sent home a moment ago,
	// over a slower class, arrives before the drop.
	DropPause = 200 * time.Millisecond
	// borrowGrace is how long the references of a dead node still count; see borrow.
	borrowGrace = 2 * time.Second
	// heldBatch is how many references one KindHeld names at most.
	heldBatch = 4 << 10
)

// table is the reference table: the borrows of this node, and the drops that wait to be sent. When a connection breaks,
// frames with references or drops in them may be lost. So the first frame on a new connection declares what is held; the
// other side then counts that, and what it has sent since.
type table struct {
	refs *References

	mu      sync.Mutex // guards the rest, and all borrows
	borrows map[*borrow]struct{}
	later   []func()   // to be called by the next tick
	ticks   sync.Mutex // held while a tick calls them
	drops   map[core.NodeKey][]uint64
	armed   bool
	alarm   core.Alarm
	after   []func() // called once the drops that wait were sent
}

// arrived notes that one more reference has arrived, for which from, the owner or a lender, counts this node; from is zero
// where the submitter's reference lends it. It reports whether the owner is to be asked to count this node.
func (t *table) arrived(b *borrow, from exportKey) (ask bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.borrows == nil {
		t.borrows = map[*borrow]struct{}{}
	}
	t.borrows[b] = struct{}{}
	switch {
	case b.counted: // once is enough
		t.dropLocked(from)
	case from == b.owner:
		b.counted = true
		t.dropLocked(b.lenders...)
		b.lenders = nil
	default:
		if from.number != 0 {
			b.lenders = append(b.lenders, from)
		}
		ask = !b.asking
		b.asking = true
	}
	return ask
}

// answered takes the owner's answer: whether it counts this node now.
func (t *table) answered(b *borrow, counted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b.asking = false
	switch {
	case counted && (b.counted || b.over):
		t.dropLocked(b.owner)
	case counted:
		b.counted = true
	}
	if b.counted {
		t.dropLocked(b.lenders...)
		b.lenders = nil
	}
}

// atTick has f called by the next tick.
func (t *table) atTick(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.later = append(t.later, f)
}

// tick calls the functions that atTick was given.
func (t *table) tick() {
	t.ticks.Lock() // a tick returns after the functions of an earlier one, too
	defer t.ticks.Unlock()
	t.mu.Lock()
	later := t.later
	t.later = nil
	t.mu.Unlock()
	for _, f := range later {
		f()
	}
}

// end gives back the references of a borrow.
func (t *table) end(b *borrow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.borrows, b)
	t.dropLocked(b.lenders...)
	if b.counted {
		t.dropLocked(b.owner)
	}
	b.over, b.counted, b.lenders = true, false, nil
}

// lenders returns the lenders of a borrow.
func (t *table) lenders(b *borrow) []exportKey {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]exportKey(nil), b.lenders...)
}

// drop has references given back after DropPause.
func (t *table) drop(keys ...exportKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropLocked(keys...)
}

func (t *table) dropLocked(keys ...exportKey) {
	for _, k := range keys {
		if k.number == 0 { // nothing was counted
			continue
		}
		if t.drops == nil {
			t.drops = map[core.NodeKey][]uint64{}
		}
		t.drops[k.owner] = append(t.drops[k.owner], k.number)
	}
	if !t.armed && len(t.drops) > 0 {
		t.armed = true
		t.alarm.At, t.alarm.Ring = t.refs.runner.Now()+int64(DropPause), func() { t.send() }
		t.refs.clock.SetAlarm(&t.alarm)
	}
}

// send sends the drops that wait. Drops that a peer's connection does not take now wait again. A node that is not connected
// needs none: the next KindHeld declares what is held.
func (t *table) send() {
	t.mu.Lock()
	defer t.mu.Unlock()
	all, after := t.drops, t.after
	t.drops, t.armed, t.after = nil, false, nil
	defer func() {
		for _, f := range after {
			f()
		}
	}()
	for k, numbers := range all {
		p := t.refs.mesh.Peer(k)
		if p == nil {
			continue
		}
		for i, n := range numbers {
			if p.Send(wire.Requests, wire.KindDrop, wire.AppendUvarint(nil, n)) != nil {
				for _, n := range numbers[i:] {
					t.dropLocked(exportKey{k, n})
				}
				break
			}
		}
	}
}

// owed returns how many references wait to be given back.
func (t *table) owed() (count int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, numbers := range t.drops {
		count += len(numbers)
	}
	return count
}

// afterDrops calls f, which must not block, when the drops that wait have been sent; at once when none does.
func (t *table) afterDrops(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.armed {
		t.after = append(t.after, f)
		return
	}
	f()
}

// close sends no more drops.
func (t *table) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = true // so that the alarm is not set again
	t.refs.clock.ClearAlarm(&t.alarm)
}

// declare sends KindHeld, the first frame on a new connection: which of the peer's references are held here. References
// whose drops wait are not among them, so those drops are forgotten.
func (t *table) declare(p *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.drops, p.Key())
	var held []uint64
	for b := range t.borrows {
		if b.counted && b.owner.owner == p.Key() {
			held = append(held, b.owner.number)
		}
		for _, l := range b.lenders {
			if l.owner == p.Key() {
				held = append(held, l.number)
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
