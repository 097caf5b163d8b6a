package grainengine

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/replies"
	"github.com/raysys/raysys/internal/staterecord"
)

// A durable grain commits each turn: what it changed in the States, and its reply, in one batch. The next turn begins
// before that is stored, on the values as they are; its commit follows, and takes along those of all turns that have
// ended by then.
//
//	turn ──► ended ──► in flight ──► States.Commit ──► replies leave, Tells go
//	read ──► (behind the newest that it saw) ──────────► its answer leaves
//	                                  └─► refused ──► all of them are made again by their callers
//
// Invariants:
//
//	one commit              is in flight at a time; it names the version of the counter that it follows
//	a reply                 leaves when it is stored, or was
//	an answer of a read     leaves when all that the read saw is stored
//	a call id               has one reply, which is what every repetition gets
//	a commit that is refused takes every turn after it along, and the activation begins anew
type durable struct {
	a     *activation // whose it is
	again atomic.Bool // it changes under mu: what is in memory counts for nothing: the next turn begins with what is stored

	mu      sync.Mutex // guards the rest
	replies replies.Book
	asked   asked         // the nodes of drivers that own replies
	warned  bool          // of keys
	ended   []*endedTurn  // in no commit yet, the oldest first
	flight  []*endedTurn  // in the commit that is on its way
	version graindir.ETag // of the counter
	counter graindir.Counter
	era     uint64        // grows when turns are discarded
	working bool          // a goroutine commits
	idle    chan struct{} // closed when nothing is on its way; made by whoever waits
	tells   []keptTell    // of turns and hooks that have not ended
}

// endedTurn is a turn whose commit is to come, or a read that saw one.
type endedTurn struct {
	call   *call // nil for a hook
	states []graindir.StateChange
	reply  *replies.Reply // nil for a read, a hook and a timer's tick
	answer func()         // settles the call
	tells  []keptTell
	last   bool // of OnDeactivate: nothing comes after it
}

// writes reports whether the turn is stored: it changed something, has a reply that is not stored, or tells others something.
func (t *endedTurn) writes() bool {
	return t.reply != nil && t.reply.Pending || len(t.states) > 0 || len(t.tells) > 0
}

// MaxReply is the most that the result of a durable call holds, encoded: grains.MaxReply.
const MaxReply = 64 << 10

// maxCommit bounds the States and replies of one commit with their keys, and maxForget the keys of the replies that it
// removes, so that it fits a batch of the store.
const (
	maxCommit = 192 << 10
	maxForget = 32 << 10
)

// size is about what the turn takes in a commit; key is that of the grain's records.
func (t *endedTurn) size(key int) (n int) {
	for _, s := range t.states {
		n += recordSize(s.Data) + len(s.Name) + key
	}
	if t.reply != nil {
		n += t.reply.Size() + key
	}
	return n
}

// recordKey is about the length of a record's key in the shard.
func (d *durable) recordKey() int { return len(d.a.kind.def.name) + len(d.a.key) + 64 }

// restore reads what is stored into the States of a new G.
func (d *durable) restore(cells []*cell) error {
	s := d.a.kind.engine.cfg.States
	if s == nil {
		return fmt.Errorf("restore %s/%s: %w: this node was given no store for grains.State", d.a.kind.def.name, d.a.key, raysys.ErrNoRuntime)
	}
	d.settled()
	names := make([]string, len(cells))
	for i, c := range cells {
		names[i] = c.def.name
	}
	id := graindir.ID{Kind: d.a.kind.def.name, Key: d.a.key}
	r, err := wait(func(done func(graindir.Restored, error)) { s.Restore(id, names, d.a.tenure.token, done) })
	if err == nil && len(r.States) != len(cells) {
		err = fmt.Errorf("the store answers with %d records for %d", len(r.States), len(cells))
	}
	if errors.Is(err, raysys.ErrMoved) {
		d.a.tenure.goStale()
	}
	if err == nil {
		err = d.a.tenure.fetchObjects(cells, r.States)
	}
	if err != nil {
		return fmt.Errorf("restore %s: %w", id, err)
	}
	for i, c := range cells {
		if err := c.take(r.States[i]); err != nil {
			return fmt.Errorf("restore state %s: %w: %w", c.name(), graindir.ErrUnreadable, err)
		}
		if c.last = r.States[i].Data; !r.States[i].Exists {
			if c.last, err = c.seal(); err != nil {
				return fmt.Errorf("restore state %s: %w", c.name(), err)
			}
		}
	}
	known := replies.New(len(r.Replies))
	for _, stored := range r.Replies {
		p, err := replies.Read(stored)
		if err != nil {
			return fmt.Errorf("restore %s: %w", id, err)
		}
		known.Add(p)
	}
	known.Restored(time.Now())
	d.mu.Lock()
	d.replies = known
	d.version, d.counter = r.Version, r.Counter
	d.again.Store(false)
	d.mu.Unlock()
	return nil
}

