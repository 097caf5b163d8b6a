package grainengine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/goroutines"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/outbox"
	"github.com/raysys/raysys/internal/wire"
)

// What a turn of a durable grain tells others is stored with its commit, and is sent from memory after that:
//
//	Tell ──► tellLater ──► the turn ends ──► its commit, with numbers ──► Sender.Add ──► sendTell ──► delivery
//	  └► of a hook: it is sent once the hook is stored
//
// PostLater and deliverPost do the same for messages of other packages. Package outbox has the rules. A grain with
// messages is not idle; where its activation ends with some, the next one sends them, and the leader of its shard
// wakes it for that.

// keptTell is a Tell of a turn that has not ended. That of a method or a timer is a message, which is stored with the
// turn; that of a hook is sent once the hook is stored.
type keptTell struct {
	turn    *core.Turn
	message *outbox.Message
	send    func()
}

// tellLater keeps a Tell of a turn of a until that is stored. Where the turn has ended meanwhile it keeps nothing, and
// kept is false.
func tellLater(
	m *method, ctx context.Context, a *activation, id graindir.ID, arg unsafe.Pointer,
) (kept bool, err error) {
	t, _, err := core.TurnOf(ctx)
	if err == nil {
		_, _, err = m.checked(ctx, id)
	}
	if err == nil {
		err = core.HandOver(t.Job(), "argument of "+m.entry.Name, m.argType, arg)
	}
	if err != nil {
		return true, err
	}
	k := keptTell{turn: t.Base()}
	if inHook(a, k.turn) {
		from := core.HookContext(k.turn.Detached())
		k.send = func() {
			if err := m.queuedOrWhy(m.callWith(from, id, arg)); err != nil {
				reportUnseen(a, "tell", err)
			}
		}
	} else if k.message, err = packTell(m, t.Values(), id, arg); err != nil {
		return true, fmt.Errorf("tell %s: %w", m.entry.Name, err)
	}
	return keepTell(a.tenure.durable, k, "tell "+m.entry.Name)
}

// inHook reports whether the turn is that of a hook of a which runs.
func inHook(a *activation, turn *core.Turn) bool {
	h := a.hook.Load()
	return h != nil && h.Base() == turn
}

// Post is a message of another package than this one, as that delivers it.
type Post struct {
	To     string
	Body   []byte
	From   raysys.TaskID // the grain that has sent it, a hash
	Number uint64        // grows with each message of the grain
	Again  bool          // a try before this one may have delivered it, also one of an activation before
}

// deliverers are the functions that deliver messages of other packages, by kind.
var deliverers sync.Map

// RegisterDeliverer has deliver deliver the messages of a kind. Its outcome says what the receiver has made of the
// message, which has arrived then; after an error the message is sent again. Each try has an end, so that raysys get says
// why a message waits.
func RegisterDeliverer(kind string, deliver func(ctx context.Context, p Post) (outcome, err error)) {
	deliverers.Store(kind, deliver)
}

// PostLater keeps a message until the turn of ctx, which is of a Durable grain, is stored. Where ctx is of no such turn,
// or of a hook, it keeps nothing, and kept is false.
func PostLater(ctx context.Context, kind, to string, body []byte) (kept bool, err error) {
	a := posting(ctx)
	if a == nil {
		return false, nil
	}
	t, _, _ := core.TurnOf(ctx)
	k := keptTell{turn: t.Base(), message: outbox.New(kind, to, body)}
	return keepTell(a.tenure.durable, k, "message to "+ShownReceiver(kind, to))
}

// deliverPost delivers a message of another package.
func deliverPost(ctx context.Context, a *activation, m *outbox.Message, done func(error)) {
	deliver, ok := deliverers.Load(m.Kind)
	if !ok {
		done(fmt.Errorf(
			"%w: no package of this program delivers messages of kind %q: import the one that an earlier build had",
			raysys.ErrUnknownFunc, m.Kind))
		return
	}
	a.kind.engine.cfg.Pool.Go(goroutines.Func(func() {
		p := Post{To: m.To, Body: m.Body, From: keyedID(a, ""), Number: m.Number, Again: m.Tried}
		outcome, err := deliver.(func(context.Context, Post) (error, error))(ctx, p)
		if tell := a.kind.engine.cfg.Unseen; outcome != nil && err == nil && tell != nil {
			tell(ShownReceiver(m.Kind, m.To), outcome)
		}
		done(err)
	}))
}

