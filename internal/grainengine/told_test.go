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
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
)

// herald is a durable grain that tells others something, and changes no State.
type herald struct{ n grains.State[int] }

func (h *herald) OnActivate(ctx context.Context) error   { return heraldHook(ctx, "OnActivate") }
func (h *herald) OnDeactivate(ctx context.Context) error { return heraldHook(ctx, "OnDeactivate") }

// heraldHook is what the hooks of heralds do; of one test at a time.
var heraldHook func(ctx context.Context, name string) error

type heralds struct {
	net   *fakeNet
	kind  grains.Kind[herald]
	heard chan string
	tell  func(ctx context.Context, what string) error
	many  grains.Act[herald, int] // tells so much at once
}

func newHeralds(t *testing.T, opts ...grains.Option) *heralds {
	tb := raysys.NewTable()
	h := &heralds{net: newNet(t, tb), heard: make(chan string, 20_000)}
	listeners := grains.DefineIn[listener](tb, "listener", opts...)
	note := grains.Action(listeners, "note", func(_ *listener, _ context.Context, s string) error { h.heard <- s; return nil })
	h.tell = func(ctx context.Context, what string) error { return note.Tell(ctx, listeners.Get("r"), what) }
	h.kind = grains.DefineIn[herald](tb, "herald", grains.Durable())
	h.many = grains.Action(h.kind, "many", func(g *herald, ctx context.Context, n int) (err error) {
		for range n {
			g.n.Value++
			err = errors.Join(err, h.tell(ctx, fmt.Sprint("word ", g.n.Value)))
		}
		return err
	})
	heraldHook = func(context.Context, string) error { return nil }
	return h
}

// TestTellsOfTurnsWithoutChange: however a turn of a Durable grain ends that changes no State, what it has told others leaves once the turn is
// stored, and not before.
func TestTellsOfTurnsWithoutChange(t *testing.T) {
	for name, of := range map[string]func(h *heralds) func(ctx context.Context, g grains.Grain[herald]){
		"a tick": func(h *heralds) func(context.Context, grains.Grain[herald]) {
			start := grains.Action0(h.kind, "start", func(_ *herald, ctx context.Context) error {
				_, err := grains.After(ctx, time.Millisecond, func(ctx context.Context) error { return h.tell(ctx, "a tick") })
				return err
			})
			return func(ctx context.Context, g grains.Grain[herald]) { start.Call(ctx, g) }
		},
		"a read": func(h *heralds) func(context.Context, grains.Grain[herald]) {
			read := grains.Action0(h.kind, "read", func(_ *herald, ctx context.Context) error { return h.tell(ctx, "a read") }).ReadOnly()
			return func(ctx context.Context, g grains.Grain[herald]) { read.Call(ctx, g) }
		},
		"a read that fails": func(h *heralds) func(context.Context, grains.Grain[herald]) {
			read := grains.Action0(h.kind, "read", func(_ *herald, ctx context.Context) error {
				return errors.Join(errTorn, h.tell(ctx, "a read that fails"))
			}).ReadOnly()
			return func(ctx context.Context, g grains.Grain[herald]) { _, _ = read.Call(ctx, g).Get(ctx) }
		},
		"a Tell": func(h *heralds) func(context.Context, grains.Grain[herald]) {
			pass := grains.Action0(h.kind, "pass", func(_ *herald, ctx context.Context) error { return h.tell(ctx, "a Tell") })
			return func(ctx context.Context, g grains.Grain[herald]) { _ = pass.Tell(ctx, g) }
		},
		"OnActivate": func(h *heralds) func(context.Context, grains.Grain[herald]) {
			heraldHook = func(ctx context.Context, name string) error {
				if name == "OnActivate" {
					return h.tell(ctx, name)
				}
				return nil
			}
			read := grains.Action0(h.kind, "read", func(*herald, context.Context) error { return nil }).ReadOnly()
			return func(ctx context.Context, g grains.Grain[herald]) { read.Call(ctx, g) }
		},
		"OnDeactivate": func(h *heralds) func(context.Context, grains.Grain[herald]) {
			heraldHook = func(ctx context.Context, name string) error {
				if name == "OnDeactivate" {
					return h.tell(ctx, name)
				}
				return nil
			}
			quit := grains.Action0(h.kind, "quit", func(_ *herald, ctx context.Context) error { return grains.Deactivate(ctx) }).ReadOnly()
			return func(ctx context.Context, g grains.Grain[herald]) { quit.Call(ctx, g) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHeralds(t)
			run := of(h)
			let := h.net.slowly("commit")
			defer let()
			ctx := h.net.add("a").context()
			go run(ctx, h.kind.Get("x"))
			nodetest.Eventually(t, "it commits", func() bool { return h.net.pending() == 1 || len(h.heard) > 0 })
			if len(h.heard) > 0 {
				t.Error("the message left before the turn was stored")
			}
			let()
			if got := nodetest.Arrive(t, h.heard, "the message"); got != name {
				t.Error(got)
			}
		})
	}
}

