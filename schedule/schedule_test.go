package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/schedule"
	"github.com/raysys/raysys/system"
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

	slowJob = tasks.Define("schedule.slowjob", func(_ context.Context, s string) (string, error) {
		write("slow job", s)
		<-time.After(30 * time.Second)
		return s, nil
	})

	// away needs what one node has, and takes a while there.
	away = tasks.Define("schedule.away", func(ctx context.Context, base time.Time) (int, error) {
		f, ok := schedule.Fired(ctx)
		write(f.Name, fmt.Sprint(ok, " ", f.Due.Sub(base).Round(time.Second), " missed ", f.Missed, " on ", system.NodeOf(ctx).Name()))
		<-time.After(10 * time.Second)
		return 0, nil
	}).With(raysys.CPU(0), raysys.Resource("schedule.only", 0.1))
	wait   = tasks.Define("schedule.wait", func(_ context.Context, d time.Duration) (int, error) { <-time.After(d); return 0, nil })
	refers = tasks.Define("schedule.refers", func(_ context.Context, r raysys.Ref[string]) (int, error) { return 0, nil })

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
	write("take", fmt.Sprint(system.NodeOf(ctx).Name()))
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

// TestFilter: a firing passes the filters of the node that runs it, which know it by Fired.
func TestFilter(t *testing.T) {
	filter := func(ctx context.Context, w *raysys.Work, next func(context.Context) error) error {
		f, ok := schedule.Fired(ctx)
		write("filter", fmt.Sprint(w.Name(), " ", w.Key(), " ", f.Name, " ", ok))
		return next(ctx)
	}
	testkit.Virtual(t, func(k *testkit.Kit) {
		clear()
		ctx, t := k.Context(), k.T()
		must(t, schedule.Task(ctx, "nightly", schedule.Every(time.Hour), job, "x"))
		k.Advance(time.Hour + time.Minute)
		must(t, schedule.Delete(ctx, "nightly"))
		must(t, schedule.Call(ctx, "hourly", schedule.Every(time.Hour), tick, clocks.Get("a"), time.Now()))
		k.Advance(time.Hour + time.Minute)
		must(t, schedule.Delete(ctx, "hourly"))
		want(t, "filter", "schedule.job  nightly true", "schedule.clock.tick a hourly true")
		want(t, "job", "x nightly true")
		want(t, "a", "3600")
	}, testkit.Config(system.Config{Filters: []raysys.Filter{filter}}))
}

// TestTaskElsewhere: in a cluster a task knows its firing on whatever node it runs, also where another has the schedule in hand.
func TestTaskElsewhere(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		clear()
		ctx, t, base := k.Context(), k.T(), time.Now()
		name := func(i int) string { return fmt.Sprint("s", i) }
		const n = 8
		for i := range n {
			must(t, schedule.Task(ctx, name(i), schedule.Every(time.Minute), away, base))
		}
		k.Advance(time.Minute + 5*time.Second)
		elsewhere := 0
		for i := range n {
			if hand := nodeOf(k, name(i)); hand != 0 && hand != 2 {
				elsewhere++
			}
		}
		if elsewhere == 0 {
			t.Error("all schedules are in the hand of the node that runs their tasks")
		}
		k.Advance(time.Minute)
		on := " missed 0 on " + string(k.Cluster().Name(2))
		for i := range n {
			want(t, name(i), "true 1m0s"+on, "true 2m0s"+on)
		}
	}, testkit.Nodes(3), testkit.Each(func(i int, cfg *system.Config) {
		if i == 2 {
			cfg.Resources.Custom = map[string]float64{"schedule.only": 1}
		}
	}))
}

