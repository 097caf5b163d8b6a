package grainengine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/graindir"
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

// TestUnreadableMessages: a grain with messages that a later version has stored, or that are damaged, does its work. Those
// before them arrive, and those behind them once an operator has dropped them: of the same receiver where that can be read,
// of all where not. The log says so once, with what to do.
func TestUnreadableMessages(t *testing.T) {
	h := newHeralds(t)
	many := h.sendsToMany()
	let := h.net.away("hearer")
	a := h.net.add("a")
	x := h.kind.Get("x")
	ends(t, a.context(), many.Call(a.context(), x, []string{"one", "two", "three"})) // one0, two0 and two1, three0 to three2
	a.kill()
	h.net.store.mu.Lock()
	sides := h.net.store.sides[idOf(x)]
	var names []string
	for _, at := range slices.Sorted(maps.Keys(sides)) {
		if at[0] == graindir.SideOutbox {
			names = append(names, at)
		}
	}
	cut := bytes.Index(sides[names[1]], []byte("two")) + len("two") // behind its receiver
	sides[names[1]] = append(slices.Clone(sides[names[1]][:cut]), 0, 200)
	sides[names[4]] = append([]byte{7}, sides[names[4]][1:]...)
	h.net.store.mu.Unlock()
	bad := func(at string) string { return fmt.Sprintf("unreadable:%x", at[1:]) }
	for i, want := range []string{"hearer/one", bad(names[1]), "hearer/two", "hearer/three", bad(names[4])} {
		shown, isOf, err := grainengine.StoredReceiver(names[i][1:], sides[names[i]])
		if shown != want || !isOf(shown) || isOf("hearer/none") || errors.Is(err, grains.ErrUnreadable) != (i%3 == 1) {
			t.Errorf("message %d is stored for %s, want %s: %v", i, shown, want, err)
		}
	}

	b := h.net.add("b")
	let()
	ctx := b.context()
	ends(t, ctx, many.Call(ctx, x, []string{"four"}))
	for _, want := range []string{"one0", "three0"} {
		nodetest.Arrive(t, h.heard, "a message before "+want) // in no order
	}
	nodetest.Eventually(t, "both have arrived", func() bool { n, _ := h.waitingOf(b); return n <= 5 })
	n, w := h.waitingOf(b)
	shownAs := func(i int) string { return grainengine.ShownReceiver(w.Receivers[i].Kind, w.Receivers[i].To) }
	if n != 5 || len(w.Receivers) != 2 || shownAs(0) != bad(names[1]) || shownAs(1) != bad(names[4]) ||
		!errors.Is(w.Receivers[0].Why, grains.ErrUnreadable) || !strings.Contains(w.Receivers[0].Why.Error(), "to hearer/two is damaged") {
		t.Fatalf("%d wait: %+v", n, w)
	}
	drop := func(to string) {
		t.Helper()
		g := grainengine.FindActive(b.engine, idOf(x))[0]
		if n, err := grainengine.DropMessages(ctx, &g, to); n != 1 || err != nil {
			t.Fatalf("%d messages to %s are dropped, %v", n, to, err)
		}
	}
	drop(bad(names[4]))
	got := map[string]bool{}
	for range 2 {
		got[nodetest.Arrive(t, h.heard, "a message behind it")] = true
	}
	if !got["three2"] || !got["four0"] {
		t.Errorf("%v arrive", got)
	}
	drop(bad(names[1]))
	if m := nodetest.Arrive(t, h.heard, "the last"); m != "two1" {
		t.Errorf("%s arrives last", m)
	}
	nodetest.Eventually(t, "their records are gone", func() bool {
		h.net.store.mu.Lock()
		defer h.net.store.mu.Unlock()
		return len(h.net.store.sides[idOf(x)]) == 0
	})
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	for _, at := range []string{names[1], names[4]} {
		said := strings.Count(strings.Join(b.warnings, "\n"), "raysys outbox drop herald/x --to "+bad(at))
		if said != 1 {
			t.Errorf("of %s the log says %d times what to do: %q", bad(at), said, b.warnings)
		}
	}
}
