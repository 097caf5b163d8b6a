package grainengine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/internal/outbox"
)

// postOffice delivers the messages of kind "parcel" of one test at a time.
var postOffice atomic.Pointer[func(grainengine.Post) (outcome, err error)]

func init() {
	grainengine.RegisterDeliverer("parcel", func(_ context.Context, p grainengine.Post) (outcome, err error) {
		return (*postOffice.Load())(p)
	})
}

// posts adds a method to h by which x posts words, to the receiver that their first letter names. The last may be how the turn ends.
func (h *heralds) posts(deliver func(grainengine.Post) (outcome, err error)) grains.Act[herald, []string] {
	postOffice.Store(&deliver)
	return grains.Action(h.kind, "post", func(_ *herald, ctx context.Context, words []string) (err error) {
		for _, w := range words {
			switch w {
			case "fails":
				return errTorn
			case "panics":
				panic("by test")
			}
			kept, bad := grainengine.PostLater(ctx, "parcel", w[:1], []byte(w))
			if err = errors.Join(err, bad); !kept {
				err = errors.Join(err, errors.New("the message is not kept"))
			}
		}
		return err
	})
}

// TestPosts: what a turn posts is delivered once its turn is stored, in order for each receiver, and with a number that grows; of a turn that
// fails nothing is. What cannot be delivered is tried again and holds up its own receiver alone; an outcome is logged.
func TestPosts(t *testing.T) {
	h := newHeralds(t)
	got, tries := make(chan grainengine.Post, 100), 0
	post := h.posts(func(p grainengine.Post) (outcome, err error) {
		switch w := string(p.Body); {
		case w == "a1" && tries < 3:
			tries++
			return nil, errors.New("away by test")
		case w == "c1":
			outcome = errors.New("an outcome by test")
		}
		got <- p
		return outcome, nil
	})
	n := h.net.add("a")
	ctx, x := n.context(), h.kind.Get("x")
	nodetest.Fails(t, ctx, post.Call(ctx, x, []string{"a0", "fails"}), errTorn)
	nodetest.Fails(t, ctx, post.Call(ctx, x, []string{"a0", "panics"}), raysys.ErrPanic)
	ends(t, ctx, post.Call(ctx, x, []string{"a1", "b1", "a2", "c1", "a3"}))
	ends(t, ctx, post.Call(ctx, x, []string{"a4"}))
	words, last := map[string][]string{}, map[string]uint64{}
	for range 6 {
		p := nodetest.Arrive(t, got, "a message")
		if p.Again != (string(p.Body) == "a1") {
			t.Errorf("%s comes again: %v", p.Body, p.Again)
		}
		if words[p.To] = append(words[p.To], string(p.Body)); p.Number <= last[p.To] || p.From.IsZero() {
			t.Errorf("%s has number %d, after %d; it is of %v", p.Body, p.Number, last[p.To], p.From)
		}
		last[p.To] = p.Number
	}
	for to, want := range map[string][]string{"a": {"a1", "a2", "a3", "a4"}, "b": {"b1"}, "c": {"c1"}} {
		if !slices.Equal(words[to], want) {
			t.Errorf("%s gets %v, want %v", to, words[to], want)
		}
	}
	nodetest.Eventually(t, "the outcome is logged", func() bool {
		h.net.mu.Lock()
		defer h.net.mu.Unlock()
		return slices.ContainsFunc(n.unseen, func(s string) bool { return strings.Contains(s, "parcel:c: an outcome by test") })
	})
	nodetest.Eventually(t, "nothing waits", func() bool { left, _ := h.waitingOf(n); return left == 0 })
	if _, vain := grainengine.Outboxes(n.engine); vain["herald"] != 3 {
		t.Errorf("%d tries in vain", vain["herald"])
	}
}