// TestTellsBesideARead: a read that comes back to a transaction that waits leaves the messages of that as they are; each turn's leave with it.
func TestTellsBesideARead(t *testing.T) {
	h := newHeralds(t)
	var turn grains.Act[herald, string]
	peek := grains.Action0(h.kind, "peek", func(_ *herald, ctx context.Context) error { return h.tell(ctx, "read") }).ReadOnly().Reentrant()
	relay := grains.Action0(h.kind, "relay", func(_ *herald, ctx context.Context) error {
		_, err := peek.Call(ctx, h.kind.Get("x")).Get(ctx)
		return err
	}).ReadOnly()
	turn = grains.Action(h.kind, "turn", func(_ *herald, ctx context.Context, end string) error {
		err := h.tell(ctx, end)
		_, called := relay.Call(ctx, h.kind.Get("y")).Get(ctx)
		if end == "fails" {
			err = errTorn
		}
		return errors.Join(err, called)
	})
	ctx := h.net.add("a").context()
	nodetest.Fails(t, ctx, turn.Call(ctx, h.kind.Get("x"), "fails"), errTorn)
	ends(t, ctx, turn.Call(ctx, h.kind.Get("x"), "counts"))
	var got []string
	for range 3 {
		got = append(got, nodetest.Arrive(t, h.heard, "a message"))
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"counts", "read", "read"}) {
		t.Error(got)
	}
}

// TestLostMessagesAreSaid: what OnDeactivate leaves when that cannot be stored is reported.
func TestLostMessagesAreSaid(t *testing.T) {
	h := newHeralds(t)
	quit := grains.Action0(h.kind, "quit", func(_ *herald, ctx context.Context) error { return grains.Deactivate(ctx) }).ReadOnly()
	a := h.net.add("a")
	ctx := a.context()
	heraldHook = func(ctx context.Context, name string) error {
		if name == "OnDeactivate" {
			return h.tell(ctx, "last words")
		}
		return nil
	}
	ends(t, ctx, h.many.Call(ctx, h.kind.Get("x"), 1))
	h.net.put(idOf(h.kind.Get("x")), h.net.add("b")) // a may store nothing any more
	quit.Call(ctx, h.kind.Get("x"))
	nodetest.Eventually(t, "lost words are said", func() bool {
		h.net.mu.Lock()
		defer h.net.mu.Unlock()
		return slices.ContainsFunc(a.unseen, func(line string) bool {
			return strings.Contains(line, "herald/x.OnDeactivate: its changes of States, 0, and its Tells, 1, are not stored")
		})
	})
}

// TestLostLastWords: what OnDeactivate leaves is reported, too, where a turn before it turns out not to be stored while the hook runs.
func TestLostLastWords(t *testing.T) {
	h := newHeralds(t)
	let := h.net.slowly("commit")
	defer let()
	hook := make(chan bool)
	var first atomic.Bool
	first.Store(true)
	heraldHook = func(ctx context.Context, name string) error {
		if name != "OnDeactivate" {
			return nil
		}
		if first.Swap(false) {
			hook <- true
			<-hook
			return h.tell(ctx, "last words")
		}
		return nil
	}
	turn := grains.Action0(h.kind, "turn", func(h *herald, ctx context.Context) error {
		h.n.Value++
		return grains.Deactivate(ctx)
	})
	a := h.net.add("a")
	ctx := a.context()
	r := turn.Call(ctx, h.kind.Get("x"))
	<-hook
	h.net.put(idOf(h.kind.Get("x")), h.net.add("b")) // a may store nothing any more
	let()
	nodetest.Eventually(t, "the turn is made again", func() bool { return core.FutureOf(r.Link).TurnFor().Attempt() > 1 })
	hook <- true
	ends(t, ctx, r)
	nodetest.Eventually(t, "lost words are said", func() bool {
		h.net.mu.Lock()
		defer h.net.mu.Unlock()
		return slices.ContainsFunc(a.unseen, func(line string) bool {
			return strings.Contains(line, "herald/x.OnDeactivate: its changes of States, 0, and its Tells, 1, are not stored")
		})
	})
}

// clockwork is a durable grain with timers, which note their ticks.
type clockwork struct {
	N    grains.State[int] // a Durable kind has one
	stop func()
}

