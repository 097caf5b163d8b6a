package guide_test

import (
	"context"
	"testing"
	"time"

	"github.com/raysys/raysys/grains"
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
