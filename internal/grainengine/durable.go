package grainengine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/entries"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/outbox"
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

	entries *entries.Book                 // of the Maps; nil for a kind without. Turns and hooks alone use it
	sender  atomic.Pointer[outbox.Sender] // of its messages; nil while it had none; set under mu
	told    atomic.Int64                  // bytes of messages in tells; it changes under mu

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
	floors  outbox.Floors // what it has taken of messages
	removes []uint64      // messages whose records go with the commit that is on its way
}

// endedTurn is a turn whose commit is to come, or a read that saw one.
type endedTurn struct {
	call   *call // nil for a hook
	states []graindir.StateChange
	sides  []graindir.Side
	reply  *replies.Reply // nil for a read, a hook and a timer's tick
	answer func()         // settles the call
	tells  []keptTell
	taken  *outbox.Sent // the message that its call has delivered; nil for most
	last   bool         // of OnDeactivate: nothing comes after it
}

// writes reports whether the turn is stored: it changed something, has a reply that is not stored, or tells others something.
func (t *endedTurn) writes() bool {
	return t.reply != nil && t.reply.Pending || len(t.states)+len(t.sides)+len(t.tells) > 0 || t.taken != nil
}

// MaxReply is the most that the result of a durable call holds, encoded: grains.MaxReply.
const MaxReply = 64 << 10

// maxCommit bounds the States and replies of one commit with their keys, and maxForget the keys of the replies that it
// removes, so that it fits a batch of the store.
const (
	maxCommit = 192 << 10
	maxForget = 32 << 10
)

// maxFloor is about what is stored of a message that was taken.
const maxFloor = 40

// size is about what the turn takes in a commit; key is that of the grain's records.
func (t *endedTurn) size(key int) (n int) {
	for _, s := range t.states {
		n += recordSize(s.Data) + len(s.Name) + key
	}
	n += sizeOfSides(t.sides, key)
	if t.reply != nil {
		n += t.reply.Size() + key
	}
	if t.taken != nil {
		n += maxFloor + key
	}
	for _, m := range messagesOf(t.tells) {
		n += len(m.Record) + key
	}
	return n
}

