package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/schedule"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// clock is a grain that notes its calls, in a log of the process: by its key, the due times, the time, and what it was given.
type clock struct{ Count grains.State[int] }

var (
	clocks  = grains.Define[clock]("schedule.clock")
	durable = grains.Define[clock]("schedule.durable", grains.Durable())
	tick    = grains.Action(clocks, "tick", (*clock).Tick)
	take    = grains.Action(clocks, "take", (*clock).Take)
	count   = grains.Action0(durable, "count", (*clock).Add)
	counted = grains.Method0(durable, "counted", func(c *clock, _ context.Context) (int, error) { return c.Count.Value, nil }).ReadOnly()
	job     = tasks.Define("schedule.job", func(ctx context.Context, s string) (string, error) {
		f, ok := schedule.Fired(ctx)
		write("job", fmt.Sprint(s, " ", f.Name, " ", ok))
		return s + "!", nil
	})

	book struct {
		mu   sync.Mutex
		m    map[string][]string
		fail error
	}
)

func write(key, line string) {
	book.mu.Lock()
	defer book.mu.Unlock()
	if book.m == nil {
		book.m = map[string][]string{}
	}
	book.m[key] = append(book.m[key], line)
}

func written(key string) []string {
	book.mu.Lock()
	defer book.mu.Unlock()
	return slices.Clone(book.m[key])
}

func clear() {
	book.mu.Lock()
	defer book.mu.Unlock()
	book.m, book.fail = nil, nil
}

// Tick notes the seconds since the first minute in which the time was due, and in which it runs.
func (c *clock) Tick(ctx context.Context, base time.Time) error {
	f, _ := schedule.Fired(ctx)
	self, _ := grains.Self(ctx)
	line := fmt.Sprint(f.Due.Sub(base).Round(time.Second).Seconds())
	if f.Missed > 0 {
		line += fmt.Sprintf(" missed %d", f.Missed)
	}
	write(self.Key, line)
	book.mu.Lock()
	defer book.mu.Unlock()
	return book.fail
}

// Take takes a while.
func (c *clock) Take(ctx context.Context, d time.Duration) error {
	f, _ := schedule.Fired(ctx)
	self, _ := grains.Self(ctx)
	write(self.Key, fmt.Sprint("begin ", f.Due.Unix()%1000, " missed ", f.Missed))
	<-time.After(d)
	return nil
}

func (c *clock) Add(context.Context) error {
	c.Count.Value++
	return nil
}

func want(t testing.TB, key string, lines ...string) {
	t.Helper()
	if got := written(key); !slices.Equal(got, lines) {
		t.Errorf("%s: got %q, want %q", key, got, lines)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestEvery: a schedule fires at its times, is shown, and setting it again changes nothing.
func TestEvery(t *testing.T) {
	for _, nodes := range []int{0, 3} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			var opts []testkit.Option
			if nodes > 0 {
				opts = append(opts, testkit.Nodes(nodes))
			}
			testkit.Virtual(t, func(k *testkit.Kit) {
				clear()
				ctx, t, base := k.Context(), k.T(), time.Now()
				set := func() {
					must(t, schedule.Call(ctx, "ten", schedule.Every(10*time.Second), tick, clocks.Get("a"), base))
				}
				set()
				k.Advance(25 * time.Second)
				set()
				i, err := schedule.Get(ctx, "ten")
				if err != nil || i.Next.Sub(base).Round(time.Second) != 30*time.Second || i.Last.Sub(base).Round(time.Second) != 20*time.Second || i.Work != "schedule.clock/a.tick" || i.When != "every 10s" {
					t.Errorf("got %+v, %v", i, err)
				}
				k.Advance(10 * time.Second)
				want(t, "a", "10", "20", "30")
				must(t, schedule.Delete(ctx, "ten"))
				k.Advance(time.Minute)
				want(t, "a", "10", "20", "30")
				if _, err := schedule.Get(ctx, "ten"); !errors.Is(err, raysys.ErrNotFound) {
					t.Errorf("deleted, and Get says %v", err)
				}
			}, opts...)
		})
	}
}

// TestTask: a task runs under the schedule's name, and Lookup finds its outcome.
func TestTask(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		clear()
		ctx, t := k.Context(), k.T()
		must(t, schedule.Task(ctx, "nightly", schedule.Every(time.Hour), job, "x"))
		k.Advance(2*time.Hour + time.Minute)
		want(t, "job", "x nightly true", "x nightly true")
		if v, err := raysys.Lookup[string](ctx, "nightly").Get(ctx); v != "x!" || err != nil {
			t.Errorf("got %q, %v", v, err)
		}
	})
}
