package registry

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/shardlog"
)

// Directory is this node's side of the object directory, whose records lie in the shards. It sends changes of one shard
// together, and resends updates.
type Directory struct {
	reg *Registry

	changes gatherer[Change, Entry]

	mu      sync.Mutex         // guards the rest
	updates map[string]*update // by key
	late    []*update          // to be resent; an alarm is set while there are any
}

// NewDirectory returns the directory of the node with registry r.
func NewDirectory(r *Registry) *Directory {
	request := func(list []Change) operation[[]Entry] { return &changes{list} }
	return &Directory{reg: r, changes: gatherer[Change, Entry]{reg: r, request: request}, updates: map[string]*update{}}
}

// Change makes one change, together with others. done is called on any goroutine and must not block.
func (d *Directory) Change(ch Change, done func(Entry, error)) {
	d.mu.Lock()
	d.overtake(&ch)
	d.mu.Unlock()
	d.changes.add(ch, done)
}

// Find returns a record.
func (d *Directory) Find(key string, done func(Entry, error)) { d.reg.Find(key, done) }

// Await returns a record once it has another version than seen.
func (d *Directory) Await(key string, seen shardlog.Version, done func(Entry, error)) {
	d.reg.Await(key, seen, done)
}

// FindWait is Find that waits.
func (d *Directory) FindWait(ctx context.Context, key string) (Entry, error) {
	return runner.Wait(ctx, func(done func(Entry, error)) { d.Find(key, done) })
}

// ChangeWait is Change that waits.
func (d *Directory) ChangeWait(ctx context.Context, ch Change) (Entry, error) {
	return runner.Wait(ctx, func(done func(Entry, error)) { d.Change(ch, done) })
}

// update is a change of the directory without a waiter: this node has a copy of an object, or does not have it any
// more. It is resent until the leader acknowledges it, or a newer update of its key takes its place. There is one
// request at a time for each key, so that the newest reaches the leader last.
type update struct {
	change Change
	newer  bool // change is newer than what was sent
}

const (
	// ResendPause is the time before an update that was not acknowledged is resent. A node that finds no copy of a dead
	// owner's object in the directory waits a few of these before it calls the object lost.
	ResendPause = 250 * time.Millisecond
	// maxUpdates bounds the keys with an update. Beyond it an update is sent once.
	maxUpdates = 1 << 16
	// updatesAtOnce bounds what one alarm sends: the clock has others to ring.
	updatesAtOnce = 16 * maxChanges
)

// Update makes a change without a waiter, at the latest once the store and the leader can be reached again.
func (d *Directory) Update(ch Change) {
	d.mu.Lock()
	u := d.updates[ch.key]
	switch {
	case u != nil: // ch is sent after the update that is on its way
		u.change, u.newer = ch, true
		d.mu.Unlock()
		return
	case len(d.updates) >= maxUpdates:
		d.mu.Unlock()
		d.changes.add(ch, func(Entry, error) {})
		return
	}
	u = &update{change: ch}
	d.updates[ch.key] = u
	d.mu.Unlock()
	d.sendUpdate(u, ch)
}

func (d *Directory) sendUpdate(u *update, ch Change) {
	d.changes.add(ch, func(_ Entry, err error) { d.acknowledged(u, ch.key, err) })
}

// acknowledged is called with the outcome of an update.
func (d *Directory) acknowledged(u *update, key string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.updates[key] != u:
	case err != nil && d.reg.cfg.Runner.Err() == nil && (raysys.Retriable(err) || errors.Is(err, raysys.ErrOutcomeUnknown)):
		d.postpone(u, ResendPause)
	case u.newer:
		d.postpone(u, gatherFor)
	default:
		delete(d.updates, key)
	}
}

// postpone has an update sent later. d.mu is held.
func (d *Directory) postpone(u *update, pause time.Duration) {
	d.late = append(d.late, u)
	if len(d.late) == 1 {
		d.reg.cfg.Runner.After(pause, d.resend)
	}
}

// resend sends the updates that were postponed.
func (d *Directory) resend() {
	d.mu.Lock()
	if d.reg.cfg.Runner.Err() != nil { // the node has ended, and its copies with it
		clear(d.updates)
		d.late = nil
		d.mu.Unlock()
		return
	}
	var due []*update
	var changes []Change
	pause := gatherFor
	if d.reg.cfg.Members.Suspended() != nil { // this node's lease is out: the requests would be refused here
		pause = ResendPause
	} else {
		count := min(len(d.late), updatesAtOnce)
		for _, u := range d.late[:count] {
			if d.updates[u.change.key] == u {
				u.newer = false
				due, changes = append(due, u), append(changes, u.change)
			}
		}
		d.late = d.late[count:]
	}
	if len(d.late) > 0 {
		d.reg.cfg.Runner.After(pause, d.resend)
	}
	d.mu.Unlock()
	for i, u := range due {
		d.sendUpdate(u, changes[i])
	}
}

// overtake drops the update that this node has no copy of an object, when ch says that it has one now. d.mu is held.
func (d *Directory) overtake(ch *Change) {
	if u := d.updates[ch.key]; u != nil && ch.kind == changeCopy && u.change.kind == changeGone {
		delete(d.updates, ch.key)
	}
}

// Unacknowledged counts the updates that no leader has acknowledged, and which of them wait to be resent.
func (d *Directory) Unacknowledged() (all, late int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.updates), len(d.late)
}