// keepTell keeps what a turn tells others until it has ended.
func keepTell(d *durable, k keptTell, what string) (kept bool, err error) {
	size := toldSize(d, k)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch told := int(d.told.Load()); {
	case k.turn.Ended(): // takeTells, which follows its end, may have been here
		return false, nil
	case len(d.tells) >= outbox.MaxTurn:
		return true, fmt.Errorf(
			"%s: %w: the turn has told others %d things, which leave when it is stored",
			what, raysys.ErrOverloaded, outbox.MaxTurn)
	case told+size > outbox.MaxTurnBytes:
		return true, fmt.Errorf(
			"%s: %w: what the turn tells others has %d bytes with this, where each message counts with the name of the "+
				"grain, and what is stored with a turn at most %d: store the values, and tell their names",
			what, raysys.ErrTooLarge, told+size, outbox.MaxTurnBytes)
	}
	d.told.Add(int64(size))
	d.tells = append(d.tells, k)
	return true, nil
}

// toldSize is about what the commit of the turn takes for it.
func toldSize(d *durable, k keptTell) int {
	if k.message == nil {
		return 0
	}
	return len(k.message.Record) + d.recordKey()
}

// takeTells takes out what the turn has told others. The caller has d.mu locked.
func takeTells(d *durable, turn *core.Turn) (list []keptTell) {
	if turn == nil || len(d.tells) == 0 {
		return nil
	}
	d.tells = slices.DeleteFunc(d.tells, func(k keptTell) bool {
		if k.turn != turn {
			return false
		}
		list = append(list, k)
		d.told.Add(-int64(toldSize(d, k)))
		return true
	})
	return list
}

// dropTells drops what the turn has told others.
func dropTells(d *durable, turn *core.Turn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	takeTells(d, turn)
}

// messagesOf are the messages among what turns have told others.
func messagesOf(tells []keptTell) (list []*outbox.Message) {
	for _, k := range tells {
		if k.message != nil {
			list = append(list, k.message)
		}
	}
	return list
}

// What a Tell says of its method, in the first byte of a message's body.
const (
	tellReadOnly = 1 << iota
	tellAgain
	tellComes
)

// packTell makes the message that a Tell of a durable turn is: flags | values | method | options | argument.
func packTell(m *method, values *core.Values, id graindir.ID, arg unsafe.Pointer) (*outbox.Message, error) {
	p, err := Pack(Func{m}, id, arg)
	if err != nil {
		return nil, err
	}
	opts, err := core.PackOptions(&p.Opts)
	if err != nil {
		return nil, fmt.Errorf("%w: what a turn of a durable grain tells others is stored: %w", raysys.ErrBadOption, err)
	}
	flags := byte(0)
	for i, set := range []bool{p.ReadOnly, p.Again, p.Comes} {
		if set {
			flags |= 1 << i
		}
	}
	body, err := wire.AppendValues([]byte{flags}, values)
	if err != nil {
		return nil, err
	}
	body = append(wire.AppendBytes(wire.AppendBytes(body, p.Function), opts), p.Arg...)
	msg := outbox.New(outbox.Tell, id.Kind+"\x00"+id.Key, body)
	msg.Wide = wideTell(m)
	return msg, nil
}

// wideTell reports whether several messages to a grain of the kind may be on their way at a time: a durable one keeps
// their order, workers have none, and a method that keeps its call may wait for a later one. Any other gets the next
// when it has answered the one before.
func wideTell(m *method) bool { return m.kind.Durable || m.kind.Stateless || m.kind.later }

// tellRead reads what packTell has made.
func tellRead(m *outbox.Message) (p core.Packed, values *core.Values, id graindir.ID, err error) {
	r := wire.NewReader(m.Body)
	flags := r.Byte()
	if values, err = wire.ReadValues(&r); err != nil {
		return p, nil, id, err
	}
	p.Function = r.String()
	opts := r.Bytes()
	if err = r.Err(); err != nil {
		return p, nil, id, err
	}
	if len(opts) == 0 {
		opts = nil
	}
	if p.Opts, err = core.UnpackOptions(opts); err != nil {
		return p, nil, id, err
	}
	p.ReadOnly, p.Again, p.Comes, p.Arg = flags&tellReadOnly != 0, flags&tellAgain != 0, flags&tellComes != 0, r.Rest()
	id.Kind, id.Key, _ = strings.Cut(m.To, "\x00")
	return p, values, id, nil
}