// TestOperator: what an operator sees of schedules, and does to them.
func TestOperator(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		clear()
		ctx, t, base := k.Context(), k.T(), time.Now()
		for i := range 5 {
			must(t, schedule.Call(ctx, fmt.Sprint("s", i), schedule.Every(time.Duration(5-i)*time.Hour), tick, clocks.Get("a"), base))
		}
		must(t, schedule.Call(ctx, "other", schedule.Every(time.Hour), tick, clocks.Get("b"), base, schedule.Paused(), schedule.Jitter(time.Second)))
		list, err := k.Node().Schedules(ctx, "s", 3)
		must(t, err)
		var names []string
		for _, s := range list.Schedules {
			names = append(names, s.Name)
		}
		if list.Count != 5 || !slices.Equal(names, []string{"s4", "s3", "s2"}) || len(list.Silent) > 0 {
			t.Errorf("got %q of %+v", names, list)
		}
		must(t, k.Node().Schedule(ctx, "run", "other"))
		k.Advance(time.Second)
		want(t, "b", "0")
		must(t, k.Node().Schedule(ctx, "resume", "other"))
		k.Advance(time.Hour)
		want(t, "b", "0", "3600")
		found, err := k.Node().Get(ctx, "other")
		must(t, err)
		if s := found.Things[0].Schedule; s == nil || s.Last.Sub(base).Round(time.Second) != time.Hour || s.Paused || s.Jitter != "1s" || s.Overlap != "skip" {
			t.Errorf("got %+v", found.Things)
		}
		must(t, k.Node().Schedule(ctx, "pause", "other"))
		must(t, k.Node().Schedule(ctx, "delete", "s0"))
		for _, name := range []string{"s0", "s9"} {
			if err := k.Node().Schedule(ctx, "pause", name); !errors.Is(err, raysys.ErrNotFound) {
				t.Errorf("pause %s: %v", name, err)
			}
		}
		k.Advance(2 * time.Hour)
		want(t, "b", "0", "3600")
		names = nil
		for i, err := range schedule.List(ctx, "s") {
			must(t, err)
			names = append(names, i.Name)
		}
		if slices.Sort(names); !slices.Equal(names, []string{"s1", "s2", "s3", "s4"}) {
			t.Errorf("List: got %q", names)
		}
	}, testkit.Nodes(2))
}

// TestFailures: an error of the method is shown, and the next time is waited for; other content replaces what is there.
func TestFailures(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		clear()
		ctx, t, base := k.Context(), k.T(), time.Now()
		book.fail = errors.New("no money")
		must(t, schedule.Call(ctx, "bill", schedule.Every(10*time.Second), tick, clocks.Get("a"), base))
		k.Advance(25 * time.Second)
		i, err := schedule.Get(ctx, "bill")
		if err != nil || !strings.Contains(i.LastError, "no money") || i.Why != "" {
			t.Errorf("got %+v, %v", i, err)
		}
		book.fail = nil
		must(t, schedule.Call(ctx, "bill", schedule.Every(30*time.Second), tick, clocks.Get("b"), base))
		k.Advance(31 * time.Second)
		want(t, "a", "10", "20")
		want(t, "b", "55")
		if i, err := schedule.Get(ctx, "bill"); err != nil || i.LastError != "" {
			t.Errorf("got %+v, %v", i, err)
		}
	}, testkit.Nodes(2))
}

// TestNameTaken: while a task with other content has the name a firing stays, with that reason, and is made when it has ended.
func TestNameTaken(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		clear()
		ctx, t := k.Context(), k.T()
		other := wait.With(raysys.Detached("nightly")).Go(ctx, 2*time.Minute)
		must(t, schedule.Task(ctx, "nightly", schedule.At(time.Now().Add(time.Second)), job, "x"))
		k.Advance(30 * time.Second)
		if i, err := schedule.Get(ctx, "nightly"); err != nil || !strings.Contains(i.Why, "nightly") || len(written("job")) > 0 {
			t.Errorf("got %+v, %v", i, err)
		}
		if _, err := other.Get(ctx); err != nil {
			t.Error(err)
		}
		k.Advance(2 * time.Minute)
		want(t, "job", "x nightly true")
	})
}

