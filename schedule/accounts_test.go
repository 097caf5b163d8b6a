package schedule_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/schedule"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// purse is a Durable grain that keeps the firings which count.
type purse struct{ Firings grains.State[[]firing] }

type firing struct {
	Due    int64 // in nanoseconds of Unix time
	Missed int
}

var (
	purses  = grains.Define[purse]("schedule.purse", grains.Durable())
	charge  = grains.Action(purses, "charge", (*purse).Charge)
	charged = grains.Method0(purses, "charged", func(a *purse, _ context.Context) ([]firing, error) { return a.Firings.Value, nil }).ReadOnly()
)

// Charge takes a while.
func (a *purse) Charge(ctx context.Context, d time.Duration) error {
	<-time.After(d)
	a.keep(ctx)
	return nil
}

func (a *purse) keep(ctx context.Context) {
	f, _ := schedule.Fired(ctx)
	a.Firings.Value = append(a.Firings.Value, firing{f.Due.UnixNano(), f.Missed})
}

// owed is one for each firing and one for each time that it tells of, as the guide charges a customer.
func owed(list []firing) (n int) {
	for _, f := range list {
		n += 1 + f.Missed
	}
	return n
}

// TestBill: what the guide's customer owes is one for each due time up to the last firing, whatever nodes are killed or paused.
func TestBill(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t, r := k.Context(), k.T(), k.Rand()
		const customers = 24
		first := map[string]time.Time{}
		for i := range customers {
			name := fmt.Sprint("b", i)
			must(t, schedule.Call(ctx, name, schedule.Every(time.Second), charge, purses.Get(name), time.Duration(i%8)*250*time.Millisecond, schedule.Overlap(i%2)))
			in, err := schedule.Get(ctx, name)
			must(t, err)
			first[name] = in.Next
			k.Advance(25 * time.Millisecond)
		}
		for j := range 20 {
			k.Advance(time.Duration(2000+r.IntN(3000)) * time.Millisecond)
			i := 1 + r.IntN(4)
			if j%2 == 0 {
				k.Cluster().Kill(i)
				k.Advance(time.Duration(r.IntN(1500)) * time.Millisecond)
				k.Cluster().Restart(i)
			} else {
				k.Cluster().Pause(i)
				k.Advance(time.Duration(r.IntN(15000)) * time.Millisecond)
				k.Cluster().Resume(i)
			}
		}
		k.Advance(time.Minute)
		for name := range first {
			must(t, schedule.Pause(ctx, name))
		}
		k.Advance(10 * time.Second)
		for name, at := range first {
			in, err := schedule.Get(ctx, name)
			must(t, err)
			list, err := charged.Call(ctx, purses.Get(name)).Get(ctx)
			must(t, err)
			if due := int(in.Last.Sub(at)/time.Second) + 1; owed(list) != due {
				t.Errorf("%s: %d due times up to the last, and %d are owed, of %d firings: %+v", name, due, owed(list), len(list), in)
			}
		}
	}, testkit.Nodes(4))
}

// setAt1 sets a schedule under a name whose shard node 1 leads.
func setAt1(k *testkit.Kit, name string, set func(name string) error) string {
	for {
		if must(k.T(), set(name)); leaderOf(k, name) == 1 {
			return name
		}
		must(k.T(), schedule.Delete(k.Context(), name))
		name += "'"
	}
}

// leads has node 1 lead and have no function, so that node 2 is the only worker.
func leads() []testkit.Option {
	none := raysys.NewTable()
	return []testkit.Option{testkit.Nodes(2), testkit.Each(func(i int, cfg *system.Config) {
		if i == 1 {
			cfg.Table = none
		}
	})}
}

// TestPauseNoWorker: what was due before a pause, while no worker had the function, is made after it.
func TestPauseNoWorker(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t := k.Context(), k.T()
		must(t, schedule.Call(ctx, "p", schedule.Every(time.Minute), charge, purses.Get("p"), 0, schedule.CatchUp(1000)))
		k.Advance(10*time.Minute + 10*time.Second)
		k.Cluster().Kill(2)
		k.Advance(10 * time.Minute)
		must(t, schedule.Pause(ctx, "p"))
		k.Advance(time.Minute)
		k.Cluster().Restart(2)
		k.Advance(time.Minute)
		must(t, schedule.Resume(ctx, "p"))
		k.Advance(10 * time.Minute)
		i, err := schedule.Get(ctx, "p")
		must(t, err)
		list, err := charged.Call(ctx, purses.Get("p")).Get(ctx)
		must(t, err)
		if len(list) != 30 || i.Missed != 0 { // 10 and 10 before the pause, which has two, and 10 after it
			t.Errorf("%d were charged: %+v", len(list), i)
		}
	}, leads()...)
}

