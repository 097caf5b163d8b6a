package testkit_test

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// sharing is two programs of weights 1 and 3 whose tasks want more of two nodes of four CPUs, two devices and two licences each than there is.
type sharing struct {
	asks    [2][]raysys.Option
	lengths [2]time.Duration // of tasks, on average
	exactly bool             // all are as long as that
	all     int              // how much of what they share there is on the two nodes
	each    [2]int           // how much of that a task of each program has; 1 unless set
	least   float64          // how much of it is used, at least; 0.9 unless set, and two thirds of that in the short form
	window  time.Duration    // for how long they are watched, 10 s unless set; in the short form for a fraction of it
	grains  bool             // calls activate grains that hold a device each, ten a second
}

// TestJobsShareByWeight: two programs whose tasks wait for the same nodes get by weight what they wait for, be it CPUs, devices or a custom resource: its
// time, whatever the lengths of their tasks, and where all tasks of a node end at one moment. The long form watches them for
// longer and wants 10 % off at most; the short form wants 20 %: without weights the second would have half.
func TestJobsShareByWeight(t *testing.T) {
	gpu, licence, two := []raysys.Option{raysys.GPU(1)}, []raysys.Option{raysys.Resource("licence", 1)}, []raysys.Option{raysys.CPU(2)}
	one := []raysys.Option(nil)
	ms := func(a, b time.Duration) [2]time.Duration {
		return [2]time.Duration{a * time.Millisecond, b * time.Millisecond}
	}
	for name, c := range map[string]sharing{
		"same length":                 {lengths: ms(20, 20), all: 8},
		"ten times as long":           {lengths: ms(20, 200), all: 8},
		"exactly 100 ms":              {lengths: ms(100, 100), exactly: true, all: 8},
		"exactly 5 and 50 ms":         {lengths: ms(5, 50), exactly: true, all: 8},
		"devices":                     {asks: [2][]raysys.Option{gpu, gpu}, lengths: ms(20, 20), all: 4},
		"devices for long":            {asks: [2][]raysys.Option{gpu, gpu}, lengths: ms(40, 400), all: 4},
		"devices for exactly 50":      {asks: [2][]raysys.Option{gpu, gpu}, lengths: ms(50, 50), exactly: true, all: 4},
		"a custom resource":           {asks: [2][]raysys.Option{licence, licence}, lengths: ms(20, 60), all: 4},
		"two CPUs":                    {asks: [2][]raysys.Option{two, two}, lengths: ms(20, 20), all: 8, each: [2]int{2, 2}},
		"one CPU and two":             {asks: [2][]raysys.Option{one, two}, lengths: ms(20, 20), all: 8, each: [2]int{1, 2}, least: 0.8},
		"two CPUs and one":            {asks: [2][]raysys.Option{two, one}, lengths: ms(20, 20), all: 8, each: [2]int{2, 1}, least: 0.8},
		"one CPU and two for long":    {asks: [2][]raysys.Option{one, two}, lengths: ms(10, 80), all: 8, each: [2]int{1, 2}, least: 0.8},
		"one CPU and two for seconds": {asks: [2][]raysys.Option{one, two}, lengths: ms(1000, 4000), all: 8, each: [2]int{1, 2}, least: 0.8, window: 4 * time.Minute},
		"for seconds":                 {lengths: ms(4000, 1000), all: 8, window: 4 * time.Minute},
		"devices beside grains":       {asks: [2][]raysys.Option{gpu, gpu}, lengths: ms(20, 40), all: 4, grains: true, least: 0.5},
		"devices for seconds":         {asks: [2][]raysys.Option{gpu, gpu}, lengths: ms(4000, 1000), all: 4, window: 4 * time.Minute},
	} {
		withSeeds(t, name, c.run)
	}
}

// withDevice is a grain that holds a device.
type withDevice struct{}

func (*withDevice) Devices(ctx context.Context) (int, error) { return len(raysys.Devices(ctx)), nil }

func (c *sharing) run(t *testing.T, seed testkit.Option) {
	table := raysys.NewTable()
	var used [2]atomic.Int64
	task := tasks.DefineIn(table, "task", func(ctx context.Context, job int) (int, error) {
		d := c.lengths[job]
		if !c.exactly {
			d = d/2 + time.Duration(raysys.Rand(ctx).Int64N(int64(d)))
		}
		<-time.After(d)
		used[job].Add(int64(d) * int64(max(c.each[job], 1)))
		return 0, nil
	})
	grain := grains.DefineIn[withDevice](table, "device", grains.Holds(raysys.GPU(1)))
	call := grains.Method0(grain, "devices", (*withDevice).Devices)
	var called atomic.Int64
	testkit.Virtual(t, func(k *testkit.Kit) {
		if c.grains {
			go func() {
				for i := 0; k.Context().Err() == nil; i++ {
					began := time.Now()
					if _, err := call.Call(k.Context(), grain.Get(fmt.Sprint(i))).Get(k.Context()); err != nil || time.Since(began) > long.Form(10*time.Second, time.Second) {
						if k.Context().Err() == nil {
							t.Errorf("a call of a grain for which a device must become free: %v, after %v", err, time.Since(began))
						}
						return
					}
					called.Add(1)
					<-time.After(100 * time.Millisecond)
				}
			}()
		}
		cluster := k.Cluster()
		drivers := []context.Context{k.Context(), cluster.Node(3).Context(k.Context())}
		for job, ctx := range drivers {
			task := task.With(c.asks[job]...)
			go func() {
				var open chan struct{}
				if c.asks[job] != nil {
					open = make(chan struct{}, 100) // what waits in a line is looked at each 10 ms
				}
				for range long.Form(2000, 6000) { // 20 ms each, of 8 CPUs for 12 s, or a fifth of that
					if open != nil {
						open <- struct{}{}
					}
					ref := task.Go(ctx, job)
					if ctx.Err() != nil {
						return
					}
					if open != nil {
						go func() {
							ref.Get(ctx)
							<-open
						}()
					}
				}
			}()
		}
		window := cmp.Or(c.window, 10*time.Second) / long.Form[time.Duration](5, 1)
		k.Advance(window / 5)
		a, b := used[0].Load(), used[1].Load()
		k.Advance(window)
		a, b = used[0].Load()-a, used[1].Load()-b
		share, of := float64(b)/float64(a+b), float64(a+b)/float64(window)/float64(c.all)
		t.Logf("the second has %.3f, %.3f of all is used", share, of)
		if n := called.Load(); c.grains && n < long.Form[int64](5, 40) {
			t.Errorf("%d calls of grains have returned", n)
		}
		if off := long.Form(0.15, 0.075); share < 0.75-off || share > 0.75+off {
			t.Errorf("of weights 1 and 3 the second has %.3f of what is shared (%v and %v), want 0.75 and at most %v off", share, time.Duration(a), time.Duration(b), off)
		}
		if least := cmp.Or(c.least, 0.9) * long.Form(2./3, 1); of < least {
			t.Errorf("in %v %.2f of what there is was used, want at least %.2f", window, of, least)
		}
	}, seed, testkit.Table(table), testkit.CPU(4), testkit.Nodes(3), testkit.Each(func(i int, cfg *system.Config) {
		if i == 3 {
			cfg.Cluster.Role, cfg.Resources, cfg.Weight = system.Driver, raysys.Resources{}, 3
			return
		}
		cfg.Resources.GPU, cfg.Resources.Custom = 2, map[string]float64{"licence": 2}
	}))
}
