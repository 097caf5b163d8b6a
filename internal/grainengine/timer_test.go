package grainengine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
)

// ticker is a grain with timers; log is what all of its ticks and hooks noted, with the virtual time.
type ticker struct {
	n     int
	stops []func()
	in    bool // a turn is in progress
}

type tickers struct {
	table *raysys.Table
	kind  grains.Kind[ticker]
	begin time.Time
	start grains.Act[ticker, timing]
	stop  grains.Act0[ticker]
	turn  grains.Act[ticker, time.Duration]
	fall  grains.Act0[ticker]

	mu  sync.Mutex
	log []string
}

// timing is a timer to start.
type timing struct {
	Every, After, Takes time.Duration
	Fails, Falls        bool
}

func (k *tickers) note(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.log = append(k.log, time.Since(k.begin).String()+" "+fmt.Sprintf(format, args...))
}

func (k *tickers) want(t *testing.T, want ...string) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Equal(k.log, want) {
		t.Errorf("got  %q\nwant %q", k.log, want)
	}
	k.log = nil
}

// turns is a turn of the grain, which none may begin beside.
func (g *ticker) turns(k *tickers, d time.Duration) {
	if g.in {
		k.note("two turns at once")
	}
	g.in = true
	defer func() { g.in = false }()
	<-time.After(d)
}

func newTickers(opts ...grains.Option) *tickers {
	k := &tickers{table: raysys.NewTable(), begin: time.Now()}
	k.kind = grains.DefineIn[ticker](k.table, "ticker", opts...)
	k.start = grains.Action(k.kind, "start", func(g *ticker, ctx context.Context, c timing) error {
		f := func(ctx context.Context) error {
			g.n++
			if self, ok := k.kind.Self(ctx); !ok || self != k.kind.Get("a") {
				k.note("tick of %v", self)
			}
			k.note("tick %d", g.n)
			g.turns(k, c.Takes)
			if c.Falls {
				g.in = false
				panic("a tick falls")
			}
			if c.Fails {
				return errTorn
			}
			return nil
		}
		begin, d := grains.Every, c.Every
		if c.After != 0 {
			begin, d = grains.After, c.After
		}
		stop, err := begin(ctx, d, f)
		g.stops = append(g.stops, stop)
		return err
	})
	k.stop = grains.Action0(k.kind, "stop", func(g *ticker, _ context.Context) error {
		for _, s := range g.stops {
			s()
			s()
		}
		return nil
	})
	k.turn = grains.Action(k.kind, "turn", func(g *ticker, _ context.Context, d time.Duration) error {
		g.turns(k, d)
		return nil
	}).With(raysys.NoDeadline())
	k.fall = grains.Action0(k.kind, "fall", func(*ticker, context.Context) error { panic("it falls") })
	return k
}

// run starts a node with the kind, in a bubble, and the timers.
func (k *tickers) run(t *testing.T, list ...timing) (*system.Node, context.Context, grains.Grain[ticker]) {
	t.Helper()
	n, ctx := nodetest.Start(t, system.Config{Table: k.table})
	a := k.kind.Get("a")
	for _, c := range list {
		k.must(t, ctx, k.start.Call(ctx, a, c))
	}
	return n, ctx, a
}

func (k *tickers) must(t *testing.T, ctx context.Context, r grains.Done) {
	t.Helper()
	if _, err := r.Get(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestTimers: what is due comes at its time, counted from the end of the tick before, and no burst after a turn that was long.
func TestTimers(t *testing.T) {
	for name, c := range map[string]struct {
		timings []timing
		want    []string
	}{
		"every":                  {[]timing{{Every: time.Second}}, []string{"1s tick 1", "2s tick 2", "3s tick 3"}},
		"a tick that takes time": {[]timing{{Every: time.Second, Takes: 500 * time.Millisecond}}, []string{"1s tick 1", "2.5s tick 2"}},
		"after":                  {[]timing{{After: time.Second}}, []string{"1s tick 1"}},
		"two":                    {[]timing{{Every: 2 * time.Second}, {After: time.Second}}, []string{"1s tick 1", "2s tick 2"}},
		"errors do not end it":   {[]timing{{Every: time.Second, Fails: true}}, []string{"1s tick 1", "2s tick 2", "3s tick 3"}},
		"nor do panics":          {[]timing{{Every: time.Second, Falls: true}}, []string{"1s tick 1", "2s tick 2", "3s tick 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newTickers()
				k.run(t, c.timings...)
				pass(3*time.Second + 100*time.Millisecond)
				k.wantAbout(t, c.want...)
			})
		})
	}
}