// TestEditOnItsWay: a firing that begins while an edit is on its way is known to that, so that no other firing tells of the same times.
func TestEditOnItsWay(t *testing.T) {
	for _, verb := range []string{"pause", "resume", "run"} {
		t.Run(verb, func(t *testing.T) {
			testkit.Virtual(t, func(k *testkit.Kit) {
				ctx, t := k.Context(), k.T()
				must(t, schedule.Call(ctx, "x", schedule.Every(10*time.Second), charge, purses.Get("x"), 25*time.Second)) // each second and third is left out
				k.Advance(39500 * time.Millisecond)
				must(t, schedule.EditSlowly(ctx, "x", verb, func() { k.Advance(time.Second) }))
				s, err := schedule.Stored(ctx, "x")
				if must(t, err); len(s.Running) == 0 || s.Since != 0 {
					t.Errorf("the firing of 40 s has begun: %+v", s)
				}
				must(t, schedule.Resume(ctx, "x"))
				k.Advance(2 * time.Minute)
				must(t, schedule.Pause(ctx, "x"))
				k.Advance(time.Minute)
				list, err := charged.Call(ctx, purses.Get("x")).Get(ctx)
				must(t, err)
				if s, err = schedule.Stored(ctx, "x"); err != nil || owed(list)-len(list)+int(s.Since) != int(s.Missed) {
					t.Errorf("%v were charged: %+v, %v", list, s, err)
				}
			}, testkit.Nodes(2))
		})
	}
}

// changes is how often the store was changed.
func changes(k *testkit.Kit) (n uint64) {
	k.T().Helper()
	list, n, err := k.Cluster().Store().List(context.Background(), "", store.Consistent)
	must(k.T(), err)
	for _, p := range list {
		n = max(n, p.Modify)
	}
	return n
}

// TestWorkersClock: a worker whose clock differs from the leader's fires at the same times, and changes the store as often as one whose clock is right.
func TestWorkersClock(t *testing.T) {
	cost := func(skew time.Duration) (n uint64) {
		testkit.Virtual(t, func(k *testkit.Kit) {
			ctx, t, base := k.Context(), k.T(), time.Now()
			k.Cluster().ClockJump(2, skew)
			k.Advance(10 * time.Second) // its lease is measured by this clock too
			var names []string
			for i := range 40 { // one after the other, so that each change is one of the store
				k.Advance(time.Second)
				names = append(names, setAt1(k, fmt.Sprint("s", i), func(name string) error {
					return schedule.Call(ctx, name, schedule.Every(time.Minute), charge, purses.Get(name), 0)
				}))
			}
			k.Advance(70*time.Second - time.Since(base))
			before := changes(k)
			k.Advance(5 * time.Minute)
			n = changes(k) - before
			for _, name := range names {
				list, err := charged.Call(ctx, purses.Get(name)).Get(ctx)
				if must(t, err); len(list) != 5 || owed(list) != 5 {
					t.Errorf("%v: %s: 5 were due, and charged were %v", skew, name, list)
				}
			}
		}, append(leads(), testkit.Seed(1))...)
		return n
	}
	right := cost(0)
	for _, skew := range []time.Duration{-2 * time.Second, 2 * time.Second, -5 * time.Minute, 5 * time.Minute} {
		if n := cost(skew); 20*max(n, right) > 21*min(n, right) {
			t.Errorf("a worker %v off: %d changes of the store, and %d with right clocks", skew, n, right)
		}
	}
}

