package grainengine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/outbox"
	"github.com/raysys/raysys/internal/replies"
	"github.com/raysys/raysys/internal/wire"
)

// transacts reports whether each call is a transaction: it is one of a durable kind and no read.
func (m *method) transacts() bool { return m.kind.Durable && !m.readOnly }

// doDurable is do for a durable grain. A call that was made before gets its reply and does not run.
func (c *call) doDurable(a *activation) (panicked any) {
	d := a.tenure.durable
	if !c.Future.Start() {
		return nil
	}
	up := c.Future.Up()
	if refuseEnded(a, c) {
		return nil
	}
	if t := c.Future.OwnTurn(); t != nil && t.Attached() != any(a) {
		t.Attach(a) // it ran on an activation before that was not the grain any more
	}
	p := &replies.Reply{Call: c.Future.RunID(), Pending: true}
	var by *outbox.Sent
	named := ""
	if c.method.transacts() && !c.method.tick {
		by, named = sentBy(c), c.named()
	}
	if by != nil && takenBefore(c, d, by) {
		return nil
	}
	kept := c.method.transacts() && !c.method.tick && (by == nil || named != "") // its reply
	if kept {
		if named != "" {
			p.Call = keyedID(a, named)
		}
		if err := c.digest(&p.Digest); err != nil {
			c.Future.Fail(fmt.Errorf("%s: argument: %w", c.Name(), err))
			return nil
		}
		p.Owner, p.Until = c.owner(a, named)
		name, at := firingOf(named)
		switch {
		case name != "":
			p.Kind, p.Turn, p.Seq = replies.OfTurn, keyedID(a, name), uint64(at)
		case named != "":
			p.Kind = replies.OfKey
		case p.Until != 0:
			p.Kind, p.Turn, p.Seq = replies.OfTurn, c.Future.Up().RunID(), c.Future.Seq()
		}
		p.First = firstMade(c)
		known, crowded, err := d.known(p, named, time.Now())
		switch {
		case crowded:
			known, err = d.roomFor(c, p)
		case errors.Is(err, raysys.ErrOverloaded):
			d.settled() // replies that are stored may go
			known, _, err = d.known(p, named, time.Now())
		}
		switch {
		case known != nil:
			c.answerAgain(a, known)
			return nil
		case err != nil:
			c.Future.Fail(fmt.Errorf("%s (%s): %w", c.Name(), c.Future.ID(), err))
			return nil
		}
	}
	if s := d.sender.Load(); s != nil && c.method.transacts() {
		if err := s.Full(c.method.tick || by != nil); err != nil {
			c.Future.Fail(fmt.Errorf("%s: %w", c.Name(), err))
			return nil
		}
	}
	era, ok := d.begin()
	if !ok {
		a.repeat(c) // what it would see was discarded this moment
		return nil
	}
	panicked, err := c.invoke(a)
	cause := c.cancelled()
	if t := c.Future.OwnTurn(); t != nil {
		t.End()
	}
	if j := up.Job(); j.Inspect != nil {
		if err == nil {
			err = c.handOverResult()
		} else {
			err = j.Inspect.Fail(err)
		}
	}
	if !c.method.transacts() {
		c.conclude(a, &endedTurn{call: c}, era, err)
		return panicked
	}
	// An error that only reports the call's own end is that end, and no outcome: the call may be made again.
	if cause != nil && err != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		d.rollBack(c.Future.OwnTurn())
		c.Future.Cancel(cause)
		return panicked
	}
	e := &endedTurn{call: c, taken: by}
	if kept {
		e.reply = p
		now := time.Now()
		if p.Made = now.UnixMilli(); p.Until != 0 { // for KeepReplies from here on: the turn may have taken longer
			p.Until = now.Add(a.kind.def.Replies).UnixMilli()
		}
	}
	if err == nil {
		if err = d.changes(e); err == nil && e.reply != nil {
			p.Body, err = c.encodeResult()
		}
		if err != nil {
			err = c.taskError(err, nil)
		}
	}
	if err != nil {
		d.rollBack(c.Future.OwnTurn())
		e.states, e.sides = nil, nil
		p.Status, p.Body = replies.StatusError, wire.AppendError(nil, err)
		if len(p.Body) > MaxReply {
			p.Body = wire.AppendError(nil, c.taskError(fmt.Errorf("%w: its error has %d bytes encoded", raysys.ErrTooLarge, len(p.Body)), nil))
		}
	} else {
		d.acceptChanges(e.states)
		p.Status = replies.StatusValue
	}
	c.conclude(a, e, era, err)
	return panicked
}

