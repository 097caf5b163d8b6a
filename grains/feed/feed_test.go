package feed_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/feed"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

type room struct{ Lines feed.Feed[string] }

type rooms struct {
	k     *testkit.Kit
	ctx   context.Context
	room  grains.Grain[room]
	watch feed.Watch[room, string]
	says  grains.Act[room, []string]
}

func (r rooms) emit(lines ...string) {
	if _, err := r.says.Call(r.ctx, r.room, lines).Get(r.ctx); err != nil {
		r.k.T().Error(err)
	}
}

// node is that of the room.
func (r rooms) node() int {
	list, err := r.k.Node().Grains(r.ctx, inspect.GrainQuery{Kind: "room"})
	if err == nil && len(list.Grains) == 1 {
		for i := 1; i <= 3; i++ {
			if r.k.Cluster().Name(i) == list.Grains[0].Node {
				return i
			}
		}
	}
	r.k.T().Fatal("the room is nowhere: ", list, err)
	return 0
}

// watcher is a loop, of which each element is sent as text.
func (r rooms) watcher(ctx context.Context, opts ...feed.Option) <-chan string {
	seen := make(chan string, 5000)
	go func() {
		defer close(seen)
		for line, err := range r.watch.All(ctx, r.room, opts...) {
			var missed *feed.MissedError
			switch {
			case errors.As(err, &missed):
				seen <- fmt.Sprint("missed ", missed.N)
			case err != nil:
				seen <- "error " + err.Error()
			default:
				seen <- line
			}
		}
	}()
	return seen
}

func (r rooms) expect(seen <-chan string, want ...string) {
	r.k.T().Helper()
	for _, w := range want {
		if got := <-seen; got != w {
			r.k.T().Fatalf("%q, want %q", got, w)
		}
	}
}

func on(t *testing.T, f func(r rooms), opts ...grains.Option) {
	t.Helper()
	table := raysys.NewTable()
	kind := grains.DefineIn[room](table, "room", opts...)
	says := grains.Action(kind, "says", func(r *room, _ context.Context, lines []string) (err error) {
		for _, l := range lines {
			err = errors.Join(err, r.Lines.Emit(l))
		}
		return err
	})
	watch := feed.Method(kind, "watch", func(r *room) *feed.Feed[string] { return &r.Lines })
	testkit.Virtual(t, func(k *testkit.Kit) {
		k.Cluster().Ready()
		f(rooms{k, k.Context(), kind.Get("a"), watch, says})
	}, testkit.Table(table), testkit.Nodes(3))
}

func numbers(from, to int) (list []string) {
	for i := from; i < to; i++ {
		list = append(list, fmt.Sprint(i))
	}
	return list
}

// TestWatch: watchers see what is emitted from when they begin, or the last before it, and an hour of silence is no end.
func TestWatch(t *testing.T) {
	on(t, func(r rooms) {
		r.emit(numbers(0, 5)...)
		ctx, cancel := context.WithCancel(r.ctx)
		now, last, all := r.watcher(ctx), r.watcher(ctx, feed.Last(2)), r.watcher(ctx, feed.Last(5000))
		r.k.Advance(time.Hour)
		r.emit(numbers(5, 900)...)
		r.k.Advance(time.Second)
		r.expect(now, numbers(5, 900)...)
		r.expect(last, numbers(3, 900)...)
		r.expect(all, numbers(0, 900)...)
		cancel()
		for _, seen := range []<-chan string{now, last, all} {
			if e := <-seen; !strings.Contains(e, "cancel") {
				t.Error(e)
			}
		}
	})
}

// TestSlow: a watcher that is too far behind hears how many items it has missed, and goes on with the oldest.
func TestSlow(t *testing.T) {
	on(t, func(r rooms) {
		r.emit("0")
		var got []string
		for line, err := range r.watch.All(r.ctx, r.room, feed.Last(1)) {
			var missed *feed.MissedError
			switch {
			case len(got) == 0 && err == nil: // the watcher is slow with the first
				r.emit(numbers(1, 1501)...)
			case errors.As(err, &missed):
				line = fmt.Sprint("missed ", missed.N)
			case err != nil:
				t.Fatal(err)
			}
			if got = append(got, line); line == "1500" {
				break
			}
		}
		if want := append([]string{"0", "missed 500"}, numbers(501, 1501)...); !slices.Equal(got, want) {
			t.Error(len(got), got[:3])
		}
	})
}

