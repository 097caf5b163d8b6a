package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/stream"
	"github.com/raysys/raysys/stream/internal/bus"
	"github.com/raysys/raysys/stream/internal/jetbus"
	"github.com/raysys/raysys/testkit"
)

// press is a Durable grain whose turns publish the numbers of its pages, one and several at a time.
type press struct{ Page grains.State[int] }

var (
	pages    = stream.Define[int]("pages")
	briefly  = stream.Define[int]("brief pages", stream.Keep(10*time.Second))
	presses  = grains.Define[press]("press", grains.Durable())
	printing = grains.Method(presses, "print", (*press).Print)
	errTorn  = errors.New("the paper is torn")
)

// Print prints n pages for the grain's own key and one for "all". A negative n tears the paper.
func (p *press) Print(ctx context.Context, n int) (int, error) {
	self, _ := grains.Self(ctx)
	var list []int
	for range max(n, -n) {
		p.Page.Value++
		list = append(list, p.Page.Value)
	}
	err := errors.Join(pages.PublishAll(ctx, self.Key, list), briefly.PublishAll(ctx, self.Key, list))
	_, last := pages.Publish(ctx, "all", p.Page.Value)
	if n < 0 {
		err = errTorn
	}
	return p.Page.Value, errors.Join(err, last)
}

// stored are the numbers of a key.
func stored(ctx context.Context, s stream.Stream[int], key string) (list []int, err error) {
	for e, err := range s.Read(ctx, key, stream.ToEnd()) {
		if err != nil {
			return list, err
		}
		list = append(list, e.Value)
	}
	return list, nil
}

func upTo(n int) (list []int) {
	for i := range n {
		list = append(list, i+1)
	}
	return list
}

// TestPublishedOnce: events of turns that are stored, and whose answer is lost for so long that the bus has forgotten their IDs, are in the stream
// once and in their order, also beside those of others; and what was stored in part first is made whole.
func TestPublishedOnce(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t := k.Context(), k.T()
		lost, first := atomic.Bool{}, atomic.Bool{}
		lost.Store(true)
		tries := atomic.Int32{}
		defer stream.Deliver(func(ctx context.Context, m grainengine.Post, deliver func() error) error {
			if first.CompareAndSwap(false, true) {
				return errors.Join(stream.DeliverPart(ctx, m, 2), errors.New("the rest is lost by test"))
			}
			err := deliver()
			if lost.Load() {
				tries.Add(1)
				return errors.Join(err, errors.New("the answer is lost by test"))
			}
			return err
		})()
		turn := func(n int) {
			t.Helper()
			if _, err := printing.Call(ctx, presses.Get("a"), n).Get(ctx); (err != nil) != (n < 0) {
				t.Fatal(n, err)
			}
		}
		turn(3)
		turn(-2)
		for i := range 10 { // ten minutes, with events of others
			k.Advance(time.Minute)
			if _, err := pages.Publish(ctx, "a", -i); err != nil {
				t.Fatal(err)
			}
		}
		turn(12)
		turn(1)
		k.Advance(5 * time.Minute)
		if tries.Load() < 20 {
			t.Errorf("%d tries", tries.Load())
		}
		lost.Store(false)
		k.Advance(2 * time.Minute)
		got, err := stored(ctx, pages, "a")
		got = slices.DeleteFunc(got, func(n int) bool { return n <= 0 })
		if err != nil || !slices.Equal(got, upTo(16)) {
			t.Errorf("%v are stored, %v", got, err)
		}
		if got, err := stored(ctx, pages, "all"); err != nil || !slices.Equal(got, []int{3, 15, 16}) {
			t.Errorf("of all %v are stored, %v", got, err)
		}
	}, inVirtualMemory(t))
}

// TestPublishedLate: what could not be sent for an hour is stored, also in a stream that keeps its events for less; and no other event is taken
// for one of those.
func TestPublishedLate(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t := k.Context(), k.T()
		away := atomic.Bool{}
		away.Store(true)
		defer stream.Deliver(func(_ context.Context, _ grainengine.Post, deliver func() error) error {
			if away.Load() {
				return errors.New("away by test")
			}
			return deliver()
		})()
		if _, err := pages.Publish(ctx, "a", 1); err != nil {
			t.Fatal(err)
		}
		if _, err := printing.Call(ctx, presses.Get("a"), 9).Get(ctx); err != nil {
			t.Fatal(err)
		}
		k.Advance(time.Hour)
		away.Store(false)
		k.Advance(time.Minute)
		if got, err := stored(ctx, pages, "a"); err != nil || !slices.Equal(got, append([]int{1}, upTo(9)...)) {
			t.Errorf("%v are stored, %v", got, err)
		}
	}, inVirtualMemory(t))
}