// takenBefore answers a call that delivers a message which has arrived before, and refuses one before which another
// has to come.
func takenBefore(c *call, d *durable, by *outbox.Sent) bool {
	d.mu.Lock()
	verdict, era := d.floors.Judge(by), d.era
	d.mu.Unlock()
	switch verdict {
	case outbox.TooEarly:
		c.Future.Fail(fmt.Errorf("%s: %w: message %x of its sender comes before message %x",
			c.Name(), raysys.ErrNotDelivered, by.Number, by.Before))
	case outbox.Done: // its turn may be in a commit that is on its way
		d.conclude(nil, &endedTurn{call: c, answer: func() { c.finish(nil) }}, era)
	}
	return verdict != outbox.Runs
}

// conclude hands on the ended turn with its outcome.
func (c *call) conclude(a *activation, e *endedTurn, era uint64, err error) {
	e.answer = func() { c.finish(err) }
	a.tenure.durable.conclude(c.Future.OwnTurn(), e, era)
}

// finish settles the call with err, or with the value that is in its place.
func (c *call) finish(err error) {
	if err != nil {
		if c.Future.Fail(err) {
			c.Future.Forget()
			c.dropArg()
		}
		return
	}
	if c.resolve() {
		c.dropArg()
	}
}

// answerAgain gives the call the reply to the same call before, once that is stored.
func (c *call) answerAgain(a *activation, p *replies.Reply) {
	d := a.tenure.durable
	e := &endedTurn{call: c, answer: func() {
		if c.inbound() == nil {
			a.kind.replied(c, a.key, nil)
		}
		var err error
		r := wire.NewReader(p.Body)
		switch p.Status {
		case replies.StatusGone:
			err = fmt.Errorf("%s: %w: the call with this key was made, and the grain had to drop its reply", c.Name(), ErrReplyGone)
		case replies.StatusValue:
			err = c.method.res.DecodeAt(p.Body, c.Future.ValueAt(), nil)
		default:
			err = wire.ReadError(&r)
		}
		c.finish(err)
	}}
	d.mu.Lock()
	era, pending := d.era, p.Pending
	d.mu.Unlock()
	if !pending {
		e.answer()
		return
	}
	d.conclude(nil, e, era)
}

// begin returns the era of a turn that begins, and false when what is in memory counts for nothing.
func (d *durable) begin() (era uint64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.era, !d.again.Load() // discard changes both under mu
}

// keyedID is what the reply to a call with a key of the program's is kept under, in place of the call's own id.
func keyedID(a *activation, named string) raysys.TaskID {
	b := wire.AppendBytes(wire.AppendBytes(wire.AppendBytes(nil, a.kind.def.name), a.key), named)
	sum := sha256.Sum256(b)
	return raysys.TaskID{Hi: binary.BigEndian.Uint64(sum[:]), Lo: binary.BigEndian.Uint64(sum[8:])}
}

// firingOf takes the key of a schedule's firing apart: the schedule, whose firings are as the calls of a turn, and when it was due. So the oldest
// replies go, and the grain need not remember each key for its KeepReplies. A due time to come is by a clock that was ahead: no floor may be there.
func firingOf(key string) (schedule string, at int64) {
	i := strings.LastIndexByte(key, ' ')
	if i < 0 || !strings.HasPrefix(key, core.FiringKey) {
		return "", 0
	}
	t, err := time.Parse(time.RFC3339Nano, key[i+1:])
	if err != nil || t.UnixNano() <= 0 || time.Until(t) > time.Hour {
		return "", 0
	}
	return key[:i], t.UnixNano()
}

// known returns the reply to an earlier call with the id of p, and fails where that was another call, or no further
// reply can be kept; crowded says that half of the room is taken. A call with a key is a new one
// when the time is over for which the earlier one is remembered.
func (d *durable) known(p *replies.Reply, named string, now time.Time) (known *replies.Reply, crowded bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, err = d.knownLocked(p, named, now)
	return known, d.replies.Crowded(p.Kind), err
}