// TestChangesOfARecord: a firing that is soon over costs its record one change, a long one or a burst one more, and a time that is not yet due none.
func TestChangesOfARecord(t *testing.T) {
	for _, c := range []struct {
		what    string
		takes   time.Duration
		outage  time.Duration
		opts    []schedule.Option
		firings int
		changes uint64
		more    uint64 // of firings side by side that end while the record is on its way, and of those that activate the grain
	}{
		{"none is due", 0, 0, []schedule.Option{schedule.Paused()}, 0, 0, 0},
		{"short", 0, 0, nil, 100, 100, 0},
		{"long", 2 * time.Second, 0, nil, 100, 200, 0},
		{"a burst", 0, 10 * time.Minute, []schedule.Option{schedule.CatchUp(1000)}, 160, 102, 5},
		{"a burst that is allowed", 0, 10 * time.Minute, []schedule.Option{schedule.CatchUp(1000), schedule.Allow}, 160, 102, 10},
	} {
		t.Run(c.what, func(t *testing.T) {
			testkit.Virtual(t, func(k *testkit.Kit) {
				ctx, t := k.Context(), k.T()
				_, err := take.Call(ctx, clocks.Get("a"), 0).Get(ctx) // the first firing is as soon over as the others
				must(t, err)
				clear()
				name := setAt1(k, "one", func(name string) error {
					return schedule.Call(ctx, name, schedule.Every(10*time.Second), take, clocks.Get("a"), c.takes, c.opts...)
				})
				before, err := schedule.Stored(ctx, name)
				must(t, err)
				k.Advance(500*time.Second + 5*time.Second)
				if c.outage > 0 {
					k.Cluster().Kill(2)
					k.Advance(c.outage)
					k.Cluster().Restart(2)
				}
				k.Advance(500 * time.Second)
				now, err := schedule.Stored(ctx, name)
				must(t, err)
				if n := now.Version.Seq - before.Version.Seq; len(written("a")) != c.firings || n < c.changes || n > c.changes+c.more || now.Version.Epoch != before.Version.Epoch {
					t.Errorf("%d firings and %d changes of the record, want %d and %d", len(written("a")), n, c.firings, c.changes)
				}
			}, leads()...)
		})
	}
}

// TestClockAhead: where the clock of the leaders was a month ahead for two minutes a schedule goes on from now, with one line of the log. What was
// left out meanwhile comes off Missed, unless a firing has told of it.
func TestClockAhead(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t, base := k.Context(), k.T(), time.Now()
		jump := func(d time.Duration) {
			for n := 1; n <= k.Cluster().Size(); n++ {
				k.Cluster().ClockJump(n, d)
			}
		}
		const month = 30 * 24 * time.Hour
		must(t, schedule.Call(ctx, "minutes", schedule.Every(time.Minute), charge, purses.Get("minutes"), 0))
		must(t, schedule.Call(ctx, "hours", schedule.Every(time.Hour), charge, purses.Get("hours"), 3*time.Minute))
		k.Advance(time.Hour + 10*time.Second)
		jump(month)
		k.Advance(time.Minute)
		must(t, schedule.Pause(ctx, "hours")) // what is due by that clock is left out: the firing of the first hour runs
		must(t, schedule.Resume(ctx, "hours"))
		ahead, err := schedule.Get(ctx, "hours")
		must(t, err)
		k.Advance(time.Minute)
		jump(-month)
		k.Advance(3*time.Hour + 2*time.Minute)
		if ahead.Missed != 30*24 {
			t.Errorf("while the clock is ahead: %+v", ahead)
		}
		for name, want := range map[string][]string{"hours": {"1h0m0s", "2h0m0s", "3h0m0s", "4h0m0s"}, "minutes": {"4h2m0s", "4h3m0s", "4h4m0s"}} {
			i, err := schedule.Get(ctx, name)
			must(t, err)
			list, err := charged.Call(ctx, purses.Get(name)).Get(ctx)
			must(t, err)
			var got []string
			for _, f := range list {
				got = append(got, time.Unix(0, f.Due).Sub(base).Round(time.Second).String())
			}
			if got = got[max(0, len(got)-len(want)):]; !slices.Equal(got, want) || int(i.Missed) != owed(list)-len(list) {
				t.Errorf("%s: got %q, want %q; told of %d missed: %+v", name, got, want, owed(list)-len(list), i)
			}
			if lines := logs.FilterMessageSnippet("the clock was ahead").FilterField(zap.String("schedule", name)); lines.Len() != 1 {
				t.Errorf("%s: the log has %v", name, lines.All())
			}
		}
	}, testkit.Nodes(2), testkit.Config(system.Config{Logger: zap.New(core)}))
}