// senderLocked returns what sends the grain's messages. The caller has d.mu locked.
func senderLocked(d *durable) *outbox.Sender {
	if s := d.sender.Load(); s != nil {
		return s
	}
	e := d.a.kind.engine
	from := core.NewTurn(core.TurnSpec{
		Kind: core.TurnGrain, Name: d.a.kind.def.name + "/" + shown(d.a.key) + ".outbox",
		ID: e.cfg.Hooks.ID().Child(e.hooks.Add(1)), Up: e.cfg.Hooks, Attempt: 1,
	})
	s := outbox.NewSender(outbox.Config{
		Runtime: e.cfg.Hooks.Runtime(), Pool: e.cfg.Pool,
		Send:   func(m *outbox.Message, done func(error)) { sendTell(d, core.HookContext(from), m, done) },
		Commit: d.commitEmpty,
		Late: func(m *outbox.Message, tries int, why error) {
			d.a.warn("message of a grain does not arrive", fmt.Sprintf(
				"to %s, tried %d times: %v",
				shown(ShownReceiver(m.Kind, m.To)), tries, why))
		},
	})
	d.sender.Store(s)
	return s
}

// messagesLeft is how many messages of the grain have not arrived.
func messagesLeft(a *activation) int {
	if a.tenure == nil || a.tenure.durable == nil {
		return 0
	}
	return a.tenure.durable.sender.Load().Left()
}

// stopSending ends the sending of an activation that has ended. On a node by itself no leader hears of that end.
func stopSending(a *activation) {
	if a.tenure == nil || a.tenure.durable == nil {
		return
	}
	s := a.tenure.durable.sender.Load()
	if s == nil {
		return
	}
	s.Stop()
	if a.kind.engine.cfg.Cluster == nil && s.Left() > 0 {
		wakeGrain(a)
	}
}

// wakeGrain has a call of the grain made that does nothing, so that an activation which begins sends its messages.
func wakeGrain(a *activation) {
	if e := a.kind.engine; !e.closed.Load() {
		e.cfg.Pool.Go(goroutines.Func(func() {
			Call(core.HookContext(e.waker()), a.kind.def.wake, graindir.ID{Kind: a.kind.def.name, Key: a.key}, none{})
		}))
	}
}

// sendTell delivers a message.
func sendTell(d *durable, ctx context.Context, m *outbox.Message, done func(error)) {
	if d.a.tenure.stale.Load() {
		done(raysys.ErrMoved) // another activation sends it
		return
	}
	if m.Kind != outbox.Tell {
		deliverPost(ctx, d.a, m, func(err error) {
			if err != nil {
				d.a.kind.vainSends.Add(1)
			}
			done(err)
		})
		return
	}
	p, values, id, err := tellRead(m)
	if err != nil {
		d.a.kind.vainSends.Add(1)
		done(fmt.Errorf("message %x: %w", m.Number, err))
		return
	}
	values.All(func(name string, v any) bool {
		ctx = core.WithValue(ctx, name, v)
		return true
	})
	if p.Opts.Deadline == 0 {
		p.Opts.NoLimit = true
	}
	w := &delivery{to: id, what: p.Function, of: d.a, done: done}
	sent := &outbox.Sent{From: keyedID(d.a, ""), Number: m.Number, Before: m.Before}
	if c := core.FutureOf(callPacked(ctx, &p, id, sent)); !c.Subscribe(&w.waiter, w) {
		w.ended(c.Failure())
	}
}

// delivery waits for what becomes of a message.
type delivery struct {
	to     graindir.ID
	what   string
	of     *activation
	done   func(error)
	waiter core.Waiter
}

// Resolved implements core.Resolved.
func (w *delivery) Resolved(x *core.Waiter) { w.ended(x.Future().Failure()) }

func (w *delivery) ended(err error) {
	if err == nil || !outcomeOfTell(err) {
		if err != nil {
			w.of.kind.vainSends.Add(1)
		}
		w.done(err)
		return
	}
	if tell := w.of.kind.engine.cfg.Unseen; tell != nil {
		tell(Shown(w.to)+w.what[len(w.to.Kind):], err)
	}
	w.done(nil)
}

// outcomeOfTell reports whether a message that ended with err has arrived: the method has made that of it, or no
// attempt would make another. All else is tried again.
func outcomeOfTell(err error) bool {
	if _, ran := err.(*raysys.TaskError); !ran && errors.Is(err, ErrActivation) {
		return false // the receiver's OnActivate has failed, and the method has not run
	}
	var own *raysys.TaskError
	return failedBy(err) || errors.As(err, &own) || slices.ContainsFunc([]error{
		ErrReplyGone, ErrUnsettled, raysys.ErrDeadline, raysys.ErrKeyReused, raysys.ErrNondeterministic, raysys.ErrBadOption,
		raysys.ErrInvalidRef, raysys.ErrTooLarge, raysys.ErrEncode, raysys.ErrFilter,
	}, func(e error) bool { return errors.Is(err, e) })
}

