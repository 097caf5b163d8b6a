package grainengine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/golden"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/outbox"
	"github.com/raysys/raysys/internal/wire"
)

// away has grains of a kind placed nowhere, until let is called.
func (net *fakeNet) away(kind string) (let func()) {
	set := func(f func(string, *fakeNode, graindir.ID) error) {
		net.mu.Lock()
		defer net.mu.Unlock()
		net.fault = f
	}
	set(func(op string, _ *fakeNode, id graindir.ID) error {
		if op == "locate" && id.Kind == kind {
			return fmt.Errorf("%w: by test", raysys.ErrUnreachable)
		}
		return nil
	})
	return func() { set(nil) }
}

// words expects the words numbered first to last, in their order.
func (h *heralds) words(t *testing.T, first, last int) {
	t.Helper()
	for i := first; i <= last; i++ {
		if got, want := nodetest.Arrive(t, h.heard, fmt.Sprint("word ", i)), fmt.Sprint("word ", i); got != want {
			t.Fatalf("%s arrives in place of %s", got, want)
		}
	}
}

// wake wakes x, as the leader of its shard does.
func (h *heralds) wake(t *testing.T, n *fakeNode) {
	t.Helper()
	if err := grainengine.Wake(n.context(), h.net.table, idOf(h.kind.Get("x"))); err != nil {
		t.Fatal(err)
	}
}

// TestMessagesOutliveTheirNode: what a turn has told others whose node died before it was sent arrives, once the grain is woken, and in its order.
func TestMessagesOutliveTheirNode(t *testing.T) {
	h := newHeralds(t)
	let := h.net.away("listener")
	a := h.net.add("a")
	ctx := a.context()
	ends(t, ctx, h.many.Call(ctx, h.kind.Get("x"), 3))
	ends(t, ctx, h.many.Call(ctx, h.kind.Get("x"), 2))
	b := h.net.add("b")
	a.kill()
	let()
	h.wake(t, b)
	h.words(t, 1, 5)
	ends(t, b.context(), h.many.Call(b.context(), h.kind.Get("x"), 1))
	h.words(t, 6, 6)
	nodetest.Eventually(t, "their records are gone", func() bool {
		h.net.store.mu.Lock()
		defer h.net.store.mu.Unlock()
		return len(h.net.store.sides[idOf(h.kind.Get("x"))]) == 0
	})
	ends(t, b.context(), h.many.Call(b.context(), h.kind.Get("x"), outbox.MaxTurn))
	h.words(t, 7, 6+outbox.MaxTurn)
	nodetest.Eventually(t, "the records of many are gone without another call", func() bool {
		h.net.store.mu.Lock()
		defer h.net.store.mu.Unlock()
		return len(h.net.store.sides[idOf(h.kind.Get("x"))]) == 0
	})
}

// TestMessagesOfUnknownCommit: what a turn has told others arrives without another call also where neither the commit
// nor what is stored was answered.
func TestMessagesOfUnknownCommit(t *testing.T) {
	h := newHeralds(t)
	ctx := h.net.add("a").context()
	ends(t, ctx, h.many.Call(ctx, h.kind.Get("x"), 1))
	h.words(t, 1, 1)
	var left atomic.Int32
	h.net.store.mu.Lock()
	h.net.store.onSave = func(id graindir.ID, _ string) fault {
		if id.Kind == "herald" && left.CompareAndSwap(0, 1) {
			return saveStored
		}
		return saveWell
	}
	h.net.store.onLoad = func(id graindir.ID) error {
		if id.Kind == "herald" && left.CompareAndSwap(1, 2) {
			return fmt.Errorf("%w: by test", raysys.ErrUnreachable)
		}
		return nil
	}
	h.net.store.mu.Unlock()
	nodetest.Fails(t, ctx, h.many.Call(ctx, h.kind.Get("x"), 2), raysys.ErrOutcomeUnknown)
	h.words(t, 2, 3)
}