// TestTimersOfATurnTakenBack: the timers that a transaction began go with it, and those that it stopped are there again, at their times.
func TestTimersOfATurnTakenBack(t *testing.T) {
	for name, c := range map[string]struct {
		do     func(w *clockwork, every func(name string, d time.Duration)) // after 500 ms
		ticks  map[bool]string                                              // until 3.6 s, of a turn that counts or is taken back
		behind bool                                                         // a turn of a second is queued behind that one
	}{
		"begun":                          {func(_ *clockwork, every func(string, time.Duration)) { every("b", 2*time.Second) }, map[bool]string{true: "a1 a2 b2.5 a3", false: "a1 a2 a3"}, false},
		"stopped":                        {func(w *clockwork, _ func(string, time.Duration)) { w.stop() }, map[bool]string{true: "", false: "a1 a2 a3"}, false},
		"stopped, due":                   {func(w *clockwork, _ func(string, time.Duration)) { <-time.After(time.Second); w.stop() }, map[bool]string{true: "", false: "a1.5 a2.5 a3.5"}, false},
		"stopped, due, and another turn": {func(w *clockwork, _ func(string, time.Duration)) { <-time.After(time.Second); w.stop() }, map[bool]string{true: "", false: "a2.5 a3.5"}, true},
		"stopped, twice":                 {func(w *clockwork, _ func(string, time.Duration)) { w.stop(); <-time.After(time.Second); w.stop() }, map[bool]string{true: "", false: "a1.5 a2.5 a3.5"}, false},
		"replaced": {func(w *clockwork, every func(string, time.Duration)) {
			w.stop()
			every("b", 2*time.Second)
		}, map[bool]string{true: "b2.5", false: "a1 a2 a3"}, false},
		"begun and stopped": {func(w *clockwork, every func(string, time.Duration)) {
			every("b", 2*time.Second)
			w.stop()
		}, map[bool]string{true: "a1 a2 a3", false: "a1 a2 a3"}, false},
	} {
		for _, counts := range []bool{true, false} {
			t.Run(name+map[bool]string{true: ", counts", false: ", taken back"}[counts], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if got := ticksOf(t, c.do, counts, c.behind); got != c.ticks[counts] {
						t.Errorf("ticks %q, want %q", got, c.ticks[counts])
					}
				})
			})
		}
	}
	// A tick that stops its own timer, and is taken back.
	synctest.Test(t, func(t *testing.T) {
		tb, n := raysys.NewTable(), 0
		kind := grains.DefineIn[clockwork](tb, "clockwork", grains.Durable())
		start := grains.Action0(kind, "start", func(w *clockwork, ctx context.Context) (err error) {
			w.stop, err = grains.Every(ctx, time.Second, func(context.Context) error {
				w.stop()
				if n++; n < 3 {
					return errTorn
				}
				return nil
			})
			return err
		})
		_, ctx := nodetest.Start(t, system.Config{Table: tb})
		if _, err := start.Call(ctx, kind.Get("a")).Get(ctx); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		if n != 3 {
			t.Errorf("%d ticks, want 2 that are taken back and the one that stops the timer", n)
		}
	})
}

func ticksOf(t *testing.T, do func(*clockwork, func(string, time.Duration)), counts, behind bool) string {
	tb, begin := raysys.NewTable(), time.Now()
	var mu sync.Mutex
	var ticks []string
	kind := grains.DefineIn[clockwork](tb, "clockwork", grains.Durable())
	every := func(w *clockwork, ctx context.Context, name string, d time.Duration) {
		stop, err := grains.Every(ctx, d, func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			ticks = append(ticks, name+strings.TrimSuffix(time.Since(begin).Round(100*time.Millisecond).String(), "s"))
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		w.stop = stop
	}
	start := grains.Action0(kind, "start", func(w *clockwork, ctx context.Context) error { every(w, ctx, "a", time.Second); return nil })
	turn := grains.Action0(kind, "turn", func(w *clockwork, ctx context.Context) error {
		do(w, func(name string, d time.Duration) { every(w, ctx, name, d) })
		if !counts {
			return errTorn
		}
		return nil
	})
	busy := grains.Action0(kind, "busy", func(*clockwork, context.Context) error { <-time.After(time.Second); return nil })
	_, ctx := nodetest.Start(t, system.Config{Table: tb})
	if _, err := start.Call(ctx, kind.Get("a")).Get(ctx); err != nil {
		t.Fatal(err)
	}
	pass(500 * time.Millisecond)
	r := turn.Call(ctx, kind.Get("a"))
	if behind {
		busy.Call(ctx, kind.Get("a"))
	}
	if _, err := r.Get(ctx); (err == nil) != counts {
		t.Error(err)
	}
	pass(3600*time.Millisecond - time.Since(begin))
	mu.Lock()
	defer mu.Unlock()
	return strings.Join(ticks, " ")
}