// ShownReceiver is the receiver of a message in words: a grain by kind/key, any other behind the kind of the message.
// It is quoted where it does not print, and never cut.
func ShownReceiver(kind, to string) string {
	before := kind + ":"
	if kind == outbox.Tell {
		before, to, _ = strings.Cut(to, "\x00")
		before += "/"
	}
	if !printable(to) {
		to = strconv.Quote(to)
	}
	return before + to
}

// isFor reports whether a message is for a receiver, by its bytes or as ShownReceiver has it, or has that name since it
// cannot be read.
func isFor(m *outbox.Message, to string) bool {
	kind, of := m.Receiver()
	plain := kind + ":" + of
	if kind == outbox.Tell {
		plain = strings.Replace(of, "\x00", "/", 1)
	}
	return plain == to || ShownReceiver(kind, of) == to ||
		m.Bad != nil && to == ShownReceiver(outbox.Unreadable, outbox.Hex(m.Number))
}

// StoredReceiver is the receiver of a stored message, as ShownReceiver has it, or the name of the message where err says
// why it cannot be read. isOf reports whether a drop of messages to a receiver is of this one too.
func StoredReceiver(name string, data []byte) (shown string, isOf func(to string) bool, err error) {
	m, _, err := readMessage(graindir.Side{Family: graindir.SideOutbox, Name: name, Data: data})
	switch {
	case err != nil:
		return ShownReceiver(outbox.Unreadable, fmt.Sprintf("%x", name)), func(string) bool { return false }, err
	case m.Bad != nil:
		shown = ShownReceiver(outbox.Unreadable, outbox.Hex(m.Number))
	default:
		shown = ShownReceiver(m.Receiver())
	}
	return shown, func(to string) bool { return isFor(m, to) }, m.Bad
}

// readMessage reads a stored message, and of a Tell what it calls.
func readMessage(s graindir.Side) (m *outbox.Message, p core.Packed, err error) {
	if m, err = outbox.ReadMessage(s); err != nil || m.Kind != outbox.Tell {
		return m, p, err
	}
	if p, _, _, err = tellRead(m); errors.Is(err, wire.ErrCorrupt) {
		m.Bad = fmt.Errorf("%w: message %x to %s is damaged: %w",
			graindir.ErrUnreadable, s.Name, ShownReceiver(m.Kind, m.To), wire.ErrCorrupt)
	}
	return m, p, nil
}

// readMessages reads the messages among what is stored of a grain. One that this program cannot read waits with those
// behind it, and does not keep the grain from its work.
func readMessages(d *durable, sides []graindir.Side) (list []*outbox.Message, err error) {
	for _, s := range sides {
		if s.Family != graindir.SideOutbox {
			continue
		}
		m, p, err := readMessage(s)
		if err != nil {
			return nil, err
		}
		if entry := d.a.kind.engine.cfg.Table.Lookup("method", p.Function); entry != nil {
			m.Wide = wideTell(entry.Impl.(*methodVariants)[0])
		}
		if m.Bad != nil && d.sender.Load() == nil { // else it has been said
			d.a.warn("message of a grain cannot be read", fmt.Sprintf(
				"%v; those behind it wait: run a program that reads it, or remove it: raysys outbox drop %s --to %s",
				m.Bad, Shown(graindir.ID{Kind: d.a.kind.def.name, Key: d.a.key}),
				ShownReceiver(outbox.Unreadable, outbox.Hex(m.Number))))
		}
		list = append(list, m)
	}
	return list, nil
}

// DropMessages drops the messages of a grain to a receiver, by its bytes or as ShownReceiver has it, and returns how
// many once that is stored. Where the store does not take it before ctx ends, it goes with the grain's next commit.
func DropMessages(ctx context.Context, g *Active, to string) (n int, err error) {
	if MessagesOf(g) == 0 {
		return 0, nil
	}
	d := g.a.tenure.durable
	s := d.sender.Load()
	n, last := s.Drop(func(m *outbox.Message) bool { return isFor(m, to) })
	for n > 0 && slices.Contains(s.Gone(outbox.MaxBytes), last) {
		stored := make(chan struct{})
		d.mu.Lock()
		if !d.again.Load() && !d.a.tenure.stale.Load() {
			d.ended = append(d.ended, &endedTurn{answer: func() { close(stored) }})
			d.commitLocked()
		}
		d.mu.Unlock()
		select {
		case <-stored:
		case <-ctx.Done():
			return n, fmt.Errorf(
				"%d messages of %s to %s are dropped, and that is not stored yet: where its node dies before the grain's "+
					"next commit they come back: %w",
				n, Shown(g.ID), shown(to), context.Cause(ctx))
		}
	}
	return n, nil
}