// TestMessagesWithoutCluster: in one process, too, and where the grain leaves memory with messages.
func TestMessagesWithoutCluster(t *testing.T) {
	h := newHeralds(t, grains.Mailbox(1))
	quit := grains.Action(h.kind, "quit", func(_ *herald, ctx context.Context, _ int) error {
		return errors.Join(grains.Deactivate(ctx), h.tell(ctx, "word 301"))
	})
	a := h.net.addAlone("a")
	ctx := a.context()
	ends(t, ctx, h.many.Call(ctx, h.kind.Get("x"), 300)) // its mailbox takes one
	ends(t, ctx, quit.Call(ctx, h.kind.Get("x"), 0))
	var got []string
	for len(got) < 301 {
		if w := nodetest.Arrive(t, h.heard, "a word"); !slices.Contains(got, w) { // what was on its way may come again
			got = append(got, w)
		}
	}
	for i, w := range got {
		if w != fmt.Sprint("word ", i+1) {
			t.Fatalf("%s is number %d", w, i+1)
		}
	}
}

// TestMessagesAreBounded: beyond 4,096 messages that have not arrived calls are refused before their turn, and reads are not; nothing is lost.
func TestMessagesAreBounded(t *testing.T) {
	h := newHeralds(t)
	var ran atomic.Int32
	turn := grains.Action0(h.kind, "turn", func(*herald, context.Context) error { ran.Add(1); return nil })
	read := grains.Action0(h.kind, "read", func(*herald, context.Context) error { return nil }).ReadOnly()
	let := h.net.away("listener")
	a := h.net.add("a")
	ctx, x := a.context(), h.kind.Get("x")
	nodetest.Fails(t, ctx, h.many.Call(ctx, x, outbox.MaxTurn+1), raysys.ErrOverloaded)
	for range outbox.Max / outbox.MaxTurn {
		ends(t, ctx, turn.Call(ctx, x))
		ends(t, ctx, h.many.Call(ctx, x, outbox.MaxTurn))
	}
	before := ran.Load()
	nodetest.Fails(t, ctx, turn.Call(ctx, x), raysys.ErrOverloaded)
	if ran.Load() != before {
		t.Error("a call that was refused has run")
	}
	ends(t, ctx, read.Call(ctx, x))
	if gone, stays := grainengine.UnloadIdle(a.engine, 1); gone != 0 || stays["herald"]["with messages"] != 1 {
		t.Errorf("%d grains go for want of memory; those stay: %v", gone, stays)
	}
	let()
	h.words(t, 1, outbox.Max)
	nodetest.Eventually(t, "calls are taken again", func() bool {
		_, err := turn.Call(ctx, x).Get(ctx)
		return err == nil
	})
}

// TestMessagesThatCannotBe fail in the turn.
func TestMessagesThatCannotBe(t *testing.T) {
	tb := raysys.NewTable()
	net := newNet(t, tb)
	listeners := grains.DefineIn[listener](tb, "listener")
	text := grains.Action(listeners, "text", func(*listener, context.Context, string) error { return nil }).Idempotent()
	refers := grains.Action(listeners, "refers", func(*listener, context.Context, raysys.Ref[int]) error { return nil })
	kind := grains.DefineIn[postman](tb, "postman", grains.Durable())
	said := make(chan error, 1)
	try := grains.Action(kind, "try", func(_ *postman, ctx context.Context, what int) error {
		r := listeners.Get("r")
		switch what {
		case 0:
			said <- text.Tell(ctx, r, strings.Repeat("x", outbox.MaxTurnBytes))
		case 1:
			said <- refers.Tell(ctx, r, raysys.Ref[int]{})
		case 2:
			said <- text.With(raysys.Retries(1), raysys.RetryIf(func(error) bool { return true })).Tell(ctx, r, "")
		case 3:
			said <- text.With(raysys.Retries(1), raysys.Label("zone", "a")).Tell(ctx, r, strings.Repeat("x", outbox.MaxTurnBytes/2))
		}
		return nil
	})
	ctx := net.add("a").context()
	for what, want := range []error{raysys.ErrTooLarge, raysys.ErrBadOption, raysys.ErrBadOption, nil} {
		ends(t, ctx, try.Call(ctx, kind.Get("x"), what))
		if err := <-said; !errors.Is(err, want) {
			t.Errorf("%d: %v, want %v", what, err, want)
		}
	}
}

// user is a request value that messages carry.
var user = raysys.NewContextKey[string]("message_test.user")