// sizeOfSides is about what the records take in a commit.
func sizeOfSides(list []graindir.Side, key int) (n int) {
	for _, s := range list {
		n += len(s.Name) + len(s.Data) + key
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
	if d.entries != nil {
		if err := d.entries.Restore(r.Sides); err != nil {
			return fmt.Errorf("restore %s: %w", id, err)
		}
	}
	known := replies.New(len(r.Replies), d.a.kind.def.Replies)
	for _, stored := range r.Replies {
		p, err := replies.Read(stored)
		if err != nil {
			return fmt.Errorf("restore %s: %w", id, err)
		}
		known.Add(p)
	}
	for _, s := range r.Sides {
		if s.Family != graindir.SideKeys {
			continue
		}
		if err := known.AddStored(s); err != nil {
			return fmt.Errorf("restore %s: %w", id, err)
		}
	}
	known.Restored(time.Now())
	floors, err := outbox.ReadFloors(r.Sides)
	if err != nil {
		return fmt.Errorf("restore %s: %w", id, err)
	}
	messages, err := readMessages(d, r.Sides)
	if err != nil {
		return fmt.Errorf("restore %s: %w", id, err)
	}
	d.mu.Lock()
	if len(messages) > 0 || d.sender.Load() != nil {
		senderLocked(d).Restore(messages)
	}
	d.replies, d.floors = known, floors
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

// mayChange says why no entry of a Map may be changed now.
func (d *durable) mayChange() error {
	switch {
	case transacting(d.a):
		return nil
	case d.a.inTurn():
		return errors.New("the method is ReadOnly, and what it changes would not be stored")
	}
	return errors.New("no turn of the grain is in progress: its methods and hooks alone change it, until they return")
}

// changes sets what the turn in progress left that differs from what was there before: in the States, and in the Maps.
func (d *durable) changes(t *endedTurn) (err error) {
	size := int(d.told.Load())
	var list []graindir.StateChange
	for _, c := range d.a.tenure.cells {
		data, err := c.sealed()
		if err != nil {
			return err
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
	sides, err := d.entries.Changes()
	ofSides := sizeOfSides(sides, d.recordKey())
	switch {
	case err != nil:
		return err
	case size+ofSides > maxCommit-MaxReply && ofSides > 0:
		return fmt.Errorf("%w: the turn changed %d entries of Maps, of %d bytes with their keys, "+
			"and one commit has room for %d: change them in several calls",
			raysys.ErrTooLarge, len(sides), ofSides, maxCommit-MaxReply-size)
	case size > maxCommit-MaxReply:
		return fmt.Errorf("%w: the turn changed %d States, which refer to so many objects, and has told others so much, "+
			"that one commit has no room for it", raysys.ErrTooLarge, len(list))
	}
	t.states, t.sides = list, sides
	return nil
}

// acceptChanges makes list what the States are until the next turn, whose end takes back no timers of this one.
func (d *durable) acceptChanges(list []graindir.StateChange) {
	d.a.timers.Load().settle(false)
	d.entries.Accept()
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

// rollBack takes the turn back: the States, Maps and timers are what they were when it began, and its Tells are
// dropped. The turn is nil where nothing has asked for it.
func (d *durable) rollBack(turn *core.Turn) {
	d.a.timers.Load().settle(true)
	d.entries.TakeBack()
	bad := false
	for _, c := range d.a.tenure.cells {
		bad = bad || c.rollBack() != nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	takeTells(d, turn)
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
		t := &endedTurn{last: last}
		if err = d.changes(t); err == nil {
			d.acceptChanges(t.states)
			d.conclude(turn, t, era)
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
	if len(d.replies.Forget) > 0 && len(d.replies.ByCall) > fewReplies || len(d.sender.Load().Gone(1)) > 0 {
		d.commitEmptyLocked()
	}
}

// commitEmpty has a commit made that no turn asks for, for what goes with the next one.
func (d *durable) commitEmpty() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.commitEmptyLocked()
}

// commitEmptyLocked is commitEmpty with mu locked.
func (d *durable) commitEmptyLocked() {
	if !d.again.Load() && !d.a.tenure.stale.Load() {
		d.ended = append(d.ended, &endedTurn{})
		d.commitLocked()
	}
}

// conclude hands on a turn that has ended; era is that of its beginning, and turn has its Tells. A turn that neither changed anything nor
// told others something, with no commit on its way, is answered at once.
func (d *durable) conclude(turn *core.Turn, t *endedTurn, era uint64) {
	d.mu.Lock()
	t.tells = takeTells(d, turn)
	if d.era != era || d.again.Load() {
		d.mu.Unlock()
		if t.last && t.writes() {
			lastLost(d.a, t, errors.New("a turn before it is not stored"))
		}
		d.a.repeat(t.call)
		return
	}
	switch {
	case t.writes() || len(d.ended) > 0 && t.call != nil:
		d.ended = append(d.ended, t)
	case t.call == nil: // a hook that did nothing
		d.mu.Unlock()
		return
	case len(d.flight) > 0:
		d.flight = append(d.flight, t)
	default:
		d.mu.Unlock()
		d.answerRead(t)
		return
	}
	if p := t.reply; p != nil && p.Pending {
		d.replies.Add(p)
	}
	if t.taken != nil {
		d.floors.Raise(t.taken, time.Now())
	}
	if len(t.tells) > 0 {
		senderLocked(d).Count(messagesOf(t.tells), 1)
	}
	d.commitLocked()
	d.mu.Unlock()
	if t.large() { // the turns that follow would fill the memory with versions of the State
		d.settled()
	}
}

// commitLocked has the turns that have ended committed. The caller has d.mu locked.
func (d *durable) commitLocked() {
	if !d.working {
		d.working = true
		d.a.kind.engine.cfg.Pool.Go((*committer)(d))
	}
}

// answerRead answers a read that saw nothing but what is stored, unless another node may have been given the grain.
func (d *durable) answerRead(t *endedTurn) {
	switch err := d.a.tenure.mayAnswer(t.call, nil); {
	case errors.Is(err, raysys.ErrMoved):
		d.a.repeat(t.call)
	case err != nil:
		t.call.Future.Fail(err)
	default:
		t.answer()
	}
}

// committer is a durable activation whose turns are being committed.
type committer durable

// Run implements goroutines.Work: it commits until no turn is left.
func (w *committer) Run() {
	d := (*durable)(w)
	for {
		d.mu.Lock()
		if len(d.ended) == 0 {
			d.working = false
			if d.idle != nil {
				close(d.idle)
				d.idle = nil
			}
			d.mu.Unlock()
			return
		}
		c := d.takeLocked(time.Now(), d.recordKey())
		d.mu.Unlock()
		version, err := d.commit(&c)
		if err != nil {
			d.discardTurns(err)
			continue
		}
		d.mu.Lock()
		done := d.flight
		d.flight, d.version, d.counter = nil, version, c.Counter
		if len(d.removes) > 0 {
			d.sender.Load().Removed(d.removes)
			if len(d.ended) == 0 && len(d.sender.Load().Gone(1)) > 0 { // the rest had no room
				d.ended = append(d.ended, &endedTurn{})
			}
		}
		for _, t := range done {
			if t.reply != nil {
				t.reply.Pending = false
			}
		}
		d.mu.Unlock()
		d.countEarly()
		for _, t := range done {
			t.committed(d)
		}
	}
}

// takeLocked makes a commit of the turns that have ended, as many as fit.
func (d *durable) takeLocked(now time.Time, key int) graindir.Commit {
	c := graindir.Commit{After: d.version, Counter: graindir.Counter{Turn: d.counter.Turn, Nonce: rand.Uint64()}}
	n, size, most, gone := 0, 0, maxCommit, maxForget
	behind, full := d.replies.Behind(), d.sender.Load().Behind()
	if behind || full {
		most /= 2
	}
	for _, t := range d.ended {
		more := t.size(key)
		if (n > 0 || full) && size+more > most {
			break
		}
		size += more
		n++
		if t.writes() {
			c.Counter.Turn++
		}
		if t.reply != nil && t.reply.Pending {
			c.Replies = append(c.Replies, graindir.StoredReply{Call: t.reply.Call, Data: t.reply.Append(nil)})
			if t.reply.Replaces {
				c.Forget = append(c.Forget, t.reply.Call)
			}
		}
		for _, s := range t.states {
			change(&c, s)
		}
		c.Sides = append(c.Sides, t.sides...)
		if t.taken != nil {
			c.Sides = outbox.Store(c.Sides, t.taken, now)
		}
		for i, m := range messagesOf(t.tells) {
			m.Number = c.Counter.Turn<<outbox.PlaceBits | uint64(i)
			s := graindir.Side{Family: graindir.SideOutbox, Name: outbox.Name(m.Number), Data: m.Record}
			c.Sides = append(c.Sides, s)
		}
	}
	c.Sides = lastOfEach(c.Sides)
	d.flight = append(d.flight, d.ended[:n]...)
	d.ended = append([]*endedTurn(nil), d.ended[n:]...)
	if behind {
		gone = max(gone, maxCommit+maxForget-size)
	}
	d.replies.Changes(&c, now, max(1, gone/key))
	room := max(maxForget, maxCommit+maxForget-size)/key - len(c.Forget)
	d.removes = d.sender.Load().Gone(max(1, room))
	c.Sides = d.floors.Forget(c.Sides, max(0, room-len(d.removes)))
	for _, n := range d.removes {
		c.Sides = append(c.Sides, graindir.Side{Family: graindir.SideOutbox, Name: outbox.Name(n)})
	}
	return c
}

// change adds the change of a later turn to a commit.
func change(c *graindir.Commit, s graindir.StateChange) {
	for i := range c.States {
		if c.States[i].Name == s.Name {
			c.States[i] = s
			return
		}
	}
	c.States = append(c.States, s)
}

// lastOfEach returns the last of each record.
func lastOfEach(list []graindir.Side) []graindir.Side {
	type name struct {
		family byte
		name   string
	}
	if len(list) < 2 {
		return list
	}
	at := make(map[name]int, len(list))
	kept := list[:0]
	for _, s := range list {
		n := name{s.Family, s.Name}
		if i, twice := at[n]; twice {
			kept[i] = s
			continue
		}
		at[n] = len(kept)
		kept = append(kept, s)
	}
	return kept
}

// release notes that nobody can ask for the reply to a call any more.
func (d *durable) release(call raysys.TaskID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.replies.ByCall[call]; p != nil {
		d.replies.Spend(p)
		d.asked.wake()
	}
}

// committed answers the call of a turn that is stored.
func (t *endedTurn) committed(d *durable) {
	wanted := t.call != nil && !t.call.Future.Settled()
	if t.reply != nil && t.call.inbound() == nil {
		d.a.kind.replied(t.call, d.a.key, nil)
	}
	if list := messagesOf(t.tells); len(list) > 0 { // whoever has the answer sees them, and may drop them
		d.sender.Load().Add(list)
	}
	if t.answer != nil {
		t.answer()
	}
	for _, k := range t.tells {
		if k.send != nil {
			k.send()
		}
	}
	if t.reply == nil {
		return
	}
	if v := t.call.inbound(); v != nil && !wanted && t.reply.Until == 0 && !v.peer.gone.Load() {
		d.release(t.reply.Call) // the driver wants no answer any more; when the way to it breaks, it asks again
	}
}

// discardTurns gives up the turns that are not stored: the commit was refused, or cannot be made now.
func (d *durable) discardTurns(err error) {
	d.mu.Lock()
	all := append(d.flight, d.ended...)
	d.flight, d.ended = nil, nil
	d.era++
	d.again.Store(true)
	for _, t := range all {
		if t.reply != nil && t.reply.Pending {
			d.replies.Discard(t.reply)
		}
		if len(t.tells) > 0 {
			d.sender.Load().Count(messagesOf(t.tells), -1)
		}
	}
	d.mu.Unlock()
	if errors.Is(err, raysys.ErrMoved) {
		d.a.tenure.goStale()
	}
	// A caller on another node makes its call again also when this node is over: the grain goes to another one.
	again := errors.Is(err, raysys.ErrMoved) || errors.Is(err, graindir.ErrETag)
	tells := func(t *endedTurn) bool { return len(t.tells) > 0 }
	if errors.Is(err, raysys.ErrOutcomeUnknown) && slices.ContainsFunc(all, tells) {
		wakeGrain(d.a) // they may be stored, and no call may come
	}
	fenced := errors.Is(err, raysys.ErrFenced)
	for _, t := range all {
		switch {
		case t.last: // OnActivate runs again
			lastLost(d.a, t, err)
		case t.call == nil:
		case again, fenced && t.call.inbound() != nil:
			d.a.repeat(t.call)
		default:
			t.call.Future.Fail(fmt.Errorf("%s: %w", t.call.Name(), err))
		}
	}
}

// lastLost reports what OnDeactivate left, which is not stored.
func lastLost(a *activation, t *endedTurn, err error) {
	reportUnseen(a, "OnDeactivate", fmt.Errorf("its changes of States, %d, and its Tells, %d, are not stored: %w", len(t.states), len(t.tells), err))
}

// repeated reports whether repeat has been called for a call of this node that is a transaction: it may have counted.
func repeated(c *call) bool {
	t := c.Future.OwnTurn()
	return t != nil && t.Attempt() > 1 && !c.isReadOnly()
}

// maxCommits bounds how often one commit is tried.
const maxCommits = 100

// storeCommit has c committed. An error other than raysys.ErrMoved and ErrETag that matches raysys.ErrOutcomeUnknown says that
// it may have been; after any other error it was not.
func (d *durable) storeCommit(c *graindir.Commit) (graindir.ETag, error) {
	s, id, token := d.a.kind.engine.cfg.States, graindir.ID{Kind: d.a.kind.def.name, Key: d.a.key}, d.a.tenure.token
	open := false
	for try := 1; ; try++ {
		v, err := awaited(d, func(done func(graindir.ETag, error)) { s.Commit(id, token, *c, done) })
		switch {
		case err == nil:
			return v, nil
		case errors.Is(err, raysys.ErrMoved):
			return graindir.ETag{}, err
		case errors.Is(err, raysys.ErrOutcomeUnknown):
			open = true
		case errors.Is(err, raysys.ErrOverloaded) && try < maxCommits:
			if err := d.pauseFor(commitPause); err == nil || open {
				continue
			}
			return graindir.ETag{}, err
		case !open && !errors.Is(err, graindir.ErrETag):
			return graindir.ETag{}, fmt.Errorf("commit: %w", err)
		}
		r, back := awaited(d, func(done func(graindir.Restored, error)) { s.Counter(id, token, done) })
		switch {
		case errors.Is(back, raysys.ErrMoved):
			return graindir.ETag{}, back
		case back != nil:
			return graindir.ETag{}, fmt.Errorf("commit: %w: reading it back: %w", raysys.ErrOutcomeUnknown, back)
		case r.Counter == c.Counter:
			return r.Version, nil
		case r.Version != c.After:
			return graindir.ETag{}, fmt.Errorf("commit: %w", graindir.ErrETag)
		case try >= maxCommits:
			return graindir.ETag{}, fmt.Errorf("commit: %w: tried %d times: %w", raysys.ErrOutcomeUnknown, try, err)
		}
		if err := d.pauseFor(commitPause); err != nil {
			return graindir.ETag{}, fmt.Errorf("commit: %w: %w", raysys.ErrOutcomeUnknown, err)
		}
	}
}

// commitPause is how long after a commit that the store did not take the next attempt comes.
const commitPause = 20 * time.Millisecond

// pauseFor returns after that long on the runtime's clock, or when the node closes.
func (d *durable) pauseFor(long time.Duration) error {
	hooks := d.a.kind.engine.cfg.Hooks
	over := make(chan struct{})
	alarm := core.Alarm{At: core.After(hooks.Runtime().Now(), long), Ring: func() { close(over) }}
	hooks.Runtime().SetAlarm(&alarm)
	select {
	case <-over:
		return nil
	case <-core.HookContext(hooks).Done():
		hooks.Runtime().ClearAlarm(&alarm)
		return hooks.Cancelled()
	}
}

// leaseLook is how often a commit that waits for the store looks at the node's lease.
const leaseLook = time.Second

// awaited is wait for a commit: once the node's lease is out, the callers hear so.
func awaited[T any](d *durable, start func(done func(T, error))) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	ch := make(chan outcome, 1)
	start(func(v T, err error) { ch <- outcome{v, err} })
	if d.a.kind.engine.cfg.Cluster == nil {
		o := <-ch
		return o.v, o.err
	}
	rt := d.a.kind.engine.cfg.Hooks.Runtime()
	for {
		look := make(chan struct{})
		alarm := core.Alarm{At: rt.Now() + int64(leaseLook), Ring: func() { close(look) }}
		rt.SetAlarm(&alarm)
		select {
		case o := <-ch:
			rt.ClearAlarm(&alarm)
			return o.v, o.err
		case <-look:
			if err := d.a.kind.engine.cfg.Cluster.Suspended(); errors.Is(err, raysys.ErrSuspended) {
				d.giveUp(err)
			}
		}
	}
}

// giveUp fails the calls whose commit waits for a store that is away. It may still be made: the replies are kept then.
func (d *durable) giveUp(err error) {
	d.mu.Lock()
	all := append(append([]*endedTurn(nil), d.flight...), d.ended...)
	d.mu.Unlock()
	for _, t := range all {
		if t.call != nil {
			t.call.Future.Fail(fmt.Errorf("%s: %w: its commit waits for the store: %w", t.call.Name(), raysys.ErrOutcomeUnknown, err))
		}
	}
}

// tenure is what an activation knows of its right to be the grain: its token on a node of a cluster, and its States,
// which are stored under that token. The activation of a grain without States in a single process has none.
type tenure struct {
	a       *activation // whose it is
	token   graindir.Token
	stale   atomic.Bool      // the grain has a newer placement: the activation stops, and runs no further call
	durable *durable         // of a durable kind
	wanted  *graindir.Wanted // of a kind that asks for resources: what the place was asked for

	// The rest is used by the turn only.
	unserved    []*call    // calls whose turn came after it went stale, or the node began to drain
	cells       []*cell    // its States, in the order of the kind
	committedBy *core.Turn // the turn whose last operation on a State was a commit
	admitted    *call      // the call for whose turn the node has just asked the store whether it may serve; else nil
	open        bool       // it went stale while the outcome of a commit was unknown
	bound       bool       // the call that placed it said where it is to be; it never changes
}

// goStale ends an activation whose token is not current.
func (m *tenure) goStale() {
	if m.stale.CompareAndSwap(false, true) {
		m.a.post(&mail{msg: passivate{force: true}})
		m.a.kind.engine.dropWaiting()
	}
}

// mayRun reports whether c may run now; else it has settled c or put it aside. inner says that c would run between the
// waits of another turn.
func (m *tenure) mayRun(c *call, inner bool) bool {
	e := m.a.kind.engine
	switch {
	case inner && (m.stale.Load() || m.durable != nil && m.durable.again.Load()):
		return false // it is still in the mailbox
	case m.stale.Load(), m.a.holding.followsBundle(), e.draining.Load() && !inner: // one that is let in may be what the turn in progress waits for
		if !c.method.tick {
			m.unserved = append(m.unserved, c)
		}
		return false
	}
	if v := c.inbound(); v != nil && v.nodeCloses() {
		v.refuse(graindir.Place{})
		return false
	}
	if !m.token.IsZero() {
		waited, err := e.cfg.Cluster.Admit()
		if err != nil {
			m.a.failCall(c, fmt.Errorf("%s: %w", c.Name(), err))
			return false
		}
		if m.admitted = nil; waited {
			m.admitted = c
		}
	}
	if m.durable != nil {
		if m.durable.again.Load() {
			m.durable.beginAnew()
			if m.a.state == nil && !m.stale.Load() {
				return true // the call fails with the reason
			}
			return m.mayRun(c, inner)
		}
		return true
	}
	if err := m.a.reload(); err != nil {
		if m.stale.Load() {
			return m.mayRun(c, inner)
		}
		m.a.failCall(c, fmt.Errorf("%s: %w", c.Name(), err))
		return false
	}
	return true
}

// mayAnswer is called before a reply leaves (rule C20); err is what the method returned. The reply may leave when the turn's
// last operation on a State was a commit, or while this node's lease holds: then no other node can have been given the
// grain. Then mayAnswer returns err. Otherwise it returns the error that the caller gets in place of the reply.
func (m *tenure) mayAnswer(c *call, err error) error {
	if len(m.cells) == 0 && m.durable == nil {
		return err
	}
	switch {
	case m.stale.Load() && m.open:
		return fmt.Errorf("%s: %w: the grain moved away while its state was written", c.Name(), raysys.ErrOutcomeUnknown)
	case m.stale.Load():
		return fmt.Errorf("%s: %w: it is active elsewhere by now, and what this turn answers counts for nothing", c.Name(), raysys.ErrMoved)
	}
	if t := c.Future.OwnTurn(); t != nil && m.committedBy == t {
		m.committedBy = nil
		return err
	}
	if m.admitted == c {
		return err // that was after the call came, which is enough for what it read
	}
	if lease := m.a.kind.engine.cfg.States.Lease(); lease != nil {
		return fmt.Errorf("%s: %w", c.Name(), lease)
	}
	return err
}

// commit is storeCommit, after it has made objects of the States in c that are too large for their records, or together for one
// commit.
func (d *durable) commit(c *graindir.Commit) (version graindir.ETag, err error) {
	var list []keptState
	for _, i := range objects(c, d.recordKey()) {
		s := c.States[i]
		var k keptState
		if c.States[i].Data, k, err = d.a.tenure.keepAsObject(s.Name, s.Data); err != nil {
			d.a.tenure.tellKept(list, err)
			return graindir.ETag{}, fmt.Errorf("write state %s/%s.%s: %w", d.a.kind.def.name, d.a.key, s.Name, err)
		}
		list = append(list, k)
	}
	version, err = d.storeCommit(c)
	d.a.tenure.tellKept(list, err)
	return version, err
}
