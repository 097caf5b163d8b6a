package system

import (
	"errors"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// notice is what this node has to say of a key of the directory when nobody waits for it to be known: that it has a copy,
// or has it no more. It is said until the leader has heard it, or a newer one takes its place; one request at a time for each
// key, so that the leader hears the newest last.
type notice struct {
	change objectChange
	newer  bool // than what was sent
}

const (
	// noticePause is before a notice that was not heard is sent again: a part of settling, so that copies are known in time
	// for those who ask because the owner died.
	noticePause = settling / 4
	// maxNotices bounds the keys with such a notice. Beyond it a notice is sent once.
	maxNotices = 1 << 16
	// noticesAtOnce bounds what one alarm sends: the wheel has others to ring.
	noticesAtOnce = 16 * maxChanges
)

// tell makes a change for which nobody waits, at the latest once the store and the leader are back.
func (d *directory) tell(ch objectChange) {
	d.mu.Lock()
	n := d.notices[ch.key]
	switch {
	case n != nil: // goes after what is on its way
		n.change, n.newer = ch, true
		d.mu.Unlock()
		return
	case len(d.notices) >= maxNotices:
		d.mu.Unlock()
		d.add(ch, func(objectAnswer, error) {})
		return
	case d.notices == nil:
		d.notices = map[string]*notice{}
	}
	n = &notice{change: ch}
	d.notices[ch.key] = n
	d.mu.Unlock()
	d.say(n, ch)
}

func (d *directory) say(n *notice, ch objectChange) {
	d.add(ch, func(_ objectAnswer, err error) { d.told(n, ch.key, err) })
}

// told is called with the outcome of a notice.
func (d *directory) told(n *notice, key string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.notices[key] != n:
	case err != nil && d.c.ctx.Err() == nil && (raysys.Retriable(err) || errors.Is(err, raysys.ErrOutcomeUnknown)):
		d.postpone(n, int64(noticePause))
	case n.newer:
		d.postpone(n, gather)
	default:
		delete(d.notices, key)
	}
}

// postpone has a notice sent later. d.mu is held.
func (d *directory) postpone(n *notice, pause int64) {
	d.late = append(d.late, n)
	if len(d.late) == 1 {
		d.c.node.SetAlarm(&core.Alarm{At: d.c.node.Now() + pause, Ring: d.sayAgain})
	}
}

// sayAgain sends what was postponed.
func (d *directory) sayAgain() {
	d.mu.Lock()
	if d.c.ctx.Err() != nil { // the node's copies go with it
		d.notices, d.late = nil, nil
		d.mu.Unlock()
		return
	}
	var due []*notice
	var changes []objectChange
	pause := gather
	if d.c.reg.nodes.suspended() != nil { // it would be refused here
		pause = int64(noticePause)
	} else {
		count := min(len(d.late), noticesAtOnce)
		for _, n := range d.late[:count] {
			if d.notices[n.change.key] == n {
				n.newer = false
				due, changes = append(due, n), append(changes, n.change)
			}
		}
		d.late = d.late[count:]
	}
	if len(d.late) > 0 {
		d.c.node.SetAlarm(&core.Alarm{At: d.c.node.Now() + pause, Ring: d.sayAgain})
	}
	d.mu.Unlock()
	for i, n := range due {
		d.say(n, changes[i])
	}
}

// overtake forgets a notice that a change for which somebody waits makes wrong: that a copy is gone which this node now
// keeps. d.mu is held.
func (d *directory) overtake(ch *objectChange) {
	if n := d.notices[ch.key]; n != nil && ch.kind == changeCopy && n.change.kind == changeGone {
		delete(d.notices, ch.key)
	}
}