// TestMessagesCarryValues: the request values of the turn come with its message, also after a restart.
func TestMessagesCarryValues(t *testing.T) {
	h := newHeralds(t)
	listeners := grains.DefineIn[listener](h.net.table, "hearer")
	note := grains.Action(listeners, "note", func(_ *listener, ctx context.Context, s string) error {
		who, _ := user.From(ctx)
		h.heard <- s + " of " + who
		return nil
	})
	pass := grains.Action0(h.kind, "pass", func(_ *herald, ctx context.Context) error {
		return errors.Join(note.Tell(ctx, listeners.Get("r"), "first"), note.Tell(user.With(ctx, "b"), listeners.Get("r"), "second"))
	})
	let := h.net.away("hearer")
	a := h.net.add("a")
	ctx := user.With(a.context(), "a")
	ends(t, ctx, pass.Call(ctx, h.kind.Get("x")))
	b := h.net.add("b")
	a.kill()
	let()
	h.wake(t, b)
	for _, want := range []string{"first of a", "second of b"} {
		if got := nodetest.Arrive(t, h.heard, want); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// daybook is a durable receiver; it stores what it was told, by sender.
type daybook struct {
	told grains.State[map[string][]int]
}

// order is what a sender tells its receivers.
type order struct {
	From string
	N    int
}

// postman is a sender; it stores how often it has told something.
type postman struct{ n grains.State[int] }

// TestMessagesArrive: with nodes that are killed and live on as zombies, links that break, grains that leave, and a store whose answers get lost,
// what turns that counted have told others arrives, at each receiver in the order of its sender, and at durable ones once.
func TestMessagesArrive(t *testing.T) {
	for _, seed := range long.Seeds() {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { messageStorm(t, seed, 600) })
	}
}

func messageStorm(t *testing.T, seed uint64, ops int) {
	const senders, receivers = 5, 3
	tb := raysys.NewTable()
	net := newNet(t, tb)
	draw := drawn(seed)
	var mu sync.Mutex           // guards heard
	heard := map[string][]int{} // by plain receiver and sender
	plain := grains.DefineIn[listener](tb, "plain")
	hear := grains.Action(plain, "hear", func(_ *listener, ctx context.Context, o order) error {
		self, _ := grains.Self(ctx)
		mu.Lock()
		defer mu.Unlock()
		heard[self.Key+" "+o.From] = append(heard[self.Key+" "+o.From], o.N)
		return nil
	})
	books := grains.DefineIn[daybook](tb, "book", grains.Durable())
	enter := grains.Action(books, "enter", func(l *daybook, _ context.Context, o order) error {
		if l.told.Value == nil {
			l.told.Value = map[string][]int{}
		}
		l.told.Value[o.From] = append(l.told.Value[o.From], o.N)
		if o.N%11 == 0 {
			return errTorn // it has arrived, and the receiver takes it back
		}
		return nil
	})
	entries := grains.Method0(books, "entries", func(l *daybook, _ context.Context) (map[string][]int, error) { return l.told.Value, nil }).ReadOnly()
	kind := grains.DefineIn[postman](tb, "postman", grains.Durable())
	send := grains.Action0(kind, "send", func(p *postman, ctx context.Context) (err error) {
		self, _ := grains.Self(ctx)
		p.n.Value++
		for r := range receivers {
			err = errors.Join(err, enter.Tell(ctx, books.Get(fmt.Sprint(r)), order{self.Key, p.n.Value}), hear.Tell(ctx, plain.Get(fmt.Sprint(r)), order{self.Key, p.n.Value}))
		}
		if p.n.Value%5 == 0 && err == nil && draw(2) == 0 {
			err = errTorn
		}
		return err
	})
	sent := grains.Method0(kind, "sent", func(p *postman, _ context.Context) (int, error) { return p.n.Value, nil }).ReadOnly()
	quit := grains.Action0(kind, "quit", func(_ *postman, ctx context.Context) error { return grains.Deactivate(ctx) }).ReadOnly()
	leave := grains.Action0(books, "leave", func(_ *daybook, ctx context.Context) error { return grains.Deactivate(ctx) }).ReadOnly()

	last := storm(t, net, draw, ops, 60, 12, func(n int, from *fakeNode) {
		ctx, g := from.context(), kind.Get(fmt.Sprint(n%senders))
		switch draw(20) {
		case 0:
			_, _ = quit.Call(ctx, g).Get(ctx)
		case 1:
			_, _ = leave.Call(ctx, books.Get(fmt.Sprint(n%receivers))).Get(ctx)
		}
		_, _ = send.Call(ctx, g).Get(ctx)
	})
	ctx := last.context()
	inOrder := func(list []int, upTo int, torn bool) bool {
		want := 0
		for _, n := range list {
			for want+1 < n && torn && (want+1)%11 == 0 {
				want++
			}
			if n == want+1 {
				want++
			} else if n > want+1 {
				return false
			}
		}
		for want < upTo && torn && (want+1)%11 == 0 {
			want++
		}
		return want == upTo
	}
	for s := range senders {
		from := fmt.Sprint(s)
		_ = grainengine.Wake(ctx, tb, idOf(kind.Get(from)))
		n, err := sent.Call(ctx, kind.Get(from)).Get(ctx)
		if err != nil || n == 0 {
			t.Fatal(n, err)
		}
		nodetest.Eventually(t, "the messages of sender "+from+" arrive", func() bool {
			_ = grainengine.Wake(ctx, tb, idOf(kind.Get(from)))
			net.store.mu.Lock()
			defer net.store.mu.Unlock()
			return len(net.store.sides[idOf(kind.Get(from))]) == 0
		})
		for r := range receivers {
			all, err := entries.Call(ctx, books.Get(fmt.Sprint(r))).Get(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if once := slices.Compact(slices.Clone(all[from])); !inOrder(all[from], n, true) || len(once) != len(all[from]) || !slices.IsSorted(all[from]) {
				t.Errorf("durable receiver %d has heard %v of the %d messages of %s", r, all[from], n, from)
			}
			mu.Lock()
			if got := heard[fmt.Sprint(r, " ", from)]; !inOrder(got, n, false) {
				t.Errorf("receiver %d has heard %v of the %d messages of %s", r, got, n, from)
			}
			mu.Unlock()
		}
	}
}

// TestMessagesThatDoNotCount: what a method makes of a message is an arrival.
func TestMessagesThatDoNotCount(t *testing.T) {
	h := newHeralds(t)
	listeners := grains.DefineIn[listener](h.net.table, "hearer")
	ran := 0
	note := grains.Action(listeners, "note", func(_ *listener, _ context.Context, s string) error {
		ran++
		h.heard <- fmt.Sprint(s, " ", ran)
		switch s {
		case "fails":
			return errTorn
		case "panics":
			panic("by test")
		}
		return nil
	})
	pass := grains.Action0(h.kind, "pass", func(_ *herald, ctx context.Context) (err error) {
		for _, s := range []string{"fails", "panics", "ends"} {
			err = errors.Join(err, note.Tell(ctx, listeners.Get("r"), s))
		}
		return err
	})
	a := h.net.add("a")
	ends(t, a.context(), pass.Call(a.context(), h.kind.Get("x")))
	for _, want := range []string{"fails 1", "panics 2", "ends 3"} {
		if got := nodetest.Arrive(t, h.heard, want); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	nodetest.Eventually(t, "the failure is logged", func() bool {
		h.net.mu.Lock()
		defer h.net.mu.Unlock()
		return slices.ContainsFunc(a.unseen, func(line string) bool { return strings.Contains(line, "hearer/r.note: ") })
	})
}

// TestMessageFrame: a call that delivers a message says whose it is and its number, as testdata has it.
func TestMessageFrame(t *testing.T) {
	tb := raysys.NewTable()
	net := newNet(t, tb)
	books := grains.DefineIn[daybook](tb, "book", grains.Durable())
	enter := grains.Action(books, "enter", func(*daybook, context.Context, int) error { return nil })
	kind := grains.DefineIn[postman](tb, "postman", grains.Durable())
	pass := grains.Action(kind, "pass", func(_ *postman, ctx context.Context, n int) error {
		return errors.Join(enter.Tell(ctx, books.Get("r"), n), enter.Tell(ctx, books.Get("r"), n+1))
	})
	a, b := net.add("a"), net.add("b")
	net.put(idOf(kind.Get("x")), a)
	net.put(idOf(books.Get("r")), b)
	frames := make(chan []byte, 10)
	net.mu.Lock()
	net.onWire = func(_ *fakeLink, _ *fakeNode, kind wire.Kind, frame []byte) {
		if kind == wire.KindCall {
			frames <- slices.Clone(frame)
		}
	}
	net.mu.Unlock()
	ends(t, a.context(), pass.Call(a.context(), kind.Get("x"), 5))
	got := slices.Concat(nodetest.Arrive(t, frames, "a message"), nodetest.Arrive(t, frames, "the next"))
	if want := golden.Hex(t, "v1/message.hex", got); !slices.Equal(got, want) {
		t.Errorf("two messages are sent as %x, want %x", got, want)
	}
}
