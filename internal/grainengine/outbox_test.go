package grainengine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/outbox"
)

// waitingOf is what of x's messages has not arrived.
func (h *heralds) waitingOf(n *fakeNode) (count int, w outbox.Waiting) {
	for _, g := range grainengine.FindActive(n.engine, idOf(h.kind.Get("x"))) {
		count, w = grainengine.MessagesOf(&g), grainengine.WaitingOf(&g, 2)
	}
	return count, w
}

// sendsToMany adds a method to h by which x tells keys something, each as often as its place in them says.
func (h *heralds) sendsToMany() grains.Act[herald, []string] {
	listeners := grains.DefineIn[listener](h.net.table, "hearer")
	note := grains.Action(listeners, "note", func(_ *listener, _ context.Context, s string) error { h.heard <- s; return nil })
	return grains.Action(h.kind, "many-keys", func(_ *herald, ctx context.Context, keys []string) (err error) {
		for i, key := range keys {
			for n := range i + 1 {
				err = errors.Join(err, note.Tell(ctx, listeners.Get(key), fmt.Sprint(key, n)))
			}
		}
		return err
	})
}

// TestMessagesAreSeen: of a grain is known how many of its messages have not arrived, and of the receivers with the most how often they were
// tried in vain, and why; nothing of it is left once they have arrived.
func TestMessagesAreSeen(t *testing.T) {
	h := newHeralds(t)
	many := h.sendsToMany()
	let := h.net.away("hearer")
	a := h.net.add("a")
	ends(t, a.context(), many.Call(a.context(), h.kind.Get("x"), []string{"one", "t\xffo", "three"}))
	nodetest.Eventually(t, "they are tried", func() bool {
		n, w := h.waitingOf(a)
		return n == 6 && len(w.Receivers) == 2 && w.Oldest > 0 && w.Receivers[0].Tries > 1 && w.Receivers[1].Tries > 1
	})
	_, w := h.waitingOf(a)
	for i, want := range []string{"hearer/three", `hearer/"t\xffo"`} {
		r := w.Receivers[i]
		if got := grainengine.ShownReceiver(r.Kind, r.To); got != want || r.Messages != 3-i || r.Why == nil || !strings.Contains(r.Why.Error(), "by test") {
			t.Errorf("%d messages to %s, since %v; want %d to %s", r.Messages, got, r.Why, 3-i, want)
		}
	}
	if waiting, vain := grainengine.Outboxes(a.engine); waiting["herald"] != 6 || vain["herald"] < 4 || len(waiting) != 1 {
		t.Errorf("messages %v, tries in vain %v", waiting, vain)
	}
	let()
	for range 6 {
		nodetest.Arrive(t, h.heard, "a message")
	}
	nodetest.Eventually(t, "nothing waits", func() bool {
		n, w := h.waitingOf(a)
		waiting, _ := grainengine.Outboxes(a.engine)
		_, known := waiting["herald"]
		return n == 0 && w.Oldest == time.Duration(0) && len(w.Receivers) == 0 && waiting["herald"] == 0 && known
	})
}

// TestDropMessages: the messages of a grain to one receiver are removed from memory and from the store, those to others and later ones arrive,
// on another node too; one that was on its way meanwhile changes nothing.
func TestDropMessages(t *testing.T) {
	h := newHeralds(t)
	many := h.sendsToMany()
	let := h.net.away("hearer")
	a := h.net.add("a")
	ctx, x := a.context(), h.kind.Get("x")
	drop := func(to string, want int) {
		t.Helper()
		g := grainengine.FindActive(a.engine, idOf(x))[0]
		if n, err := grainengine.DropMessages(ctx, &g, to); n != want || err != nil {
			t.Fatalf("%d messages to %s are dropped, %v; want %d", n, to, err, want)
		}
	}
	keys := make([]string, 40) // of key 40 there are more than one commit removes
	for i := range keys {
		keys[i] = fmt.Sprint("k", i+1)
	}
	keys[1] = "t\xffo"
	ends(t, ctx, many.Call(ctx, x, keys))
	drop("hearer/none", 0)
	drop(`hearer/"t\xffo"`, 2)
	drop("hearer/k40", 40)
	drop("hearer/k40", 0)
	if n, _ := h.waitingOf(a); n != 820-42 {
		t.Errorf("%d messages wait", n)
	}
	h.net.store.mu.Lock()
	if n := len(h.net.store.sides[idOf(x)]); n != 820-42 {
		t.Errorf("%d messages are stored", n)
	}
	h.net.store.mu.Unlock()
	b := h.net.add("b")
	a.kill()
	let()
	h.wake(t, b)
	seen := map[string]bool{}
	for len(seen) < 820-42 {
		m := nodetest.Arrive(t, h.heard, "a message")
		if seen[m] = true; strings.HasPrefix(m, "t\xffo") || strings.HasPrefix(m, "k40") && m != "k40" && len(m) > 3 {
			t.Errorf("%q arrives", m)
		}
	}
	ends(t, b.context(), many.Call(b.context(), x, []string{"k40"}))
	for nodetest.Arrive(t, h.heard, "a later message") != "k400" {
	}
}
