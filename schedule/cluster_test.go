package schedule_test

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
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/schedule"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// nodeOf is the number of the node that has a schedule in hand; 0: none.
func nodeOf(k *testkit.Kit, name string) int {
	i, err := schedule.Get(k.Context(), name)
	must(k.T(), err)
	for n := 1; n <= k.Cluster().Size(); n++ {
		if k.Cluster().Name(n) == i.Node {
			return n
		}
	}
	return 0
}

// leaderOf is the number of the node that leads the shard of a schedule.
func leaderOf(k *testkit.Kit, name string) int {
	s, err := k.Cluster().Status()
	must(k.T(), err)
	shard := schedule.ShardOf(k.Node(), name)
	for n := 1; n <= k.Cluster().Size(); n++ {
		for _, m := range s.Shards {
			if m.Shard == shard && m.Node == k.Cluster().Name(n) {
				return n
			}
		}
	}
	return 0
}

// whole checks that a Durable counter has counted each due time of a schedule once, from when it was set.
func whole(k *testkit.Kit, name, key string, first time.Time, every time.Duration) {
	t, ctx := k.T(), k.Context()
	t.Helper()
	must(t, schedule.Pause(ctx, name))
	k.Advance(2 * time.Minute)
	i, err := schedule.Get(ctx, name)
	must(t, err)
	if len(i.Running) > 0 || i.Missed > 0 {
		t.Errorf("two minutes after the last: %+v", i)
	}
	got, err := counted.Call(ctx, durable.Get(key)).Get(ctx)
	must(t, err)
	if want := int(i.Last.Sub(first)/every) + 1; got != want {
		t.Errorf("%d due times, and %d were counted: %+v", want, got, i)
	}
}

// setCounter has a Durable counter counted each so often, and returns the first time.
func setCounter(k *testkit.Kit, name, key string, every time.Duration) time.Time {
	must(k.T(), schedule.Call0(k.Context(), name, schedule.Every(every), count, durable.Get(key), schedule.Allow, schedule.CatchUp(1000)))
	i, err := schedule.Get(k.Context(), name)
	must(k.T(), err)
	return i.Next
}

// TestWorkerDies: what a worker has in hand when it is killed is made by another one, and what runs long stays where it is when the leader of
// its shard changes.
func TestWorkerDies(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		clear()
		ctx, t := k.Context(), k.T()
		must(t, schedule.Call(ctx, "long", schedule.At(time.Now().Add(10*time.Second)), take, clocks.Get("a"), 2*time.Minute))
		k.Advance(13 * time.Second)
		worker, leader := nodeOf(k, "long"), leaderOf(k, "long")
		if worker == 0 || len(written("a")) != 1 {
			t.Fatalf("3 s after the time: worker %d, %q", worker, written("a"))
		}
		if leader != worker {
			k.Cluster().Kill(leader)
			k.Advance(30 * time.Second)
			if again := nodeOf(k, "long"); again != worker && len(written("a")) == 1 { // else the grain was there, and the call was made again
				t.Errorf("its leader was killed, and it is at %d, not at %d: %q", again, worker, written("a"))
			}
		}
		worker = nodeOf(k, "long")
		k.Cluster().Kill(worker)
		k.Advance(30 * time.Second)
		if again := nodeOf(k, "long"); again == 0 || again == worker {
			t.Errorf("its worker was killed, and it is at %d: %q", again, written("a"))
		}
		k.Advance(5 * time.Minute)
		if len(written("a")) < 2 {
			t.Errorf("its worker was killed, and it was not made again: %q", written("a"))
		}
		if _, err := schedule.Get(ctx, "long"); !errors.Is(err, raysys.ErrNotFound) {
			t.Errorf("it has fired: %v", err)
		}
	}, testkit.Nodes(4))
}