// TestPostsOutliveTheirNode: a message that was not delivered when its node died is delivered by the next activation, under the same number and
// of the same grain. Before that it is seen by its kind and receiver, and may be dropped.
func TestPostsOutliveTheirNode(t *testing.T) {
	h := newHeralds(t)
	got, tried := make(chan grainengine.Post, 100), make(chan grainengine.Post, 1000)
	away := atomic.Bool{}
	away.Store(true)
	post := h.posts(func(p grainengine.Post) (outcome, err error) {
		if away.Load() {
			tried <- p
			return nil, errors.New("away by test")
		}
		got <- p
		return nil, nil
	})
	a := h.net.add("a")
	ctx, x := a.context(), h.kind.Get("x")
	ends(t, ctx, post.Call(ctx, x, []string{"a1", "a2", "\xff3"}))
	first := map[string]grainengine.Post{}
	for len(first) < 2 {
		p := nodetest.Arrive(t, tried, "a try")
		first[string(p.Body)] = p
	}
	nodetest.Eventually(t, "it is seen", func() bool {
		_, w := h.waitingOf(a)
		var names []string
		for _, r := range w.Receivers {
			names = append(names, grainengine.ShownReceiver(r.Kind, r.To))
		}
		return slices.Equal(names, []string{"parcel:a", `parcel:"\xff"`})
	})
	g := grainengine.FindActive(a.engine, idOf(x))[0]
	for to, want := range map[string]int{"parcel/a": 0, "a": 0, `parcel:"\xff"`: 1} {
		if n, err := grainengine.DropMessages(ctx, &g, to); n != want || err != nil {
			t.Errorf("%d messages to %s are dropped, %v; want %d", n, to, err, want)
		}
	}
	b := h.net.add("b")
	a.kill()
	away.Store(false)
	h.wake(t, b)
	for _, want := range []string{"a1", "a2"} {
		p := nodetest.Arrive(t, got, want)
		// The node that was killed may have been at one more, for which that was the first try.
		for string(p.Body) != want || !p.Again {
			p = nodetest.Arrive(t, got, want+", again")
		}
		if f := first["a1"]; p.From != f.From || want == "a1" && p.Number != f.Number || want == "a2" && p.Number != f.Number+1 {
			t.Errorf("%s with number %d of %v; a1 had %d of %v", p.Body, p.Number, p.From, f.Number, f.From)
		}
	}
}

// TestPostsOfHooksAndOthers: in a hook, and outside of a turn of a Durable grain, nothing is kept; and a kind that no package delivers waits for a program that has the package.
func TestPostsOfHooksAndOthers(t *testing.T) {
	h := newHeralds(t)
	hooks := make(chan error, 10)
	post := h.posts(func(grainengine.Post) (outcome, err error) { return nil, errors.New("refused by test") })
	heraldHook = func(ctx context.Context, name string) error {
		if name != "OnActivate" {
			return nil
		}
		if grainengine.Transacts(ctx) {
			return errors.New("a hook transacts")
		}
		kept, err := grainengine.PostLater(ctx, "parcel", "h", []byte("of a hook"))
		if kept || grainengine.PostsWait(ctx) {
			err = errors.Join(err, errors.New("a post of a hook is kept"))
		}
		hooks <- err
		return err
	}
	transacts := grains.Method0(h.kind, "transacts", func(_ *herald, ctx context.Context) (bool, error) { return grainengine.Transacts(ctx), nil })
	stray := grains.Action0(h.kind, "stray", func(_ *herald, ctx context.Context) error {
		_, err := grainengine.PostLater(ctx, "nobody's", "n", nil)
		return err
	})
	a := h.net.add("a")
	ctx, x := a.context(), h.kind.Get("x")
	if kept, err := grainengine.PostLater(ctx, "parcel", "a", nil); kept || err != nil {
		t.Errorf("of a driver: %v, %v", kept, err)
	}
	for want, f := range map[bool]grains.Func0[herald, bool]{true: transacts, false: transacts.ReadOnly()} {
		if is, err := f.Call(ctx, x).Get(ctx); is != want || err != nil {
			t.Errorf("Transacts is %v, %v", is, err)
		}
	}
	if err := nodetest.Arrive(t, hooks, "the hook"); err != nil {
		t.Error(err)
	}
	ends(t, ctx, stray.Call(ctx, x))
	nodetest.Eventually(t, "it is said why it waits", func() bool {
		_, w := h.waitingOf(a)
		return len(w.Receivers) == 1 && errors.Is(w.Receivers[0].Why, raysys.ErrUnknownFunc) && strings.Contains(w.Receivers[0].Why.Error(), "nobody's")
	})
	many := make([]string, outbox.MaxTurn+1)
	for i := range many {
		many[i] = fmt.Sprint("a", i)
	}
	nodetest.Fails(t, ctx, post.Call(ctx, x, many), raysys.ErrOverloaded)
	nodetest.Fails(t, ctx, post.Call(ctx, x, []string{strings.Repeat("a", outbox.MaxTurnBytes)}), raysys.ErrTooLarge)
}
