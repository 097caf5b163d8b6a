package guide_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/schedule"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// A Session forgets what it knows when nobody asks for ten minutes, and looks after its source meanwhile.
type Session struct {
	rates, refreshed int
	forget           func()
}

var (
	sessions = grains.Define[Session]("guide.time.session")
	look     = grains.Method0(sessions, "look", (*Session).Look)
)

func (s *Session) OnActivate(ctx context.Context) error {
	_, err := grains.Every(ctx, 30*time.Second, s.Refresh)
	return err
}

func (s *Session) Refresh(context.Context) error { // a turn: no lock
	s.refreshed++
	s.rates = s.refreshed
	return nil
}

func (s *Session) Look(ctx context.Context) (rates int, err error) {
	if s.forget != nil {
		s.forget() // not even one that is due comes after this
	}
	s.forget, err = grains.After(ctx, 10*time.Minute, func(context.Context) error {
		s.rates = 0
		return nil
	})
	return s.rates, err
}

func TestTimers(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, s := k.Context(), sessions.Get("alice")
		for _, c := range []struct {
			pause time.Duration
			want  int
		}{{0, 0}, {121 * time.Second, 4}, {601 * time.Second, 0}} {
			k.Advance(c.pause)
			if got, err := look.Call(ctx, s).Get(ctx); err != nil || got != c.want {
				t.Errorf("after %v: refresh %d, want %d: %v", c.pause, got, c.want, err)
			}
		}
	})
}

// A Customer owes what schedules have charged.
type Customer struct{ Owes grains.State[int] }

var (
	customers = grains.Define[Customer]("guide.time.customer", grains.Durable())
	charge    = grains.Action(customers, "charge", (*Customer).Charge)
	owes      = grains.Method0(customers, "owes", func(c *Customer, _ context.Context) (int, error) { return c.Owes.Value, nil }).ReadOnly()
	report    = tasks.Define0("guide.time.report", func(context.Context) (string, error) { return "all is well", nil })
)

func (c *Customer) Charge(ctx context.Context, cents int) error {
	if f, ok := schedule.Fired(ctx); ok && f.Missed > 0 {
		cents *= 1 + f.Missed // of the times that were left out since the last one
	}
	c.Owes.Value += cents
	return nil
}

func TestSchedules(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t := k.Context(), k.T()
		err := errors.Join(
			schedule.Call(ctx, "alice/bill", schedule.Every(30*24*time.Hour), charge, customers.Get("alice"), 499),
			schedule.Task0(ctx, "report", schedule.Cron("30 2 * * mon-fri", "Europe/Berlin"), report, schedule.Queue),
		)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(schedule.Run(ctx, "alice/bill"), schedule.Run(ctx, "report")); err != nil {
			t.Fatal(err)
		}
		k.Advance(10 * time.Second)
		if got, err := owes.Call(ctx, customers.Get("alice")).Get(ctx); got != 499 || err != nil {
			t.Errorf("Run now: %d, %v", got, err)
		}
		if got, err := raysys.Lookup[string](ctx, "report").Get(ctx); got != "all is well" || err != nil {
			t.Errorf("the report: %q, %v", got, err)
		}
	})
}
