package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/stream"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// printer is a Durable grain whose turns do what a test says.
type printer struct{ Turns grains.State[int] }

// piece is what a turn publishes: List to Key of a stream, each alone under ID where there is one.
type piece struct {
	To, Key, ID string
	List        []int
	Fails       bool
}

var (
	longest  = stream.Define[int](strings.Repeat("%", 85))
	printers = grains.Define[printer]("printer", grains.Durable())
	put      = grains.Action(printers, "put", (*printer).Put)
	show     = grains.Action(printers, "show", (*printer).Put).ReadOnly()
)

// Put publishes pieces in a turn.
func (p *printer) Put(ctx context.Context, list []piece) error {
	p.Turns.Value++
	for _, l := range list {
		to := map[string]stream.Stream[int]{"": pages, "parked": pages.Parked(), "longest": longest}[l.To]
		if l.ID == "" {
			if err := to.PublishAll(ctx, l.Key, l.List); err != nil {
				return err
			}
		}
		for _, n := range l.List {
			if l.ID == "" {
				break
			}
			if _, err := to.Publish(ctx, l.Key, n, stream.ID(l.ID)); err != nil {
				return err
			}
		}
		if l.Fails {
			return errTorn
		}
	}
	return nil
}

// TestPublishedKeys: keys of any bytes, many events at once, ids that come twice in a turn, a ReadOnly method, and the stream of parked events.
func TestPublishedKeys(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t, g := k.Context(), k.T(), printers.Get("g")
		do := func(f grains.Act[printer, []piece], list ...piece) error {
			_, err := f.Call(ctx, g, list).Get(ctx)
			k.Advance(5 * time.Second)
			return err
		}
		is := func(s stream.Stream[int], key string, want ...int) {
			t.Helper()
			if got, err := stored(ctx, s, key); err != nil || !slices.Equal(got, want) {
				t.Errorf("%d events of %.20q are stored, %v; want %d", len(got), key, err, len(want))
			}
		}
		for _, key := range []string{"", "\xff", "a\x00b", "a/b", "*", ">", ".", strings.Repeat("\xfe", stream.MaxKey)} {
			if err := do(put, piece{Key: key, List: []int{1, 2, 3}}); err != nil {
				t.Error(err)
			}
			is(pages, key, 1, 2, 3)
		}
		if err := do(put, piece{Key: strings.Repeat("k", stream.MaxKey+1), List: []int{1}}); !errors.Is(err, raysys.ErrTooLarge) {
			t.Error(err)
		}
		if err := do(put, piece{Key: "many", List: upTo(1500)}); err != nil {
			t.Error(err)
		}
		is(pages, "many", upTo(1500)...)
		if err := do(put, piece{Key: "id", ID: "one", List: []int{1, 2}}, piece{Key: "id", ID: "two", List: []int{3}}); err != nil {
			t.Error(err)
		}
		is(pages, "id", 1, 3)
		if err := do(show, piece{Key: "read", List: []int{1}}, piece{Key: "read", List: []int{2}, Fails: true}); err == nil || !strings.Contains(err.Error(), errTorn.Error()) {
			t.Error(err)
		}
		is(pages, "read", 1, 2) // a ReadOnly method takes nothing back
		if err := do(show, piece{Key: "read2", List: []int{1}}, piece{Key: "read2", List: []int{2}}); err != nil {
			t.Error(err)
		}
		is(pages, "read2", 1, 2)
		if err := do(put, piece{To: "parked", Key: "p", List: []int{1}}); err != nil {
			t.Error(err)
		}
		is(pages.Parked(), "p", 1)
		var most []piece
		for n := range 1025 {
			most = append(most, piece{Key: "most", List: []int{n}})
		}
		if err := do(put, most...); !errors.Is(err, raysys.ErrTooLarge) && !errors.Is(err, raysys.ErrOverloaded) {
			t.Errorf("a turn with %d events: %v", len(most), err)
		}
		is(pages, "most")
	}, inVirtualMemory(t))
}

// TestPublishedNowhere: what would keep an event from its stream for good is an error in the turn, and no message that waits.
func TestPublishedNowhere(t *testing.T) {
	for nodes, want := range map[int]error{0: nil, 1: stream.ErrNoNATS} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			var opts []testkit.Option
			if nodes > 0 {
				opts = append(opts, testkit.Nodes(nodes))
			}
			testkit.Virtual(t, func(k *testkit.Kit) {
				ctx, t, g := k.Context(), k.T(), printers.Get("g")
				for to, want := range map[string]error{"": want, "longest": raysys.ErrBadDefinition} {
					if _, err := put.Call(ctx, g, []piece{{To: to, Key: "k", List: []int{1}}}).Get(ctx); !errors.Is(err, want) {
						t.Errorf("%q: %v, want %v", to, err, want)
					}
				}
				k.Advance(time.Second)
				if got, err := stored(ctx, pages, "k"); !errors.Is(err, want) || err == nil && !slices.Equal(got, []int{1}) {
					t.Error(got, err)
				}
			}, opts...)
		})
	}
}