// wantAbout is want for times that the wheel keeps to a few milliseconds.
func (k *tickers) wantAbout(t *testing.T, want ...string) {
	t.Helper()
	k.mu.Lock()
	for i, l := range k.log {
		at, what, _ := strings.Cut(l, " ")
		d, err := time.ParseDuration(at)
		if err != nil {
			t.Fatal(err)
		}
		k.log[i] = d.Round(100*time.Millisecond).String() + " " + what
	}
	k.mu.Unlock()
	k.want(t, want...)
}

// TestNoBurst: one tick alone waits behind a long turn, and the next comes its time after that one.
func TestNoBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTickers()
		_, ctx, a := k.run(t, timing{Every: time.Second})
		k.must(t, ctx, k.turn.Call(ctx, a, 10*time.Second))
		pass(1500 * time.Millisecond)
		k.wantAbout(t, "10s tick 1", "11s tick 2")
	})
}

// TestStoppedTick: after stop in a turn not even a tick that is queued runs.
func TestStoppedTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTickers()
		_, ctx, a := k.run(t, timing{Every: time.Second}, timing{After: time.Second})
		busy, stop := k.turn.Call(ctx, a, 500*time.Millisecond), k.stop.Call(ctx, a)
		k.must(t, ctx, busy)
		k.must(t, ctx, stop)
		pass(5 * time.Second)
		k.want(t)

		k = newTickers()
		_, ctx, a = k.run(t, timing{Every: time.Second})
		stop = k.stop.Call(ctx, a) // in the mailbox before the tick is
		busy = k.turn.Call(ctx, a, 2*time.Second)
		k.must(t, ctx, stop)
		k.must(t, ctx, busy)
		pass(5 * time.Second)
		k.want(t)
	})
}

// TestTicksKeepNothingAwake: a grain with a timer goes when it is idle, and its timer with it; one that is Keep stays.
func TestTicksKeepNothingAwake(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprint("keep ", keep), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := []grains.Option{grains.IdleAfter(time.Minute)}
				if keep {
					opts = []grains.Option{grains.Keep()}
				}
				k := newTickers(opts...)
				n, _, _ := k.run(t, timing{Every: time.Second})
				pass(2 * time.Minute)
				k.mu.Lock()
				ticks := len(k.log)
				k.mu.Unlock()
				switch active := engineOf(n).Activations("ticker"); {
				case keep && (active != 1 || ticks < 100):
					t.Errorf("%d activations after %d ticks", active, ticks)
				case !keep && (active != 0 || ticks < 55 || ticks > 65):
					t.Errorf("%d activations after %d ticks", active, ticks)
				}
			})
		})
	}
}

// TestTimersEndWithTheStruct: no tick runs on a struct that a panic has replaced, or Deactivate.
func TestTimersEndWithTheStruct(t *testing.T) {
	for name, c := range map[string]struct {
		opts []grains.Option
		tick timing
		want []string
	}{
		"a call's panic restarts": {[]grains.Option{grains.OnPanic(grains.RestartOnPanic)}, timing{Every: time.Second}, nil},
		"a tick's panic restarts": {[]grains.Option{grains.OnPanic(grains.RestartOnPanic)}, timing{Every: time.Second, Falls: true}, []string{"1s tick 1"}},
		"a tick's panic ends it":  {[]grains.Option{grains.OnPanic(grains.DeactivateOnPanic)}, timing{Every: time.Second, Falls: true}, []string{"1s tick 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newTickers(c.opts...)
				_, ctx, a := k.run(t, c.tick)
				if !c.tick.Falls {
					k.fall.Call(ctx, a).Get(ctx)
				}
				pass(5 * time.Second)
				k.wantAbout(t, c.want...)
			})
		})
	}
}

// TestWorkersTick: a stateless worker ticks also while calls wait for it without end.
func TestWorkersTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTickers(grains.StatelessWorker(1))
		_, ctx, a := k.run(t, timing{Every: time.Second})
		var calls []grains.Done
		for range 30 {
			calls = append(calls, k.turn.Call(ctx, a, 200*time.Millisecond))
		}
		for _, c := range calls {
			k.must(t, ctx, c)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if n := len(k.log); n < 4 || n > 6 {
			t.Errorf("%d ticks in 6 s: %q", n, k.log)
		}
	})
}