// knownLocked is known with mu locked.
func (d *durable) knownLocked(p *replies.Reply, named string, now time.Time) (*replies.Reply, error) {
	old := d.replies.ByCall[p.Call]
	var over *replies.Reply
	if old != nil && named != "" && !old.Pending && old.Over(now) {
		old, over = nil, old
	}
	switch {
	case old != nil && old.Digest != p.Digest && named != "":
		return nil, fmt.Errorf("%w: key %q was given before, with another argument or for another method", raysys.ErrKeyReused, named)
	case old != nil && old.Digest != p.Digest:
		return nil, fmt.Errorf("%w: the call was made before, with another argument or of another method: %s", raysys.ErrNondeterministic, core.CountAnew)
	case old != nil:
		return old, nil
	case over == nil && d.replies.Below(p, now):
		return nil, fmt.Errorf("%w: it is among the first of a task or grain that has made more calls of this grain than it keeps replies for, and ran before: it is not run again: %s", ErrReplyGone, core.CountAnew)
	}
	if why := d.replies.WhyGone(p, over, now); why != "" {
		return nil, fmt.Errorf("%w: %s", ErrReplyGone, why)
	}
	return nil, d.replies.Room(p, now)
}

// firstMade is when the call was first made, in milliseconds since 1970, by the clock of its caller: what
// raysys.FirstMade says, or, of one that the runtime repeats, which may have counted, when it was submitted. It is 0
// where that is not known.
func firstMade(c *call) int64 {
	v, o := c.inbound(), c.outbound()
	switch {
	case v != nil:
		return v.first
	case c.method.opts.FirstMade != 0:
		return c.method.opts.FirstMade
	case o != nil && o.open:
		return o.first
	}
	return 0
}

// countEarly counts the keys that went before their time in the commit that has just been made, and says once that
// there are some.
func (d *durable) countEarly() {
	d.mu.Lock()
	n := d.replies.TakeEarly()
	warn := n > 0 && !d.warned
	d.warned = d.warned || warn
	d.mu.Unlock()
	d.a.kind.earlyKeys.Add(int64(n))
	if warn {
		d.a.warn("grain forgets keys of calls before KeepReplies is over", fmt.Sprintf(
			"it knows at most %d: a call with an older key that comes again counts again, unless it has "+
				"raysys.FirstMade; spread the calls over more grains",
			replies.MaxKeys))
	}
}

// EarlyKeys is how many keys of calls the grains of each Durable kind have forgotten on this node before KeepReplies
// was over.
func EarlyKeys(e *Engine) map[string]int {
	kinds := map[string]int{}
	e.kinds.Range(func(_, v any) bool {
		if k := v.(*boundKind); k.def.Durable {
			kinds[k.def.name] += int(k.earlyKeys.Load())
		}
		return true
	})
	return kinds
}

// KeysOf is how many keys of calls a grain knows, and up to when it has forgotten keys; the zero time where it has not.
func KeysOf(g *Active) (n int, forgotten time.Time) {
	if g.a.tenure == nil || g.a.tenure.durable == nil {
		return 0, forgotten
	}
	d := g.a.tenure.durable
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.replies.Known(time.Now())
}

// Outboxes is how many messages of the grains of each Durable kind have not arrived, and how often this node has tried
// in vain to deliver one.
func Outboxes(e *Engine) (waiting, vain map[string]int) {
	waiting, vain = map[string]int{}, map[string]int{}
	e.kinds.Range(func(_, v any) bool {
		if k := v.(*boundKind); k.def.Durable {
			for _, a := range k.activations() {
				waiting[k.def.name] += messagesLeft(a)
			}
			waiting[k.def.name] += 0 // so that a rule on it sees each kind
			vain[k.def.name] += int(k.vainSends.Load())
		}
		return true
	})
	return waiting, vain
}

// MessagesOf is how many messages of a grain have not arrived, with those of turns that are not stored yet.
func MessagesOf(g *Active) int { return messagesLeft(g.a) }

// WaitingOf says to whom they are, with the receivers of the most, at most so many.
func WaitingOf(g *Active, most int) (w outbox.Waiting) {
	if MessagesOf(g) > 0 {
		w = g.a.tenure.durable.sender.Load().Waiting(most)
	}
	return w
}

// longWait is how long a message waits before MessagesLate says so.
const longWait = time.Minute