// TestLookBack: of events the ids of those that are stored are found, in memory as on NATS, among many of other keys; not those of another key, and
// not those from longer than a minute before.
func TestLookBack(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (bus.Bus, error){
		"memory": func(*testing.T) (bus.Bus, error) { return bus.NewMemory(), nil },
		"NATS": func(t *testing.T) (bus.Bus, error) {
			return jetbus.Open(jetbus.Config{URL: testkit.NATS(t).URL()})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := open(t)
			if err == nil {
				defer b.Close()
				err = b.Ensure(t.Context(), bus.Config{Name: "s", Partitions: 1, Keep: time.Hour, Replicas: 1})
			}
			if err != nil {
				t.Fatal(err)
			}
			put := func(key, id string) {
				t.Helper()
				if _, err := b.Publish(t.Context(), "s", []bus.Message{{Key: key, ID: id}}); err != nil {
					t.Fatal(err)
				}
			}
			look := func(what, key string, after time.Duration, want ...string) {
				t.Helper()
				var ids []string
				left, err := stream.NotStored(t.Context(), b, "s", []bus.Message{
					{Key: key, ID: "one"}, {Key: key, ID: "two"}, {Key: key, ID: "three"},
				}, time.Now().Add(after))
				for _, e := range left {
					ids = append(ids, e.ID)
				}
				if err != nil || !slices.Equal(ids, want) {
					t.Errorf("%s: %q are left, %v; want %q", what, ids, err, want)
				}
			}
			look("an empty stream", "k", 0, "one", "two", "three")
			for i := range 30 {
				put(fmt.Sprint("other", i%3), fmt.Sprint(i))
			}
			look("a key without events", "k", 0, "one", "two", "three")
			put("k", "one")
			put("k", "")
			put("other0", "two of another")
			put("k", "three")
			put("other1", "")
			look("two of them", "k", 0, "two")
			look("a minute before", "k", 50*time.Second, "two")
			look("longer before", "k", 70*time.Second, "one", "two", "three")
			look("of another key", "other0", 0, "one", "two", "three")
			put("k", "two")
			look("all of them", "k", 0)
		})
	}
}

// TestPublishedOnceOnNATS: turns of Durable grains publish while their nodes get SIGKILL, and NATS does. Each event of a turn that counted is in the
// stream once, and those of a key are in their order.
func TestPublishedOnceOnNATS(t *testing.T) {
	const keys = 6
	s := testkit.NATS(t, testkit.NATSSyncAlways())
	p := processes(t, s)
	ctx := p.Context()
	var stop atomic.Bool
	counted, turns := [keys]atomic.Int64{}, atomic.Int64{}
	done := make(chan error, keys)
	for i := range keys {
		go func() {
			for n := 0; ; n++ {
				if stop.Load() {
					done <- nil
					return
				}
				last, err := printing.With(raysys.Key(fmt.Sprint("turn ", n))).Call(ctx, presses.Get(fmt.Sprint(i)), 1+n%3*5).Get(ctx)
				switch {
				case err == nil:
					counted[i].Store(int64(last))
					turns.Add(1)
				case errors.As(err, new(*raysys.TaskError)):
					done <- err
					return
				default:
					n-- // with its key it counts once
				}
			}
		}()
	}
	more := func() {
		t.Helper()
		for i := range keys {
			was := counted[i].Load()
			await(t, "turns count", func() bool { return counted[i].Load() > was+20 || len(done) > 0 })
		}
	}
	more()
	for round := range long.Form(2, 40) {
		p.Proc(1 + round%3).Restart() // SIGKILL
		more()
		s.Kill(1)
		p.Proc(1 + (round+1)%3).Restart()
		s.Start(1)
		more()
	}
	stop.Store(true)
	for range keys {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	for i := range keys {
		key, want := fmt.Sprint(i), int(counted[i].Load())
		var got []int
		await(t, "all are stored", func() bool {
			var err error
			got, err = stored(ctx, pages, key)
			return err == nil && len(got) >= want
		})
		for at, n := range got {
			if n != at+1 || n > want {
				t.Errorf("key %s: of %d events %d are stored, and number %d follows number %d", key, want, len(got), n, at)
				break
			}
		}
	}
	want, got := int(turns.Load()), 0
	await(t, "each turn has one event of all", func() bool {
		list, err := stored(ctx, pages, "all")
		got = len(list)
		return err == nil && got >= want
	})
	if got != want {
		t.Errorf("%d turns have %d events of all", want, got)
	}
	t.Logf("%d turns", want)
}