// TestBadInput: what cannot be meant is refused at once, with what it is.
func TestBadInput(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t := k.Context(), k.T()
		hour, a := schedule.Every(time.Hour), clocks.Get("a")
		for what, c := range map[string]struct {
			err  error
			is   error
			says string
		}{
			"no name":      {schedule.Call(ctx, "", hour, tick, a, time.Now()), raysys.ErrBadOption, "a name of 0 bytes"},
			"long name":    {schedule.Call(ctx, strings.Repeat("x", 513), hour, tick, a, time.Now()), raysys.ErrBadOption, "a name of 513 bytes"},
			"short":        {schedule.Call(ctx, "x", schedule.Every(time.Millisecond), tick, a, time.Now()), raysys.ErrBadOption, "give a second or more"},
			"field":        {schedule.Call(ctx, "x", schedule.Cron("0 25 * * *", ""), tick, a, time.Now()), raysys.ErrBadOption, `hour "25"`},
			"large":        {schedule.Task(ctx, "x", hour, job, strings.Repeat("x", 17<<10)), raysys.ErrTooLarge, "at most"},
			"references":   {schedule.Task(ctx, "x", hour, refers, raysys.Ready("x")), raysys.ErrBadOption, "references"},
			"RetryIf":      {schedule.Task(ctx, "x", hour, job.With(raysys.RetryIf(func(error) bool { return true })), "x"), raysys.ErrBadOption, "RetryIf"},
			"Detached":     {schedule.Task(ctx, "x", hour, job.With(raysys.Detached("y")), "x"), raysys.ErrBadOption, "Detached"},
			"Key":          {schedule.Call0(ctx, "x", hour, count.With(raysys.Key("k")), durable.Get("a")), raysys.ErrBadOption, "Key"},
			"CPU":          {schedule.Call(ctx, "x", hour, tick.With(raysys.CPU(1)), a, time.Now()), raysys.ErrBadOption, "CPU"},
			"CatchUp":      {schedule.Call(ctx, "x", hour, tick, a, time.Now(), schedule.CatchUp(-1)), raysys.ErrBadOption, "CatchUp(-1)"},
			"Jitter":       {schedule.Call(ctx, "x", hour, tick, a, time.Now(), schedule.Jitter(-1)), raysys.ErrBadOption, "Jitter(-1ns)"},
			"nil":          {schedule.Call(ctx, "x", hour, tick, a, time.Now(), nil), raysys.ErrBadOption, "nil Option"},
			"zero method":  {schedule.Call(ctx, "x", hour, grains.Act[clock, time.Time]{}, a, time.Now()), raysys.ErrBadDefinition, "zero value"},
			"zero grain":   {schedule.Call(ctx, "x", hour, tick, grains.Grain[clock]{}, time.Now()), raysys.ErrInvalidRef, "another kind"},
			"unknown":      {schedule.Pause(ctx, "unknown"), raysys.ErrNotFound, `schedule "unknown"`},
			"no runtime":   {schedule.Pause(context.Background(), "x"), raysys.ErrNoRuntime, "schedule"},
			"bad name":     {schedule.Delete(ctx, ""), raysys.ErrBadOption, "a name of 0 bytes"},
			"options kept": {schedule.Task(ctx, "x", hour, job.With(raysys.CPU(0.5), raysys.Retries(2), raysys.Deadline(time.Minute)), "x"), nil, ""},
		} {
			if !errors.Is(c.err, c.is) || c.err != nil && !strings.Contains(c.err.Error(), c.says) {
				t.Errorf("%s: got %v, want %v with %q", what, c.err, c.is, c.says)
			}
		}
		var names []string
		for i := range schedule.List(ctx, "") {
			names = append(names, i.Name)
		}
		if !slices.Equal(names, []string{"x"}) {
			t.Errorf("there are %q", names)
		}
	})
	testkit.Virtual(t, func(k *testkit.Kit) {
		if err := schedule.Task(k.Context(), "x", schedule.Every(time.Hour), job, "x"); !errors.Is(err, raysys.ErrBadOption) || !strings.Contains(err.Error(), "durable") {
			k.T().Errorf("lineage in memory: %v", err)
		}
	}, testkit.Nodes(1), testkit.Each(func(_ int, cfg *system.Config) { cfg.Lineage = system.LineageInMemory }))
}
