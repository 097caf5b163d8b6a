package grainengine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
)

// conclude hands on a turn that has ended; era is that of its beginning, and turn has its Tells. A turn that neither changed anything nor
// told others something, with no commit on its way, is answered at once.
func (d *durable) conclude(turn *core.Turn, t *endedTurn, era uint64) {
	d.mu.Lock()
	t.tells = d.takeTells(turn)
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
		for _, t := range done {
			if t.reply != nil {
				t.reply.Pending = false
			}
		}
		d.mu.Unlock()
		for _, t := range done {
			t.committed(d)
		}
	}
}

// takeLocked makes a commit of the turns that have ended, as many as fit.
func (d *durable) takeLocked(now time.Time, key int) graindir.Commit {
	c := graindir.Commit{After: d.version, Counter: graindir.Counter{Turn: d.counter.Turn, Nonce: rand.Uint64()}}
	n, size := 0, 0
	var replaced []raysys.TaskID
	for _, t := range d.ended {
		if size += t.size(key); n > 0 && size > maxCommit {
			break
		}
		n++
		if t.writes() {
			c.Counter.Turn++
		}
		if t.reply != nil && t.reply.Pending {
			c.Replies = append(c.Replies, graindir.StoredReply{Call: t.reply.Call, Data: t.reply.Append(nil)})
			if t.reply.Replaces {
				replaced = append(replaced, t.reply.Call)
			}
		}
		for _, s := range t.states {
			change(&c, s)
		}
	}
	d.flight = append(d.flight, d.ended[:n]...)
	d.ended = append([]*endedTurn(nil), d.ended[n:]...)
	forget, put := d.replies.Changes(now, max(1, maxForget/key))
	c.Forget, c.Replies = append(replaced, forget...), append(c.Replies, put...)
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
	if t.answer != nil {
		t.answer()
	}
	for _, k := range t.tells {
		k.send()
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
	}
	d.mu.Unlock()
	if errors.Is(err, raysys.ErrMoved) {
		d.a.tenure.goStale()
	}
	// A caller on another node makes its call again also when this node is over: the grain goes to another one.
	again := errors.Is(err, raysys.ErrMoved) || errors.Is(err, graindir.ErrETag)
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

// failCall fails a call that has no turn.
func (a *activation) failCall(c *call, err error) {
	if a.kind.def.Durable && repeated(c) {
		err = maybeDone(err)
	}
	c.Future.Fail(err)
}

// repeat has the caller make the call again: it did not count.
func (a *activation) repeat(c *call) {
	if c == nil {
		return
	}
	if c.method.tick { // what its timer belongs to is gone
		c.Future.Cancel(errRepeated)
		return
	}
	if v := c.inbound(); v != nil {
		v.refuse(graindir.Place{})
		return
	}
	f := &c.Future
	last, ok := f.Again(f.TurnFor().Attempt()+1, 0)
	if !ok {
		return
	}
	last.Cancel(errRepeated)
	last.End()
	f.Forget() // what this attempt has put there: an answer is decoded into a place that is zero
	if !f.Unhold() {
		return
	}
	if a.kind.engine.cfg.Cluster == nil {
		if err := a.kind.deliverHere(a.key, c, &mail{msg: c}); err != nil {
			f.Fail(fmt.Errorf("call %s: %w", c.Name(), err))
		}
		return
	}
	o := a.kind.outboundOf(a.key, c)
	o.open = a.kind.def.Durable && repeated(c)
	if err := a.kind.send(a.key, c, o); err != nil {
		o.fail(fmt.Errorf("call %s: %w", c.Name(), err))
	}
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
		r, back := awaited(d, func(done func(graindir.Restored, error)) { s.Restore(id, nil, token, done) })
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