// TestKilled: a counter of a Durable kind equals the number of due times, whether a worker is killed with firings in hand, a leader, or all.
func TestKilled(t *testing.T) {
	for what, kill := range map[string]func(k *testkit.Kit){
		"worker": func(k *testkit.Kit) {
			for range 20 { // until one has it this moment
				if n := nodeOf(k, "one"); n != 0 {
					k.Cluster().Kill(n)
					k.Cluster().Restart(n)
					return
				}
				k.Advance(50 * time.Millisecond)
			}
			k.Cluster().Kill(1)
			k.Cluster().Restart(1)
		},
		"leader": func(k *testkit.Kit) {
			n := leaderOf(k, "one")
			k.Cluster().Kill(n)
			k.Cluster().Restart(n)
		},
		"all": func(k *testkit.Kit) {
			for n := 1; n <= 3; n++ {
				k.Cluster().Kill(n)
			}
			k.Advance(time.Minute)
			for n := 1; n <= 3; n++ {
				k.Cluster().Restart(n)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			testkit.Virtual(t, func(k *testkit.Kit) {
				first := setCounter(k, "one", "c", time.Second)
				k.Advance(10 * time.Second)
				for range 2 {
					kill(k)
					k.Advance(time.Minute)
				}
				whole(k, "one", "c", first, time.Second)
			}, testkit.Nodes(3))
		})
	}
}

// TestDrawn: the same under a drawn plan.
func TestDrawn(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		first := map[string]time.Time{}
		for i := range 8 {
			name := fmt.Sprint("s", i)
			first[name] = setCounter(k, name, name, time.Duration(i+1)*time.Second)
		}
		testkit.Chaos(k, 3*time.Minute)
		k.Advance(time.Minute)
		for name, at := range first {
			var n int
			_, err := fmt.Sscanf(name, "s%d", &n)
			must(k.T(), err)
			whole(k, name, name, at, time.Duration(n+1)*time.Second)
		}
	}, testkit.Nodes(3))
}

// TestClockJump: the time of day of the leader counts, which is read each minute; set back, nothing fires twice.
func TestClockJump(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		clear()
		ctx, t, base := k.Context(), k.T(), time.Now()
		must(t, schedule.Call(ctx, "hourly", schedule.Every(time.Hour), tick, clocks.Get("a"), base))
		k.Advance(time.Minute)
		all := func(d time.Duration) {
			for n := 1; n <= 2; n++ {
				k.Cluster().ClockJump(n, d)
			}
		}
		all(time.Hour)
		k.Advance(61 * time.Second)
		want(t, "a", "3600")
		all(-time.Hour)
		k.Advance(time.Hour)
		want(t, "a", "3600")
		k.Advance(time.Hour)
		want(t, "a", "3600", "7200")
	}, testkit.Nodes(2))
}

// TestNoWorker: while no worker has the function a schedule stays, with the reason.
func TestNoWorker(t *testing.T) {
	table := raysys.NewTable()
	absent := grains.DefineIn[clock](table, "schedule.absent")
	none := grains.Action(absent, "tick", (*clock).Tick)
	testkit.Virtual(t, func(k *testkit.Kit) {
		clear()
		ctx, t := k.Context(), k.T()
		must(t, schedule.Call(ctx, "stays", schedule.At(time.Now()), none, absent.Get("a"), time.Now()))
		k.Advance(10 * time.Second)
		i, err := schedule.Get(ctx, "stays")
		if err != nil || i.Node != "" || !strings.Contains(i.Why, "schedule.absent") {
			t.Errorf("got %+v, %v", i, err)
		}
	}, testkit.Nodes(2), testkit.Each(func(i int, cfg *system.Config) {
		if i == 0 {
			cfg.Table = table
		}
	}))
}