// TestPublishedByAnother: a message that another version of the program has written waits for a program that can read it.
func TestPublishedByAnother(t *testing.T) {
	for _, body := range [][]byte{nil, {0}, {0xff, 0xff}, []byte("{}")} {
		outcome, err := stream.DeliverNow(t.Context(), grainengine.Post{To: "pages/k", Body: body, Again: true})
		if outcome != nil || !errors.Is(err, stream.ErrUnreadable) {
			t.Errorf("%q: %v, %v", body, outcome, err)
		}
	}
}

// leaver is a Durable grain that publishes in its hooks.
type leaver struct{ N grains.State[int] }

var (
	leaves         = stream.Define[int]("leaves")
	leavers        = grains.Define[leaver]("leaver", grains.Durable())
	touch          = grains.Method0(leavers, "touch", func(l *leaver, _ context.Context) (int, error) { l.N.Value++; return l.N.Value, nil })
	numbersOfHooks = make(chan uint64, 10)
)

func (*leaver) OnActivate(ctx context.Context) error {
	n, err := leaves.Publish(ctx, "k", 1)
	numbersOfHooks <- n
	return err
}

func (*leaver) OnDeactivate(ctx context.Context) error {
	_, err := leaves.Publish(ctx, "k", 2)
	return err
}

// TestPublishedByHooks: a hook has its event in the stream when Publish returns, with its number. Nothing would send it after the last one.
func TestPublishedByHooks(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t := k.Context(), k.T()
		if _, err := touch.Call(ctx, leavers.Get("a")).Get(ctx); err != nil {
			t.Fatal(err)
		}
		if n := <-numbersOfHooks; n != 1 {
			t.Errorf("the event of OnActivate has number %d", n)
		}
	}, inVirtualMemory(t))
}

// TestPublishedAfterARestart: a program by itself, whose directory has a message, sends it when it begins again.
func TestPublishedAfterARestart(t *testing.T) {
	dir, away := t.TempDir(), atomic.Bool{}
	away.Store(true)
	defer stream.Deliver(func(_ context.Context, _ grainengine.Post, deliver func() error) error {
		if away.Load() {
			return errors.New("away by test")
		}
		return deliver()
	})()
	for run := range 2 {
		n, err := system.New(system.Config{Data: dir, Namespace: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx := n.Context(t.Context())
		if run == 0 {
			if _, err := put.Call(ctx, printers.Get("g"), []piece{{Key: "k", List: upTo(3)}}).Get(ctx); err != nil {
				t.Fatal(err)
			}
		} else {
			away.Store(false)
			await(t, "the events are stored", func() bool {
				got, err := stored(ctx, pages, "k")
				return err == nil && slices.Equal(got, upTo(3))
			})
		}
		if err := n.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPublishedIsDropped: raysys get shows the keys that events wait for, and raysys outbox drop takes each of them.
func TestPublishedIsDropped(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t, g := k.Context(), k.T(), printers.Get("g")
		away := atomic.Bool{}
		away.Store(true)
		defer stream.Deliver(func(_ context.Context, _ grainengine.Post, deliver func() error) error {
			if away.Load() {
				return errors.New("away by test")
			}
			return deliver()
		})()
		keys := map[string]string{"": "stream:pages/", "a/b": "stream:pages/a/b", "x\xff": `stream:"pages/x\xff"`}
		for key := range keys {
			if _, err := put.Call(ctx, g, []piece{{Key: key, List: []int{1}}, {Key: key, List: []int{2}}}).Get(ctx); err != nil {
				t.Fatal(err)
			}
		}
		k.Advance(5 * time.Second)
		n := k.Cluster().Node(1)
		found, err := n.Get(ctx, "printer/g")
		if err != nil {
			t.Fatal(err)
		}
		shown := map[string]bool{}
		for _, r := range found.Things[0].Grains[0].Receivers {
			shown[r.To] = r.Messages == 2 && strings.Contains(r.Why, "away by test")
		}
		for _, to := range keys {
			if !shown[to] {
				t.Errorf("of %s nothing is shown: %v", to, shown)
			}
			if n, err := n.DropMessages(ctx, "printer/g", to); n != 2 || err != nil {
				t.Errorf("%s: %d messages are dropped, %v", to, n, err)
			}
		}
		away.Store(false)
		k.Advance(time.Minute)
		for key := range keys {
			if got, err := stored(ctx, pages, key); len(got) != 0 || err != nil {
				t.Errorf("%q: %v, %v", key, got, err)
			}
		}
	}, testkit.Nodes(2), inVirtualMemory(t))
}