// settled returns when no commit is on its way.
func (d *durable) settled() {
	d.mu.Lock()
	if !d.working {
		d.mu.Unlock()
		return
	}
	if d.idle == nil {
		d.idle = make(chan struct{})
	}
	idle := d.idle
	d.mu.Unlock()
	<-idle
}

// beginAnew begins the activation anew with what is stored, after turns were discarded.
func (d *durable) beginAnew() {
	d.a.waitInner()
	d.a.timers.Load().end()
	d.a.state = nil
	d.a.activate()
}

// changes returns what the turn in progress left in the States that differs from what they held before.
func (d *durable) changes() (list []graindir.StateChange, err error) {
	size := 0
	for _, c := range d.a.tenure.cells {
		data, err := c.sealed()
		if err != nil {
			return nil, err
		}
		switch {
		case c.zero != nil && bytes.Equal(c.zero, data):
			if c.exists {
				list = append(list, graindir.StateChange{Name: c.def.name})
			}
		case !bytes.Equal(data, c.last):
			list = append(list, graindir.StateChange{Name: c.def.name, Data: data})
			size += min(len(data), asObject(data))
		}
	}
	if size > maxCommit-MaxReply {
		return nil, fmt.Errorf("%w: the turn changed %d States, which refer to so many objects that one commit has no room for it", raysys.ErrTooLarge, len(list))
	}
	return list, nil
}

// acceptChanges makes list what the States are until the next turn, whose end takes back no timers of this one.
func (d *durable) acceptChanges(list []graindir.StateChange) {
	d.a.timers.Load().settle(false)
	for _, s := range list {
		for _, c := range d.a.tenure.cells {
			if c.def.name != s.Name {
				continue
			}
			if c.exists = s.Data != nil; c.exists {
				c.last = s.Data
			} else {
				c.last = c.zero
			}
		}
	}
	for _, c := range d.a.tenure.cells {
		c.zero = nil
	}
}

// rollBack takes the turn back: the States and timers are what they were when it began, and its Tells are dropped. The turn is nil where
// nothing has asked for it.
func (d *durable) rollBack(turn *core.Turn) {
	d.a.timers.Load().settle(true)
	bad := false
	for _, c := range d.a.tenure.cells {
		bad = bad || c.rollBack() != nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.takeTells(turn)
	if bad {
		d.again.Store(true)
	}
}

// rollBack sets the State to what it was when the turn began.
func (c *cell) rollBack() error {
	c.zero = nil
	err := staterecord.Open(c.last, c.value, c.act.kind.engine.cfg.Retainer)
	c.unsure = err != nil
	return err
}

// sealed is seal with its bound.
func (c *cell) sealed() ([]byte, error) {
	data, err := c.seal()
	if err == nil {
		err = bounded(data)
	}
	if err != nil {
		return nil, fmt.Errorf("write state %s: %w", c.name(), err)
	}
	return data, nil
}

// hookEnded commits what a hook changed and told others, which began in that era; err is the hook's.
func (d *durable) hookEnded(turn *core.Turn, era uint64, last bool, err error) error {
	turn.End() // a goroutine that outlives the hook keeps no further Tell
	if err == nil {
		var list []graindir.StateChange
		if list, err = d.changes(); err == nil {
			d.acceptChanges(list)
			d.conclude(turn, &endedTurn{states: list, last: last}, era)
			return nil
		}
	}
	d.rollBack(turn)
	return err
}

// fewReplies is how many replies a grain may leave behind when its activation ends. They take less than the commit that
// would remove them, of which a node that drains would make one for each of its grains.
const fewReplies = 8

// flush has the replies removed that nobody can ask for any more, before the activation ends, unless they are few.
func (d *durable) flush() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.replies.Forget) > 0 && len(d.replies.ByCall) > fewReplies && !d.again.Load() && !d.a.tenure.stale.Load() {
		d.ended = append(d.ended, &endedTurn{})
		d.commitLocked()
	}
}