// TestData: without a cluster a schedule outlives its process, and fires unasked.
func TestData(t *testing.T) {
	clear()
	dir := t.TempDir()
	run := func(f func(ctx context.Context)) {
		n, err := system.New(system.Config{Data: dir})
		must(t, err)
		must(t, n.Start(t.Context()))
		defer func() { must(t, n.Close(context.Background())) }()
		f(n.Context(t.Context()))
	}
	at := time.Now().Add(1500 * time.Millisecond)
	run(func(ctx context.Context) {
		must(t, schedule.Call(ctx, "later", schedule.At(at), tick, clocks.Get("data"), at))
		must(t, schedule.Call(ctx, "much later", schedule.At(at.Add(time.Hour)), tick, clocks.Get("data"), at))
	})
	if len(written("data")) > 0 {
		t.Skip("the machine is slow: it fired before the process ended")
	}
	run(func(ctx context.Context) {
		testkit.Eventually(t, 20*time.Second, "the schedule fires", func() bool { return len(written("data")) > 0 })
		want(t, "data", "0")
		var names []string
		testkit.Eventually(t, 20*time.Second, "the schedule is gone", func() bool {
			names = nil
			for i, err := range schedule.List(ctx, "") {
				must(t, err)
				names = append(names, i.Name)
			}
			return slices.Equal(names, []string{"much later"})
		})
	})
}

// TestLoop: what a task with a loop without end would do, which calls a Durable grain each second and whose node dies, as schedules: every due time
// counts once. Half an hour before the death and after it, with one; and ten minutes, with ten.
func TestLoop(t *testing.T) {
	for _, c := range []struct {
		schedules int
		before    time.Duration
	}{{1, 30 * time.Minute}, {10, 10 * time.Minute}} {
		t.Run(fmt.Sprint(c.schedules), func(t *testing.T) {
			if c.schedules > 1 {
				long.Only(t)
			}
			testkit.Virtual(t, func(k *testkit.Kit) {
				first := map[string]time.Time{}
				for i := range c.schedules {
					name := fmt.Sprint("loop", i)
					first[name] = setCounter(k, name, "x", time.Second)
				}
				k.Advance(c.before)
				k.Cluster().Kill(2)
				k.Advance(c.before)
				due := 0
				for name, at := range first {
					must(k.T(), schedule.Pause(k.Context(), name))
					k.Advance(10 * time.Second)
					i, err := schedule.Get(k.Context(), name)
					must(k.T(), err)
					due += int(i.Last.Sub(at)/time.Second) + 1
				}
				got, err := counted.Call(k.Context(), durable.Get("x")).Get(k.Context())
				if least := int(2*c.before/time.Second) * c.schedules; err != nil || got != due || got < least-c.schedules {
					k.T().Errorf("%d due times, %d at least, and %d were counted: %v", due, least, got, err)
				}
			}, testkit.Nodes(3))
		})
	}
}

// TestDeadlyFiring: a firing under which ten nodes in a row die ends with an outcome that says so, and does not go round the nodes for ever.
func TestDeadlyFiring(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		clear()
		ctx, t := k.Context(), k.T()
		must(t, schedule.Call(ctx, "deadly", schedule.Every(24*time.Hour), take, clocks.Get("deadly"), 5*time.Minute))
		must(t, schedule.Run(ctx, "deadly"))
		deaths := 0
		const most = 40 // a leader that dies too takes its count with it
		for ; deaths < most; deaths++ {
			for i := 0; i < 120 && len(written("deadly")) == deaths; i++ {
				k.Advance(time.Second)
			}
			on := written("take")
			if len(on) == deaths {
				break
			}
			n := 1
			for fmt.Sprint(k.Cluster().Name(n)) != on[deaths] {
				n++
			}
			k.Cluster().Kill(n)
			k.Cluster().Restart(n)
		}
		i, err := schedule.Get(ctx, "deadly")
		if err != nil || deaths < 10 || deaths == most || len(i.Running) > 0 || !strings.Contains(i.LastError, "10 nodes in a row") {
			t.Errorf("after %d deaths: %+v, %v", deaths, i, err)
		}
		k.Advance(6 * time.Minute) // what was left of the turns
	}, testkit.Nodes(3))
}