// TestBadTimers: what Every and After refuse.
func TestBadTimers(t *testing.T) {
	tb := raysys.NewTable()
	kind := grains.DefineIn[ticker](tb, "bad")
	try := grains.Action(kind, "try", func(_ *ticker, ctx context.Context, d time.Duration) error {
		f := func(context.Context) error { return nil }
		if d == 0 {
			f, d = nil, time.Second
		}
		_, err := grains.Every(ctx, d, f)
		return err
	})
	var kept context.Context
	keep := grains.Action0(kind, "keep", func(_ *ticker, ctx context.Context) error {
		kept = ctx
		return nil
	})
	ctx := nodetest.Driver(t, tb)
	for _, d := range []time.Duration{0, -time.Second} {
		if _, err := try.Call(ctx, kind.Get("a"), d).Get(ctx); !errors.Is(err, raysys.ErrBadOption) {
			t.Error(d, err)
		}
	}
	if _, err := grains.After(ctx, time.Second, func(context.Context) error { return nil }); !errors.Is(err, raysys.ErrNoRuntime) {
		t.Error("of a driver:", err)
	}
	if _, err := keep.Call(ctx, kind.Get("a")).Get(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := grains.Every(kept, time.Second, func(context.Context) error { return nil }); !errors.Is(err, raysys.ErrNoRuntime) {
		t.Error("of a turn that is over:", err)
	}
}

// TestDurableTick: a tick of a durable grain is a transaction that leaves no reply; a tick that fails changes nothing; a grain that moves
// leaves its timer behind.
func TestDurableTick(t *testing.T) {
	v := newVaults(t)
	ticks := make(chan error, 100)
	start := grains.Action(v.kind, "start", func(g *vault, ctx context.Context, fails bool) error {
		_, err := grains.After(ctx, time.Millisecond, func(ctx context.Context) error {
			g.balance.Value += 10
			_, called := v.add.Call(ctx, v.kind.Get("y"), 1).Get(ctx)
			ticks <- called
			if fails {
				return errTorn
			}
			return v.add.Tell(ctx, v.kind.Get("z"), 1)
		})
		return err
	})
	repeat := grains.Action0(v.kind, "repeat", func(g *vault, ctx context.Context) error {
		_, err := grains.Every(ctx, time.Millisecond, func(context.Context) error {
			g.balance.Value++
			ticks <- nil
			return nil
		})
		return err
	})
	a, b := v.net.add("a"), v.net.add("b")
	ctx := a.context()
	g := v.kind.Get("x")
	for _, key := range []string{"x", "y", "z"} {
		v.net.put(idOf(v.kind.Get(key)), b)
	}
	for _, fails := range []bool{true, false} {
		ends(t, ctx, start.Call(ctx, g, fails))
		if err := ticked(t, ticks); !errors.Is(err, grains.ErrDurableTurn) {
			t.Error("a call of another durable grain in a tick:", err)
		}
		want := map[bool]int{true: 0, false: 10}[fails]
		nodetest.Eventually(t, "the tick counts", func() bool { n, _ := v.get.Call(ctx, g).Get(ctx); return n == want })
	}
	nodetest.Eventually(t, "its Tell came", func() bool { n, _ := v.get.Call(ctx, v.kind.Get("z")).Get(ctx); return n == 1 })
	if n := v.kept("x"); n > 2 { // fewer once the driver has said that it has them
		t.Errorf("%d replies are kept, want those of the two calls at most", n)
	}
	v.net.put(idOf(g), a)
	wants(t, ctx, v.get.Call(ctx, g), 10) // stored

	ends(t, ctx, repeat.Call(ctx, g))
	ticked(t, ticks)
	v.net.put(idOf(g), b) // a's ticks cannot be stored any more
	var n int
	nodetest.Eventually(t, "a has let it go", func() bool { return a.engine.Activations("vault") == 0 })
	for len(ticks) > 0 {
		<-ticks
	}
	n, _ = v.get.Call(ctx, g).Get(ctx)
	wants(t, ctx, v.get.Call(ctx, g), n)
	if len(ticks) > 0 {
		t.Error("the timer outlived its struct")
	}
}

// ticked waits for a tick.
func ticked(t *testing.T, ticks chan error) (err error) {
	t.Helper()
	nodetest.Eventually(t, "it ticks", func() bool {
		select {
		case err = <-ticks:
			return true
		default:
			return false
		}
	})
	return err
}