// MessagesLate reports whether messages of a grain are above half of their bound, or have waited for a minute.
func MessagesLate(g *Active) bool {
	return MessagesOf(g) > 0 && g.a.tenure.durable.sender.Load().Late(longWait)
}

// owner says who may make the call again: a driver of one node, or whoever runs the task or grain that made it, until a
// time. Whoever knows its key may make a call again.
func (c *call) owner(a *activation, named string) (core.NodeKey, int64) {
	e := a.kind.engine
	v := c.inbound() // the whole record's
	switch {
	case named != "":
	case e.cfg.Cluster == nil && c.Future.Up().Kind() == core.TurnRoot:
		return core.NodeKey{Node: c.Future.Up().Job().Node, Incarnation: c.Future.Up().Job().Run}, 0
	case v == nil && c.Future.Up().Kind() == core.TurnRoot:
		return e.cfg.Cluster.Self(), 0
	case v != nil && !v.ofTurn:
		return core.NodeKey{Node: v.peer.Node(), Incarnation: v.peer.Incarnation()}, 0
	}
	return core.NodeKey{}, time.Now().Add(a.kind.def.Replies).UnixMilli()
}

// digest tells calls of another method or with another argument apart.
func (c *call) digest(sum *uint64) error {
	var refs []*core.Future
	data, err := c.method.arg.AppendAt(append([]byte(c.method.entry.Name), 0), c.argAt(), &refs)
	if err != nil {
		return err
	}
	for _, r := range refs {
		data = wire.AppendID(data, r.ID())
	}
	s := sha256.Sum256(data)
	*sum = binary.LittleEndian.Uint64(s[:])
	return nil
}

func (c *call) encodeResult() ([]byte, error) {
	data, err := c.method.res.AppendAt(nil, c.Future.ValueAt(), nil)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	if len(data) > MaxReply {
		return nil, fmt.Errorf("result: %w: %d bytes encoded, and the reply of a durable grain has at most %d", raysys.ErrTooLarge, len(data), MaxReply)
	}
	return data, nil
}

// transaction returns the durable activation whose turn t is, nil where t is none, or is a read.
func transaction(t *core.Turn) *activation {
	if t.Kind() != core.TurnGrain || t.Base().Ended() {
		return nil
	}
	a, ok := t.Attached().(*activation)
	if !ok || a.tenure == nil || a.tenure.durable == nil {
		return nil
	}
	if c := a.current.Load(); c == nil || c.OwnTurn() != t.Base() || readOnly(c) {
		return nil
	}
	return a
}

// callable says why the turn t must not make a call of the method.
func (m *method) callable(t *core.Turn) error {
	if m.readOnly || m.idempotent && !m.kind.Durable || transaction(t) == nil {
		return nil
	}
	declare := "ReadOnly() or Idempotent()"
	if m.kind.Durable {
		declare = "ReadOnly()"
	}
	return fmt.Errorf("%w: declare the method %s, use Tell, or make both calls from a task", ErrDurableTurn, declare)
}

// transacting reports whether a turn or hook of the activation is in progress that is a transaction.
func transacting(a *activation) bool {
	if a.tenure == nil || a.tenure.durable == nil {
		return false
	}
	c := a.current.Load()
	return c != nil && !readOnly(c) || a.hook.Load() != nil
}

// PostsWait reports whether PostLater keeps messages: ctx is of a turn of a Durable grain, and not of a hook.
func PostsWait(ctx context.Context) bool { return posting(ctx) != nil }

// posting is keeping, but nil in a hook: that of an activation which ends is followed by no message.
func posting(ctx context.Context) *activation {
	a := keeping(ctx)
	if t, _, _ := core.TurnOf(ctx); a != nil && inHook(a, t.Base()) {
		return nil
	}
	return a
}

// Transacts reports whether ctx is of a turn of a Durable grain that may write, or of a tick; not of a hook.
func Transacts(ctx context.Context) bool {
	t, _, err := core.TurnOf(ctx)
	return err == nil && transaction(t) != nil
}

// keeping returns the durable activation whose turn or hook ctx is of, nil where it is of none, or of one that has ended.
func keeping(ctx context.Context) *activation {
	t, _, err := core.TurnOf(ctx)
	if err != nil || t.Kind() != core.TurnGrain || t.Base().Ended() {
		return nil
	}
	if a, ok := t.Attached().(*activation); ok && a.tenure != nil && a.tenure.durable != nil {
		return a
	}
	return nil
}