// TestBytes: a feed has 16 MiB of items, or one that is larger; who is further behind hears how many it has missed.
func TestBytes(t *testing.T) {
	on(t, func(r rooms) {
		r.emit("first")
		n := 0
		for line, err := range r.watch.All(r.ctx, r.room, feed.Last(1000)) {
			var missed *feed.MissedError
			switch n++; {
			case n == 1: // the watcher is slow with it
				for range 20 {
					r.emit(strings.Repeat("x", 1<<20))
				}
			case n == 2:
				if !errors.As(err, &missed) || missed.N != 5 {
					t.Fatal(len(line), err)
				}
			case err != nil:
				t.Fatal(err)
			case n == 17: // the last of 15
				r.emit(strings.Repeat("y", 17<<20))
			case n == 18:
				if len(line) != 17<<20 {
					t.Error(len(line), "bytes")
				}
				r.emit("small")
			}
			if line == "small" {
				break
			}
		}
	})
}

// TestKilled: a watcher of a grain whose node dies hears that, and goes on with the next activation; one that dies itself is known no more.
func TestKilled(t *testing.T) {
	on(t, func(r rooms) {
		r.emit("a")
		seen := r.watcher(r.ctx, feed.Last(1))
		r.expect(seen, "a")
		r.k.Advance(time.Second)
		r.k.Cluster().Kill(r.node())
		r.k.Advance(time.Minute)
		r.expect(seen, "missed 0")
		r.emit("b", "c")
		r.expect(seen, "b", "c")
	})
	on(t, func(r rooms) {
		r.emit("a")
		dies := r.node()%3 + 1
		_ = r.watcher(r.k.Cluster().Node(dies).Context(context.Background()))
		r.k.Advance(time.Second)
		r.k.Cluster().Kill(dies)
		r.k.Advance(time.Minute)
		ctx, cancel := context.WithCancel(r.ctx)
		defer cancel()
		one := r.watcher(ctx) // there is room for one
		r.k.Advance(time.Second)
		r.emit("b")
		r.expect(one, "b")
	}, grains.Mailbox(2))
}

// TestOverloaded: half of the Mailbox watches, and the turns of the grain go on.
func TestOverloaded(t *testing.T) {
	on(t, func(r rooms) {
		seen := []<-chan string{r.watcher(r.ctx), r.watcher(r.ctx), r.watcher(r.ctx)}
		r.k.Advance(time.Second)
		r.emit("a")
		refused := 0
		for _, s := range seen {
			if e := <-s; strings.Contains(e, "2 watch it") {
				refused++
			} else if e != "a" {
				t.Error(e)
			}
		}
		if refused != 1 {
			t.Error(refused, "watchers are refused")
		}
	}, grains.Mailbox(4))
}

type vault struct {
	N     grains.State[int]
	Lines feed.Feed[string]
}

// TestBadDefinitions: what cannot be meant is said at the start, and what a loop cannot mean is its only element.
func TestBadDefinitions(t *testing.T) {
	for want, define := range map[string]func(*raysys.Table){
		"package stream": func(t *raysys.Table) {
			feed.Method(grains.DefineIn[vault](t, "vault", grains.Durable()), "watch", func(v *vault) *feed.Feed[string] { return &v.Lines })
		},
		"the function is nil": func(t *raysys.Table) { feed.Method[room, string](grains.DefineIn[room](t, "room"), "watch", nil) },
	} {
		table := raysys.NewTable()
		define(table)
		if _, err := system.New(system.Config{Table: table}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	on(t, func(r rooms) {
		for _, o := range []feed.Option{feed.Last(-1), nil} {
			for _, err := range r.watch.All(r.ctx, r.room, o) {
				if !errors.Is(err, raysys.ErrBadOption) {
					t.Error(err)
				}
			}
		}
	})
}

// TestItems: an item that cannot travel is an error of Emit.
func TestItems(t *testing.T) {
	var f feed.Feed[func()]
	if err := f.Emit(nil); err == nil {
		t.Error("a function was emitted")
	}
}
