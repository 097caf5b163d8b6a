package schedule_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/raysys/raysys/schedule"
	"github.com/raysys/raysys/testkit"
)

// TestChangedLine: a line that was changed is due first after the change, and has missed none of the times before it.
func TestChangedLine(t *testing.T) {
	const day = 24 * time.Hour
	for what, c := range map[string]struct {
		from, to schedule.When
		wait     time.Duration // behind the first firing
		next     time.Duration // of the new line, after the change
	}{
		"cron, daily":   {schedule.Cron("0 2 * * *", ""), schedule.Cron("0 10 * * *", ""), 14 * time.Hour, 18 * time.Hour},
		"cron, monthly": {schedule.Cron("0 0 10 * *", ""), schedule.Cron("0 0 11 * *", ""), 60 * time.Hour, 29*day + 12*time.Hour},
		"every":         {schedule.Every(day), schedule.Every(time.Minute), 14 * time.Hour, time.Minute},
	} {
		t.Run(what, func(t *testing.T) {
			testkit.Virtual(t, func(k *testkit.Kit) {
				clear()
				ctx, t, base := k.Context(), k.T(), time.Now()
				must(t, schedule.Call(ctx, "a", c.from, tick, clocks.Get("a"), base))
				first, err := c.from.Next(base)
				must(t, err)
				k.Advance(first.Sub(base) + c.wait)
				at := time.Since(base)
				must(t, schedule.Call(ctx, "a", c.to, tick, clocks.Get("a"), base))
				k.Advance(c.next - time.Second)
				want(t, "a", fmt.Sprint(first.Sub(base).Seconds()))
				k.Advance(2 * time.Second)
				want(t, "a", fmt.Sprint(first.Sub(base).Seconds()), fmt.Sprint((at + c.next).Round(time.Second).Seconds()))
			})
		})
	}
}

// TestFarTimes: what is far away does not come at once.
func TestFarTimes(t *testing.T) {
	at := func(year int) schedule.When { return schedule.At(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)) }
	const year = 365 * 24 * time.Hour
	for what, c := range map[string]struct {
		w    schedule.When
		opts []schedule.Option
	}{
		"2300":            {at(2300), nil},
		"2500":            {at(2500), nil},
		"3000":            {at(3000), nil},
		"9999":            {at(9999), nil},
		"2038":            {schedule.At(time.Unix(math.MaxInt32, 0)), nil},
		"every 200 years": {schedule.Every(200 * year), nil},
		"every 280 years": {schedule.Every(280 * year), nil},
		"jitter":          {schedule.Every(time.Hour), []schedule.Option{schedule.Jitter(math.MaxInt64)}},
		"jitter of At":    {at(2002), []schedule.Option{schedule.Jitter(math.MaxInt64)}},
	} {
		t.Run(what, func(t *testing.T) {
			testkit.Virtual(t, func(k *testkit.Kit) {
				clear()
				ctx, t := k.Context(), k.T()
				must(t, schedule.Call(ctx, "a", c.w, tick, clocks.Get("a"), time.Now(), c.opts...))
				k.Advance(30 * time.Minute)
				want(t, "a")
				if i, err := schedule.Get(ctx, "a"); err != nil || i.Missed > 0 || len(i.Running) > 0 || i.Why != "" || !i.Next.After(time.Now()) {
					t.Errorf("got %+v, %v", i, err)
				}
			})
		})
	}
}

// TestLongPause: the times of a pause of 30 days are passed over, and the next one comes.
func TestLongPause(t *testing.T) {
	for _, line := range []string{"* * * * *", "*/5 8-18 * * *", "* 0-23 * * *", "*/5 0-23 * * mon-fri"} {
		t.Run(line, func(t *testing.T) {
			testkit.Virtual(t, func(k *testkit.Kit) {
				clear()
				ctx, t, w := k.Context(), k.T(), schedule.Cron(line, "Europe/Berlin")
				must(t, schedule.Call(ctx, "h", w, tick, clocks.Get("h"), time.Now(), schedule.Paused()))
				k.Advance(30 * 24 * time.Hour)
				must(t, schedule.Resume(ctx, "h"))
				next, err := w.Next(time.Now())
				must(t, err)
				i, err := schedule.Get(ctx, "h")
				if err != nil || !i.Next.Equal(next) || i.Missed > 0 || len(written("h")) > 0 {
					t.Errorf("resumed: %+v, %v, want next %v", i, err, next)
				}
			})
		})
	}
}

// TestManyOfOneGrain: 300 schedules call one Durable grain each minute, and each due time counts: a firing takes no room of the replies to keys.
func TestManyOfOneGrain(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t := k.Context(), k.T()
		const n, minutes = 300, 60 // a grain keeps 16,384 replies to keys
		for i := range n {
			must(t, schedule.Call0(ctx, fmt.Sprint("s", i), schedule.Cron("* * * * *", ""), count, durable.Get("x")))
		}
		k.Advance(minutes*time.Minute + 10*time.Second)
		got, err := counted.Call(ctx, durable.Get("x")).Get(ctx)
		if err != nil || got != minutes*n {
			t.Errorf("%d were due, and %d counted: %v", minutes*n, got, err)
		}
		for i, err := range schedule.List(ctx, "") {
			if must(t, err); i.Missed > 0 || i.Why != "" {
				t.Errorf("got %+v", i)
			}
		}
	})
}
